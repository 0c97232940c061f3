"""Errors in ranks and devices: averages, launching, failures, and the loops on them."""

from tests.mutants import Mutant

MPI = "purerl/mpi/__init__.py"
COLLECTIVE = "purerl/mpi/collective.py"
WORLD = "purerl/mpi/world.py"
LIBRARY = "purerl/mpi/library.py"
LAUNCH = "purerl/mpi/launch.py"
SIGNALS = "purerl/mpi/signals.py"
CARRY = "purerl/loops/carry.py"
OFF = "purerl/loops/offpolicy.py"
ON = "purerl/loops/onpolicy.py"
FIRST, RECORDS = "purerl/loops/first_carry.py", "purerl/loops/records.py"
TYPES = "purerl/types.py"
TRAIN = "purerl/runs/training/train.py"
CHECKPOINT = "purerl/runs/record/checkpoint.py"
T_MPI = "tests/mpi/test_collective.py"
T_RANKS = "tests/mpi/test_ranks.py"
T_LAUNCH = "tests/mpi/test_launch.py"
T_WORLD = "tests/mpi/test_world.py tests/mpi/test_watchdog.py"
T_LIBRARY = "tests/mpi/test_library.py"
T_SIGNALS = "tests/mpi/test_signals.py"
T_SHARDING = "tests/mpi/test_sharding.py"
T_HOST = "tests/mpi/test_host.py"
T_PROGRAMS = "tests/mpi/test_programs.py"
T_DEVICES = "tests/loops/test_devices.py"

MUTANTS = [
    Mutant("purerl/mpi/collective.py", 'return reduce("pmean", tree)', 'return reduce("psum", tree)', T_MPI),
    Mutant("purerl/mpi/host.py", "std = np.sqrt(psum(np.square(x - mean).sum()) / count)", "std = np.sqrt(np.square(x - mean).sum() / count)", T_RANKS),
    Mutant("purerl/mpi/host.py", "x.min(initial=np.inf), -x.max(initial=-np.inf)", "x.min(initial=np.inf), x.max(initial=-np.inf)", T_HOST),
    Mutant("purerl/mpi/host.py", "if world.get_world().rank == root else None", "if is_root() else None", T_RANKS),
    Mutant("purerl/mpi/host.py", '_assert_equal("the shapes of state", _digest_leaves(state, values=False))', "pass", T_RANKS),
    Mutant("purerl/mpi/host.py", "values * f", "0 * f", T_RANKS),
    Mutant("purerl/mpi/sharding.py", "state, info = update(state, _fold(batch))", "state, info = update(state, batch)", T_SHARDING),
    Mutant("purerl/mpi/sharding.py", "return state, pmean(info)", "return state, info", T_SHARDING),
    Mutant("purerl/mpi/sharding.py", "batch = _fold(_check_rows(batch, lax.axis_size(AXIS)))", "batch = _check_rows(batch, lax.axis_size(AXIS))", T_SHARDING),
    Mutant("purerl/mpi/sharding.py", "lax.axis_index(AXIS) * number, number)", "0, number)", T_SHARDING),
    Mutant("purerl/mpi/sharding.py", "or jnp.shape(leaf)[0] % number:", ":", T_SHARDING),
    Mutant(COLLECTIVE, "by_dtype.setdefault(jnp.result_type(leaf), []).append(i)", "by_dtype.setdefault(i, []).append(i)", T_MPI),
    Mutant(COLLECTIVE, "ordered=True", "ordered=False", T_RANKS),
    Mutant(COLLECTIVE, "        x = x / world.get_world().size\n", "        pass\n", T_RANKS),
    Mutant(COLLECTIVE, 'or op in ("pmin", "pmax")', "", T_RANKS),
    Mutant(COLLECTIVE, "return np.float32 if dtype.itemsize < 4 else dtype", "return dtype", T_RANKS),
    Mutant(COLLECTIVE, "np.int32 if dtype == np.bool_ else dtype", "dtype", T_RANKS),
    Mutant(COLLECTIVE, "    if devices == 1:\n        return False\n", "    return False\n", T_RANKS),
    Mutant(COLLECTIVE, "if len(set(everyone)) > 1:", "if False:", T_WORLD),
    Mutant(WORLD, 'os.environ["PURERL_MPI"] = "0"', "pass", T_RANKS),
    Mutant(WORLD, 'os.environ.setdefault("NPROC", str(threads))', "pass", T_LAUNCH),
    Mutant(WORLD, "int(min(everyone.allgather(share)))", "share", T_WORLD),
    Mutant("purerl/mpi/watchdog.py", "    if not limit > 0:", "    if limit <= 0:", T_WORLD),
    Mutant(WORLD, "    watchdog.send_to_all(found, mine)\n", "", T_RANKS),
    Mutant(WORLD, "== [mine] * (found.size - 1)", "!= []", T_RANKS),
    Mutant("purerl/mpi/watchdog.py", "        _check_signals(found, stopping)\n", "", T_WORLD),
    Mutant(SIGNALS, "            elif now - self.since > SAME_SIGNAL_SECONDS:", "            else:", T_SIGNALS),
    Mutant(SIGNALS, "or entered > self.since:", ":", T_SIGNALS),
    Mutant(SIGNALS, "        before = signal.set_wakeup_fd(other_end, warn_on_full_buffer=False)\n", "        before = -1\n", T_SIGNALS),
    Mutant(WORLD, "        if (size or 1) > 1:", "        if False:", T_WORLD),
    Mutant(LIBRARY, "except (ImportError, RuntimeError) as error:", "except ImportError as error:", T_LIBRARY),
    Mutant("purerl/mpi/watchdog.py", "    sys.excepthook = functools.partial(_handle_error, found)\n", "", T_WORLD),
    Mutant("purerl/mpi/watchdog.py", "    threading.excepthook = functools.partial(_handle_thread_error, found)\n", "", T_WORLD),
    Mutant("purerl/mpi/watchdog.py", "if args.exc_type is not SystemExit:", "if True:", T_WORLD),
    Mutant("purerl/mpi/watchdog.py", "    found.leaving = time.monotonic()\n", "", T_WORLD),
    Mutant(LAUNCH, '    env.pop("PURERL_MPI", None)  # meant for this process, not for its ranks\n', "", T_LAUNCH),
    Mutant(COLLECTIVE, "    if op in _EXTREMES:", "    if False:", T_RANKS),
    Mutant(COLLECTIVE, "return np.float64 if dtype.itemsize == 8 else np.float32", "return np.float32", T_RANKS),
    Mutant("purerl/mpi/watchdog.py", "if since is not None and begun > counts[i]:", "if False:", T_WORLD),
    Mutant("purerl/mpi/watchdog.py", "    atexit.register(_leave, found, stop, watcher)\n", "", T_WORLD),
    Mutant("purerl/mpi/watchdog.py", "if not waits or now - min(waits) <= found.limit:", "if True:", T_WORLD),
    Mutant("purerl/mpi/watchdog.py", "            _print_stacks(found)\n", "", T_WORLD),
    Mutant("purerl/mpi/watchdog.py", "issubclass(kind, RanksDisagree | KeyboardInterrupt)", "issubclass(kind, KeyboardInterrupt)", T_WORLD),
    Mutant(LIBRARY, '    if wanted == "0":\n        return None\n', "", T_LIBRARY),
    Mutant(LAUNCH, "if ranks not in (None, size := world.get_world().size):", "if False:", T_LAUNCH),
    Mutant(LAUNCH, "*sys.orig_argv[1:]", "*sys.argv", T_LAUNCH),
    Mutant(LAUNCH, "ctypes.CDLL(None).prctl(1, signal.SIGTERM)", "pass", T_LAUNCH),
    Mutant(LAUNCH, "number != signal.SIGHUP and now", "now", T_LAUNCH),
    Mutant(LAUNCH, "            write_note(str(self.folder), passed)\n", "            pass\n", T_LAUNCH),
    Mutant(LAUNCH, "and now - self.since > SAME_SIGNAL_SECONDS:", "and True:", T_LAUNCH),
    Mutant(LAUNCH, "    return began - done", "    return {0, 1} - done", T_LAUNCH),
    Mutant(LAUNCH, '"--bind-to", "none", "--oversubscribe"', '"--bind-to", "none"', T_LAUNCH),
    Mutant(LAUNCH, "            process_group=0,", "            process_group=None,", T_LAUNCH),
    Mutant(LAUNCH, "        return code if code >= 0 else 128 - code\n    first", "        return 0\n    first", T_LAUNCH),
    Mutant(LAUNCH, "(code if code > 0 else 128 - code) if code else 1", "code", T_LAUNCH),
    Mutant(LAUNCH, "next((some & unfinished for some in ended if some & unfinished), unfinished)", "unfinished", T_LAUNCH),
    Mutant(LAUNCH, "env.setdefault(name, str(max(1, cores // ranks)))", "env[name] = str(max(1, cores // ranks))", T_LAUNCH),
    Mutant(LAUNCH, '    if importlib.util.find_spec("mpi4py") is None:', "    if False:", T_PROGRAMS),
    Mutant(RECORDS, "    if carry.ranks > 1:\n        mpi.assert_in_sync", "    if False:\n        mpi.assert_in_sync", T_WORLD),
    Mutant(RECORDS, "zip(*mpi.allgather(mine), strict=True)", "zip(*[mine], strict=True)", T_RANKS),
    Mutant(RECORDS, "tally=init_tally(len(carry.metrics), carry.schedule.devices)", "tally=init_tally(len(carry.metrics), 1)", T_DEVICES),
    Mutant("purerl/loops/devices.py", "return jax.tree.map(lambda x: x.addressable_data(0), params)", "return params", T_DEVICES),
    Mutant(FIRST, '"learner": devices.replicate(mpi.sync(learner), schedule.devices)', '"learner": learner', T_DEVICES),
    Mutant(FIRST, "    devices.check_world(algo, spec, resolved, seed, in_jax)\n", "", T_DEVICES),
    Mutant(FIRST, "    devices.check_world(algo, spec, resolved, seed, in_jax)\n", "", T_WORLD),
    Mutant(RECORDS, "range(carry.rank, schedule.num_test_episodes, carry.ranks)", "range(schedule.num_test_episodes)", T_RANKS),
    Mutant(RECORDS, "everyone = mpi.allgather(own)", "everyone = [own]", T_RANKS),
    Mutant(OFF, "        info = mpi.pmean(info)\n", "        pass\n", T_DEVICES),
    Mutant(ON, "        info = mpi.pmean(info)\n", "        pass\n", T_DEVICES),
    Mutant(ON, "        if devices > 1:  #", "        if False:  #", T_DEVICES),
    Mutant(ON, "x[: len(x) // devices]", "x", T_DEVICES),
    Mutant(CHECKPOINT, "_read_rank(run, one, content, rank), mpi.allgather", "_read_rank(run, one, content, rank)", T_RANKS),
    Mutant("purerl/runs/training/requirements.py", '    mpi.assert_in_sync(_flatten_config(made[0]) | {"checkpoint": str(at)}, "the configuration")\n', "", T_RANKS),
    Mutant("purerl/runs/training/restoring.py", '        mpi.assert_in_sync(snapshot.select_shared(carry), f"the checkpoint of step {loaded.step:,}")\n', "", T_RANKS),
    Mutant("purerl/cli/main.py", "    elif not mpi.all_raise(error):", "    elif mpi.num_procs() > 1:", T_PROGRAMS),
    Mutant("purerl/loops/devices.py", "ranks if mpi.num_procs() == 1 else mpi.num_local()", "1", T_RANKS),
    Mutant("purerl/loops/devices.py", "return schedule.devices * (", "return 1 * (", "tests/reliability/test_room.py"),
    Mutant("purerl/moments.py", "    var = mpi.psum(jnp.square(rows - mean[None]).sum(axis=0)) / new\n", "    var = mpi.pmean(jnp.square(rows - mean[None]).mean(axis=0))\n", T_RANKS),
]  # fmt: skip
