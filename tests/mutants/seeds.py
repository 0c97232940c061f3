"""Mutants of several seeds in one program."""

from tests.mutants import Mutant

TOGETHER, LOCKSTEP = "purerl/loops/seeds/together.py", "purerl/loops/seeds/lockstep.py"
GYM, ACTING, CARRY = "purerl/loops/gym.py", "purerl/loops/acting.py", "purerl/loops/carry.py"
OFF, ON, FIRST = (f"purerl/loops/{x}.py" for x in ("offpolicy", "onpolicy", "first_carry"))
DEVICES, SNAPSHOT = "purerl/loops/devices.py", "purerl/loops/snapshot.py"
T_TOGETHER, T_LOCKSTEP = (f"tests/loops/seeds/test_{x}.py" for x in ("together", "lockstep"))
ALONE = f"{T_LOCKSTEP}::test_each_seed_ends_as_if_it_had_been_trained_alone[dqn]"
ACER = f"{T_LOCKSTEP}::test_each_seed_ends_as_if_it_had_been_trained_alone[acer]"
UNEVEN = f"{T_LOCKSTEP}::test_seeds_whose_vector_environments_need_different_numbers_of_steps[dqn]"

MUTANTS = [
    # Joined and split.
    Mutant(TOGETHER, "    if len(set(several)) < len(several):", "    if False:", T_TOGETHER),
    Mutant(TOGETHER, '("algo", "schedule", "steps", *', '("algo", "schedule", *', T_TOGETHER),
    Mutant(TOGETHER, '("algo", "schedule", "steps", *', '("algo", "steps", *', T_LOCKSTEP),
    Mutant(TOGETHER, '*(("envs",) if kinds[0] else ())', "*()", T_TOGETHER),
    Mutant(TOGETHER, "    if own != spec:", "    if False:", f"{T_TOGETHER} {T_LOCKSTEP}"),
    Mutant(TOGETHER, "    if kinds[0] != kinds[1]:", "    if False:", T_LOCKSTEP),
    Mutant(TOGETHER, "jax.tree.map(lambda x: x[i], together.data)", "jax.tree.map(lambda x: x[0], together.data)", T_TOGETHER),
    Mutant(TOGETHER, "jax.eval_shape(lambda: read_data(carry))._asdict()", "{}", T_TOGETHER),
    Mutant(TOGETHER, "        one.refuse_stale()\n", "", T_TOGETHER),
    Mutant(TOGETHER, "        refuse_devices(one.schedule)\n", "        pass\n", T_LOCKSTEP),
    Mutant(TOGETHER, "len({id(one.envs) for one in carries}) < len(carries)", "False", T_LOCKSTEP),
    Mutant(TOGETHER, "is_consumed or any(carry.is_behind for carry in self.carries)", "is_consumed", T_LOCKSTEP),
    Mutant(TOGETHER, "jax.tree.leaves(self.data))", "jax.tree.leaves(self.data.learner))", T_LOCKSTEP),
    Mutant(CARRY, "self.is_behind or is_consumed", "is_consumed", T_LOCKSTEP),
    # Records and errors of each seed.
    Mutant(TOGETHER, "tally=jnp.stack([carry.tally for carry, _ in closed])", "tally=together.data.tally", ALONE),
    Mutant(TOGETHER, "dataclasses.replace(carry, tally=tally)", "dataclasses.replace(carry, tally=tallies[0])", ALONE),
    Mutant(TOGETHER, "~np.asarray(finite, bool)", "~np.asarray(finite)", ACER),
    Mutant(TOGETHER, "records.check_learner(select_seed(together, i)", "records.check_learner(select_seed(together, 0)", T_LOCKSTEP),
    Mutant(TOGETHER, '        error.add_note(f"The seed is {seed}.")\n', "", T_LOCKSTEP),
    Mutant(LOCKSTEP, "                with name_seed(together.carries[i].seed):\n                    raise error\n", "                raise\n", T_LOCKSTEP),
    Mutant(LOCKSTEP, "    check_learners(together, updates, finite)\n", "", T_LOCKSTEP),
    # Keys and actions.
    Mutant(ACTING, "tuple(one.seed for one in carries), firsts", "(carries[0].seed,) * len(carries), firsts", ALONE),
    Mutant(ACTING, "np.array(calls) % _KEYS]", "0]", ALONE),
    Mutant(ACTING, "[[seed, 0, first >> 32, first & 0xFFFFFFFF]", "[[seed, 0, 0, 0]", "tests/loops/test_acting.py"),
    Mutant(LOCKSTEP, "acting.pack_key_words(*pair) for pair in zip(carries, calls", "acting.pack_key_words(*pair) for pair in zip(carries[:1] * len(carries), calls", ALONE),
    Mutant(LOCKSTEP, "[x if flag else y for flag", "[y if flag else x for flag", f"{T_LOCKSTEP} -k different_numbers"),
    Mutant(LOCKSTEP, "    if any(random):\n", "    if all(random):\n", f"{T_LOCKSTEP} -k different_numbers"),
    Mutant(LOCKSTEP, "                left.remove(i)\n", "                left.clear()\n", UNEVEN),
    # Bursts and rollouts.
    Mutant(LOCKSTEP, "[acting.pack_key_words(one, one.updates) for one in carries]),\n        _share", "[acting.pack_key_words(first, one.updates) for one in carries]),\n        _share", ALONE),
    Mutant(LOCKSTEP, "words = _stack([acting.pack_key_words(one, one.updates)", "words = _stack([acting.pack_key_words(one, first.updates)", ACER),
    Mutant(LOCKSTEP, "        updates, finite = np.asarray(counted).T.tolist()", "        finite = np.asarray(counted).T.tolist()[1]", ACER),
    Mutant(LOCKSTEP, "updates=one.updates + number)", "updates=one.updates + updates[0])", ACER),
    Mutant(DEVICES, "[None if i == shared else 0 for i", "[0 for i", ALONE),
    # Goals.
    Mutant(LOCKSTEP, "found.append(function(*part))", "found.append(functions[0](*part))", T_LOCKSTEP),
    Mutant(LOCKSTEP, "return np.concatenate(found)", "return np.concatenate(found[::-1])", f"{T_LOCKSTEP} -k replay_goals"),
    # Interrupted advances.
    Mutant(LOCKSTEP, "        if should_stop and should_stop():\n            raise AdvanceStopped\n", "", T_LOCKSTEP),
    Mutant(GYM, "            envs.calls = calls\n", "", f"{T_LOCKSTEP} tests/loops/test_snapshot.py"),
    Mutant(GYM, "            envs.rewind(marks)\n", "", T_LOCKSTEP),
    Mutant(SNAPSHOT, "        envs.rewind(marks)\n        raise", "        raise", T_LOCKSTEP),
    Mutant(SNAPSHOT, "    envs.calls = carry.calls\n", "", "tests/loops/test_snapshot.py"),
    Mutant(OFF, "    envs.calls = calls\n", "", "tests/loops/test_offpolicy.py"),
    Mutant(ON, "    envs.calls = calls\n", "", "tests/loops/test_onpolicy.py"),
    # Arguments.
    Mutant(GYM, "        refuse_devices(schedule)\n", "        pass\n", T_LOCKSTEP),
    Mutant(TOGETHER, "    if seeds is not None:\n        refuse_ranks()\n", "", T_LOCKSTEP),
    Mutant(GYM, "if is_new := makers[i] not in makers[:i]:", "if is_new := True:", T_LOCKSTEP),
    Mutant(GYM, "1 if is_alone else 2 * len(several)", "1", T_LOCKSTEP),
    Mutant(FIRST, "or len(makers) != number:", "or False:", T_LOCKSTEP),
]  # fmt: skip
