"""Mutants of the loop with one update after each step."""

from tests.mutants import Mutant

STEPS, PACKING = "purerl/loops/stepwise/steps.py", "purerl/loops/stepwise/packing.py"
CARRY, SNAPSHOT = "purerl/loops/carry.py", "purerl/loops/snapshot.py"
RECORDS, FAULTS, REPLAY = (
    "purerl/loops/records.py",
    "purerl/loops/faults.py",
    "purerl/buffers/replay.py",
)
T_STEPS, T_PACKING = "tests/loops/stepwise/test_steps.py", "tests/loops/stepwise/test_packing.py"
T_FAULTS = "tests/loops/test_faults.py"

MUTANTS = [
    # When it applies.
    Mutant(
        STEPS,
        "carry.steps + 1 >= schedule.update_after",
        "carry.steps >= schedule.update_after",
        T_STEPS,
    ),
    Mutant(
        STEPS,
        "schedule.update_every == schedule.updates_per_burst == 1",
        "schedule.update_every == 1",
        T_STEPS,
    ),
    Mutant(
        STEPS,
        "schedule.update_every == schedule.updates_per_burst == 1",
        "schedule.updates_per_burst == 1",
        T_STEPS,
    ),
    Mutant(STEPS, "        and schedule.devices == 1\n", "", T_STEPS),
    Mutant(STEPS, "        and isinstance(carry.envs, adapters.SingleEnvs)\n", "", T_STEPS),
    Mutant(STEPS, "        and carry.relabelling is None\n", "", T_STEPS),
    # A step.
    Mutant(
        STEPS, "    if should_stop and should_stop():\n        raise AdvanceStopped\n", "", T_STEPS
    ),
    Mutant(STEPS, "    faults.check_rows(step.rows, _FIRST, carry.steps, 1)\n", "", T_STEPS),
    Mutant(STEPS, "    if clips_targets:", "    if False:", T_STEPS),
    Mutant(STEPS, "carry.calls + 1)\n", "carry.calls)\n", T_STEPS),
    Mutant(STEPS, "    packed.delete_tree()\n", "", T_STEPS),
    Mutant(
        STEPS, "arrays, added, np.asarray(act))", "arrays, added - 1, np.asarray(act))", T_STEPS
    ),
    Mutant(STEPS, "arrays, added, np.asarray(act))", "arrays, added)", T_STEPS),
    Mutant(STEPS, "        updates=carry.updates + 1,\n", "", T_STEPS),
    Mutant(STEPS, "    records.check_learner(carry, 1, np.asarray(finite))\n", "", T_STEPS),
    Mutant(STEPS, "    if carry.steps < carry.schedule.start_steps:", "    if False:", T_STEPS),
    Mutant(
        STEPS,
        "carry.steps < carry.schedule.start_steps",
        "carry.steps <= carry.schedule.start_steps",
        T_STEPS,
    ),
    Mutant(STEPS, "        carry.pack().act = act\n", "        pass\n", T_STEPS),
    Mutant(STEPS, "step.rows, *drawn, step.obs, key", "step.rows, *drawn, carry.obs, key", T_STEPS),
    # The update.
    Mutant(
        STEPS,
        "    batch = offpolicy.add_noise(",
        "    batch = (lambda algo, learner, batch: batch._replace(noise=jnp.ones((4, 1, 1))))(",
        T_STEPS,
    ),
    Mutant(STEPS, "replay.take(buffer, index", 'replay.take(tree["buffer"], index', T_STEPS),
    Mutant(STEPS, "algo.act(learner.params, obs", 'algo.act(tree["learner"].params, obs', T_STEPS),
    Mutant(STEPS, '"tally": tally, "buffer"', '"tally": tree["tally"], "buffer"', T_STEPS),
    # Indices drawn ahead.
    Mutant(
        STEPS,
        "carry.updates - carry.updates % AHEAD, carry.updates % AHEAD",
        "carry.updates, 0",
        T_STEPS,
    ),
    Mutant(STEPS, "min(added - i, capacity)", "added - i", T_STEPS),
    Mutant(STEPS, "min(added - i, capacity)", "min(added, capacity)", T_STEPS),
    Mutant(STEPS, "first >> 32, first", "0, first", T_STEPS),
    Mutant(STEPS, ".clip(1, capacity)", ".clip(1)", T_STEPS),
    Mutant(STEPS, "words.at[3].add(i.astype(jnp.uint32))", "words", T_STEPS),
    # Packing.
    Mutant(PACKING, "<= SMALL", "< SMALL", T_PACKING),
    Mutant(PACKING, "            first += size\n", "", T_PACKING),
    Mutant(PACKING, "groups.setdefault(dtype, [])", 'groups.setdefault("", [])', T_PACKING),
    Mutant(PACKING, "@functools.lru_cache(maxsize=64)\n", "", T_PACKING),
    Mutant(PACKING, "(*self.arrays, *read)", "self.arrays", T_STEPS),
    Mutant(PACKING, "        if self.is_deleted():\n", "        if False:\n", T_PACKING),
    Mutant(
        PACKING, "            raise AttributeError(self.name)", "            return None", T_PACKING
    ),
    # The carry and its snapshot.
    Mutant(CARRY, "added=int(self.buffer.stored)", "added=self.steps", T_STEPS),
    Mutant(CARRY, "        packed.tree = tree\n", "", T_STEPS),
    Mutant(
        CARRY,
        "held.is_deleted() if isinstance(held, Packed)",
        "False if isinstance(held, Packed)",
        T_STEPS,
    ),
    Mutant(
        SNAPSHOT, '        host["next_act"] = np.array(carry.next_act)\n', "        pass\n", T_STEPS
    ),
    Mutant(SNAPSHOT, '        rows["next_act"] = carry.surplus.act\n', "        pass\n", T_STEPS),
    Mutant(SNAPSHOT, "    if not lost:\n        return carry, []\n", "", T_STEPS),
    Mutant(RECORDS, "carry.ep_return + step.rows.rew", "carry.ep_return", T_STEPS),
    Mutant(RECORDS, '"ep_length": carry.ep_length + 1', '"ep_length": carry.ep_length', T_STEPS),
    Mutant(RECORDS, "    if step.ended or step.valid is not None:", "    if False:", T_STEPS),
    Mutant(FAULTS, "math.isfinite(np.vdot(x, x))", "True", T_FAULTS),
    Mutant(
        REPLAY,
        "    return take(buffer, *draw_indices(buffer, key, batch_size))",
        "    return take(buffer, draw_indices(buffer, key, batch_size)[0], key)",
        "tests/buffers/test_replay.py",
    ),
]
