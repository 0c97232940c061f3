"""Checks that need several ranks; `test_ranks.py` runs all of them in one job under mpiexec.

    mpiexec -n 2 python -m tests.mpi.checks [part of a name]

Every rank prints `ok NAME` for each check; the first that fails ends the job.
"""

import contextlib
import dataclasses
import functools
import math
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P

import purerl
from purerl import algos, errors, moments, mpi
from purerl.algos import trpo
from purerl.buffers import replay, return_replay
from purerl.envs.gymnasium_env import GymnasiumEnv
from purerl.loops import devices, records, scan, snapshot
from purerl.loops import gym as loop
from purerl.mpi import collective, world
from purerl.runs.record import checkpoint
from purerl.runs.settings import config
from purerl.runs.training import restoring, train
from purerl.runs.training.progress_bar import Screen
from purerl.runs.training.saving import describe_run
from purerl.schedules import OffPolicySchedule, OnPolicySchedule, SequenceSchedule
from purerl.spaces import EnvSpec
from tests.algos.pg import theta
from tests.algos.test_trpo import normal
from tests.cases import CASES
from tests.loops.scan.drift import make_case

RANK = mpi.proc_id()
RANKS = mpi.num_procs()


def raises(kind: type[Exception], words: str, function: Any, *args: Any) -> None:
    """Assert that a call fails with these words in its message."""
    with pytest.raises(kind, match=re.escape(words)):
        function(*args)


def same_everywhere(tree: Any) -> bool:
    """Say whether a tree has the same bits on all ranks."""
    try:
        mpi.assert_in_sync(tree)
    except mpi.RanksDisagree:
        return False
    return True


def init(case: Any, **changes: Any) -> Any:
    """Return a new learner from one program, instead of one program for each operation."""
    return jax.jit(case.algo.init, static_argnums=1)(jax.random.key(0), case.spec(**changes))


def alone(function: Any) -> Any:
    """Return the function as one process would run it."""
    compiled = jax.jit(lambda *args: function(*args))  # a new function: nothing is traced yet

    def run(*args: Any) -> Any:
        kept, collective.reduce = collective.reduce, lambda op, tree: tree
        try:
            return compiled(*args)
        finally:
            collective.reduce = kept

    return run


def check_ranks_know_each_other() -> None:
    assert RANKS == int(os.environ["PMI_SIZE"]) > 1
    assert mpi.allgather(RANK) == list(range(RANKS))
    assert mpi.allgather(mpi.is_root()) == [True] + [False] * (RANKS - 1)


def check_a_process_that_a_rank_starts_is_no_rank() -> None:
    code = "from purerl import mpi; print(mpi.num_procs())"
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "1\n"


TREE = {
    "matrix": np.arange(6, dtype=np.float32).reshape(2, 3) * (RANK + 1),
    "scalar": np.float32(3.5 - RANK),
    "half": np.asarray(RANK + 1, jnp.bfloat16),
    "whole": np.array([RANK, -5 * RANK], np.int32),
    "flag": np.array([RANK == 0, True]),
    "nothing": np.zeros((0, 2), np.float32),
    "none": None,
}
REDUCE = {"pmean": np.mean, "psum": np.sum, "pmin": np.min, "pmax": np.max}


def reduce_with_numpy(name: str) -> dict[str, np.ndarray]:
    everyone = mpi.allgather(jax.tree.map(lambda x: np.asarray(x, np.float64), TREE))
    stacked = jax.tree.map(lambda *x: np.stack(x), *everyone)
    return jax.tree.map(lambda x: np.asarray(REDUCE[name](x, axis=0)), stacked)


def check_reductions_in_a_program_and_on_the_host() -> None:
    for name in REDUCE:
        right = reduce_with_numpy(name)
        for found in (jax.jit(getattr(mpi, name))(TREE), getattr(mpi, name)(TREE)):
            jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-6), right, found)
            assert found["half"].dtype == jnp.bfloat16
            assert found["matrix"].dtype == np.float32
            assert found["whole"].dtype.kind == ("f" if name == "pmean" else "i")
            assert (found["flag"].dtype.kind == "b") == (name in ("pmin", "pmax"))
        assert same_everywhere(jax.jit(getattr(mpi, name))(TREE))
    assert mpi.pmean(float(RANK)) == (RANKS - 1) / 2
    assert isinstance(mpi.psum(2), int)
    assert isinstance(mpi.psum(jnp.ones(3)), jax.Array)
    assert mpi.pmean(()) == ()
    raises(ValueError, "a key has no mean", mpi.pmean, jax.random.key(0))


def check_a_value_that_is_not_a_number_wins_everywhere() -> None:
    x = np.float32([math.nan if RANK == 1 else 1.0, RANK])
    for name in ("pmin", "pmax"):
        for reduce in (getattr(mpi, name), jax.jit(getattr(mpi, name))):
            found = np.asarray(reduce(x))
            assert math.isnan(found[0])
            assert found[1] == (0 if name == "pmin" else RANKS - 1)
    assert all(math.isnan(y) for y in mpi.statistics(x[:1], min_max=True))


def check_complex_and_large_numbers_keep_what_they_have() -> None:
    z = np.complex64(1 + 2j) * (RANK + 1)
    wanted = (1 + 2j) * np.mean(np.arange(RANKS) + 1)
    for reduce in (mpi.pmean, jax.jit(mpi.pmean)):
        np.testing.assert_allclose(reduce(z), wanted, rtol=1e-6)
    assert mpi.pmean(2**24 + 1) == 2**24 + 1


def check_statistics_with_uneven_and_empty_ranks() -> None:
    rng = np.random.default_rng(0)
    everything = [1000.0 + rng.normal(size=3 * rank) for rank in range(RANKS)]  # rank 0: none
    x = np.concatenate(everything)
    found = mpi.statistics(everything[RANK], min_max=True)
    np.testing.assert_allclose(found, (x.mean(), x.std(), x.min(), x.max()), rtol=1e-12)
    assert same_everywhere(np.array(found))
    raises(ValueError, "at least one number over all ranks", mpi.statistics, [])


def check_two_averages_in_one_program_keep_their_order() -> None:
    def work(x: jax.Array, number: int) -> jax.Array:
        return jax.lax.fori_loop(0, number, lambda _, y: jnp.tanh(y @ y), x)

    @functools.partial(jax.jit, static_argnums=2)
    def both(a: jax.Array, b: jax.Array, slow: int) -> Any:
        return mpi.pmean(work(a, slow) * 0 + a), mpi.pmean(work(b, 200 - slow) * 0 + b)

    for trial in range(20):
        a, b = np.full((2, 40, 40), np.float32([[[1]], [[2]]]) * (trial + 1), np.float32)
        mean_a, mean_b = both(a, b, 200 if trial % 2 == RANK else 0)
        assert (np.asarray(mean_a) == a).all()
        assert (np.asarray(mean_b) == b).all()


def check_averages_inside_of_loops_branches_and_donated_programs() -> None:
    mean = (RANKS - 1) / 2

    @functools.partial(jax.jit, donate_argnums=0)
    def program(x: jax.Array, yes: Any) -> jax.Array:
        x, _ = jax.lax.scan(lambda c, _: (mpi.pmean(c) + 1, None), x, None, 3)
        x = jax.lax.while_loop(lambda c: c.sum() < 100, lambda c: mpi.pmean(c) + 50, x)
        return jax.lax.cond(yes, lambda c: mpi.pmean(c + RANK), lambda c: c, x)

    x = jnp.full(2, float(RANK))
    assert np.asarray(program(x, True)).tolist() == [2 * mean + 53] * 2
    assert x.is_deleted()


def check_gradients_are_averaged_before_clipping() -> None:
    tx = optax.chain(mpi.pmean_grads(), optax.clip(1.0), optax.sgd(1.0))
    step = jax.jit(lambda g: tx.update(g, tx.init(jnp.zeros(())))[0])
    grads = [10.0, -8.4, *[0.0] * (RANKS - 2)]
    np.testing.assert_allclose(step(grads[RANK]), -sum(grads) / RANKS, rtol=1e-6)


def check_impossible_uses_raise() -> None:
    raises(ValueError, "vmap over 2 copies", jax.vmap(jax.jit(mpi.pmean)), np.ones((2, 3)))
    raises(ValueError, "has no derivative", jax.grad(mpi.pmean), 1.0)
    mesh = Mesh(np.array(jax.local_devices()), ("anything",))
    part = jax.shard_map(mpi.pmean, mesh=mesh, in_specs=P("anything"), out_specs=P("anything"))
    raises(RuntimeError, "over 2 devices cannot average", jax.jit(part), np.ones(2))
    case = CASES["td3"]
    state = init(case)
    update = mpi.shard_update(case.algo.update)
    raises(RuntimeError, "over 2 devices cannot average", update, state, case.noisy())
    spec = algos.load("ppo").Spec(EnvSpec.of(pole()), hidden=(8,))
    split = OnPolicySchedule(devices=2, steps_per_epoch=40 * RANKS, steps=80 * RANKS)
    args = (algos.load("ppo"), spec, pole, split, 0)
    raises(ValueError, "do not go together", loop.start, *args)
    args = (*make_case("ppo", devices=2), 0)
    raises(ValueError, f"devices=2 on {RANKS} ranks needs jax.distributed", scan.start, *args)
    uneven = OnPolicySchedule(steps_per_epoch=1_000 * RANKS + 1, steps=1_000 * RANKS + 1)
    args = (algos.load("ppo"), spec, pole, uneven, 0)
    text = f"from {1_000 * RANKS + 1:,} to {1_001 * RANKS:,}"
    with pytest.warns(errors.CountsRounded, match=text):
        carry = loop.start(*args)
    assert carry.schedule.steps == 1_001 * RANKS
    carry.envs.close()


def check_vmap_over_an_axis_and_ranks_averages_over_both() -> None:
    x = np.float32([RANK, RANK + 10])
    both = jax.vmap(mpi.pmean, axis_name=mpi.AXIS)(x)
    np.testing.assert_allclose(both, (RANKS - 1) / 2 + 5)


def check_states_come_into_step_and_are_equal() -> None:
    mine = {"x": jnp.arange(3) + RANK, "key": jax.random.key(RANK), "number": RANK, "y": np.ones(2)}
    assert not same_everywhere(mine)
    synced = mpi.sync(mine)
    assert same_everywhere(synced)
    assert synced["x"].tolist() == [0, 1, 2]
    assert synced["number"] == 0
    assert isinstance(synced["y"], np.ndarray)
    assert mpi.broadcast(RANK, root=1) == 1
    other = mine | {"x": jnp.zeros(3 + RANK)}
    raises(mpi.RanksDisagree, "['x']: rank 0 float32[3]; rank 1 float32[4]", mpi.sync, other)
    words = {"a": "same", "b": f"other {RANK}"}
    raises(mpi.RanksDisagree, "1 of 2 entries of words", mpi.assert_in_sync, words, "words")


FEW = ("td3",)


def check_every_algorithm_learns_the_same_from_parts_as_one_from_all() -> None:
    # Programs that average are compiled at every start, so only `make test-mpi` takes all cases.
    # In `make test`, the contract averages all algorithms over an axis of one process.
    for name in FEW if RANKS == 2 else CASES:
        case = CASES[name]
        size = 6 * RANKS
        state = init(case)
        whole = case.noisy(size)
        mine = jax.tree.map(lambda x: x[6 * RANK : 6 * RANK + 6], whole)
        if case.on_policy:  # minibatches are shuffled, and weights have mean one over all
            whole, mine = (b._replace(weight=np.ones_like(b.weight)) for b in (whole, mine))
        split, info = case.algo.update(state, mine)
        whole_update = alone(case.algo.update.__wrapped__)
        if algos.get_facts(case.algo).splits_batches:
            close(split, whole_update(state, whole)[0], name)
        twice = jax.tree.map(lambda x: np.concatenate([x] * RANKS), mine)
        assert not same_everywhere(whole_update(state, twice)[0].params), name
        for _ in range(2):
            split, info = case.algo.update(split, mine)
        assert same_everywhere((split.params, split.opt_state, split.step)), name
        assert np.isfinite(list(info.values())).all()


def close(a: Any, b: Any, name: str) -> None:
    for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-3, atol=1e-4, err_msg=name)


def check_advantages_and_weights_are_over_all_ranks() -> None:
    for name in ("vpg-box", "reinforce-discrete", "ppo-options"):
        case = CASES[name]
        params = init(case).params
        rollout = rollouts(case, RANKS)
        mine = jax.tree.map(lambda x: x[:, 2 * RANK : 2 * RANK + 2], rollout)
        split = jax.jit(case.algo.prepare)(params, mine)
        whole = alone(case.algo.prepare)(params, rollout)
        for field in ("adv", "ret", "weight"):
            part = getattr(whole, field).reshape(5, -1)[:, 2 * RANK : 2 * RANK + 2]
            close(getattr(split, field).reshape(5, 2), part, f"{name} {field}")


def rollouts(case: Any, ranks: int) -> Any:
    from tests.cases import make_rollout

    return make_rollout(case.env, number=2 * ranks)


def check_the_policy_stops_at_the_same_step_everywhere() -> None:
    case = CASES["ppo-box"]
    state = init(case, target_kl=1e-3, train_pi_iters=40, pi_lr=3e-3)
    rollout = jax.tree.map(lambda x: x[:, :2] * (x.dtype == bool or 1 + RANK), rollouts(case, 1))
    batch = jax.jit(case.algo.prepare)(state.params, rollout)
    state, info = case.algo.update(state, batch)
    assert 0 < float(info["stop_iter"]) < 40
    assert same_everywhere((info["stop_iter"], info["kl"]))


def check_a_rank_without_finished_episodes_takes_the_same_step() -> None:
    case = CASES["reinforce-discrete"]
    state, batch = init(case), case.batch()
    for counted in (True, False):
        weight = np.full(6, float(RANK > 0 and counted), np.float32)
        new, info = case.algo.update(state, batch._replace(weight=weight))
        assert same_everywhere((new, info["kl_count"]))
        assert float(info["kl_count"]) == counted
    constant = np.float32([1e4, 1e4 + 2e-3] if RANK == 0 else [0.0, 0.0])
    weight = np.full(2, float(RANK == 0), np.float32)
    standardised = jax.jit(moments.standardise)(constant, weight)
    assert not standardised.any()  # all ranks share one limit of rounding


def check_the_line_search_uses_averages_over_ranks() -> None:
    """Each rank alone decides otherwise: by the old loss, the new loss, or the divergence."""
    state, whole = normal(backtrack_iters=1)
    step = jax.tree.map(lambda x: jnp.full_like(x, -0.05), state.params.actor)  # KL 0.005
    weight, adv = ((2.0, 1.5), (0.5, -2.0), (0.5, 0.0))[min(RANK, 2)]
    mine = whole._replace(weight=jnp.float32([weight]), adv=jnp.float32([adv]))
    mean = sum(((2.0, 0.5) + (0.5,) * RANKS)[:RANKS]) / RANKS
    for delta, accepted in ((0.005 * mean * 1.1, 1.0), (0.005 * mean * 0.9, 0.0)):
        spec = dataclasses.replace(state.params.spec, delta=delta)
        params = dataclasses.replace(state.params, spec=spec)
        moved, info = jax.jit(trpo.line_search)(params, mine, step)
        assert float(info["accepted"]) == accepted
        np.testing.assert_allclose(theta(moved.actor), [0.05 * accepted])


def pole() -> Any:
    return gymnasium.make("CartPole-v1")


def swing() -> Any:
    return gymnasium.make("Pendulum-v1")


def check_loops_divide_counts_and_report_over_all_ranks() -> None:
    off = OffPolicySchedule(
        steps=400 * RANKS, steps_per_epoch=200 * RANKS, start_steps=100 * RANKS,
        update_after=100 * RANKS, update_every=100 * RANKS, updates_per_burst=3, batch_size=10,
        replay_size=300 * RANKS, num_test_episodes=RANKS + 1,
    )  # fmt: skip
    on = OnPolicySchedule(steps=600 * RANKS, steps_per_epoch=300 * RANKS, num_test_episodes=1)
    loops = [("ddpg", swing, off), ("ppo", pole, on)]
    if RANKS > 2:  # compiled at every start: `make test-mpi`
        loops[0] = ("sac", swing, off)
        more = {"rollout_steps": 50 * RANKS, "replay_start": 100 * RANKS, "num_envs": 1}
        loops += [("dqn", pole, off), ("acer", pole, SequenceSchedule(**vars(on) | more))]
    for name, make, schedule in loops:
        algo = algos.load(name)
        spec = algo.Spec(EnvSpec.of(make()), hidden=(8,))
        carry = loop.start(algo, spec, make, schedule, 0)
        first = mpi.allgather(carry.obs.tolist())
        assert len({str(x) for x in first}) == RANKS, "ranks must not share a stream"
        own = 0
        while carry.steps < schedule.steps:
            before = carry.ep_returns
            carry, record = loop.advance(carry)
            own += len(before)
        assert record is not None
        assert carry.steps == record["steps"] == schedule.steps
        assert carry.calls * RANKS == schedule.steps
        everyone = mpi.allgather(record)
        assert all(one == everyone[0] for one in everyone)
        assert same_everywhere((carry.learner.params, carry.learner.opt_state))
        if carry.buffer is not None:
            assert not same_everywhere(carry.buffer)
            first = mpi.allgather(carry.buffer.data.act[0].tolist())
            assert len({str(x) for x in first}) == RANKS or name == "dqn"  # of few actions
            if name == "acer":
                assert record["updates"] > 12  # one for each rollout, and replayed ones
            else:
                assert record["updates"] == 4 * 3
        carry.envs.close()
        *_, last = loop.run(algo, spec, make, schedule, 0)
        assert len(last["test_returns"]) == schedule.num_test_episodes
        assert all(one == last for one in mpi.allgather(last))
        assert len({*last["test_returns"]}) == len(last["test_returns"]) or name == "dqn"
        assert {k: last[k] for k in record} == record  # and the same again


def check_programs_with_environments_in_jax_stay_in_step() -> None:
    """Ranks play other episodes, make programs of one length, and learn the same."""
    cases = (("dqn", {"batch_size": 4}), ("acer", {"replay_size": 240}))
    for name, changes in cases[: RANKS - 1]:  # three ranks test both
        algo, spec, env, schedule = make_case(name, **changes)
        counts = {x: getattr(schedule, x) * RANKS for x in ("steps", "steps_per_epoch")}
        if name == "acer":
            counts |= {"rollout_steps": 16 * RANKS, "replay_start": 32 * RANKS}
        carry = scan.start(algo, spec, env, dataclasses.replace(schedule, **counts), seed=0)
        carry.envs.pace.seconds = 1e-3 * (RANK + 1)  # ranks of different speed
        lengths = []
        while carry.steps < carry.schedule.steps:
            before = carry.calls
            carry, record = scan.advance(carry)  # compares the learners at the end of an epoch
            lengths.append(carry.calls - before)
        assert same_everywhere((np.array(lengths), carry.updates, carry.learner))
        assert carry.updates > 3
        assert len({x.tobytes() for x in mpi.allgather(np.asarray(carry.obs))}) == RANKS
        assert record == mpi.allgather(record)[0]


def check_means_of_metrics_are_over_the_updates_of_all_ranks() -> None:
    algo, schedule = algos.load("ddpg"), OffPolicySchedule(steps=100 * RANKS, batch_size=10)
    spec = algo.Spec(EnvSpec.of(swing()), hidden=(8,))
    schedule = dataclasses.replace(schedule, steps_per_epoch=100 * RANKS, update_after=1000 * RANKS)
    schedule = dataclasses.replace(schedule, start_steps=0, replay_size=100 * RANKS)
    carry = loop.start(algo, spec, swing, schedule, 0)
    tally = np.zeros((5, len(carry.metrics)), np.float32)
    where = [carry.metrics.index(name) for name in ("loss_q", "loss_pi")]
    tally[:, where[0]] = [2.0, 3.0 + RANK, 2.0, 2.0, 4.0 + RANK]  # 2 + RANK and 4 + RANK, but low
    tally[:, where[1]] = [1.0, 2.0, 0.0, 2.0, 2.0] if RANK == 0 else 0.0
    carry = dataclasses.replace(
        carry,
        tally=jnp.asarray(tally),
        updates=2,
        ep_returns=(float(RANK),) * RANK,
        ep_lengths=(RANK,) * RANK,
    )
    _, record = records.close_epoch(carry)
    values = [x + rank for rank in range(RANKS) for x in (2.0, 4.0)]
    assert abs(record["loss_q"] - np.mean(values)) < 1e-6
    assert abs(record["loss_q_std"] - np.std(values)) < 1e-6
    assert (record["loss_q_min"], record["loss_q_max"]) == (2.0, 3.0 + RANKS)
    assert record["loss_pi"] == 2.0
    assert record["ep_lengths"] == [rank for rank in range(RANKS) for _ in range(rank)]
    carry.envs.close()


def check_moments_are_of_all_rows_where_ranks_have_unequal_numbers_of_them() -> None:
    everything = np.random.default_rng(0).normal(3, 2, (5 * RANKS * (RANKS + 1) // 2, 2))
    first = 5 * RANK * (RANK + 1) // 2
    mine = jnp.float32(everything[first : first + 5 * (RANK + 1)])
    merged = jax.jit(moments.merge)(moments.init_moments((2,)), mine)
    np.testing.assert_allclose(merged.mean, everything.mean(axis=0), rtol=1e-5)
    np.testing.assert_allclose(merged.var, everything.var(axis=0), rtol=1e-5)
    assert float(merged.rows) == len(everything)


def check_rewards_are_scaled_by_the_returns_of_all_ranks() -> None:
    """All ranks divide by one number, of the gym loop and of programs over environments in JAX."""
    buffer = return_replay.init(EnvSpec.of(swing()).example(), 4, 0.9, 1, scale_rewards=True)
    returns = np.arange(4.0) * (RANK + 1)
    own = np.float32([returns.mean(), returns.var(), 4])
    merged = return_replay.merge_ranks(buffer.replace(moments=jnp.asarray(own))).moments
    everything = np.concatenate([np.arange(4.0) * (rank + 1) for rank in range(RANKS)])
    np.testing.assert_allclose(merged, [everything.mean(), everything.var(), 4], rtol=1e-6)
    if RANKS == 2:  # slow to compile: `make test-mpi`
        return
    changes = {"n_step": 3, "scale_rewards": True, "batch_size": 4}
    algo, spec, env, schedule = make_case("dqn", **changes)
    counts = {x: getattr(schedule, x) * RANKS for x in ("steps", "steps_per_epoch")}
    schedule = dataclasses.replace(schedule, **counts)
    for module, made in ((scan, env), (loop, lambda: GymnasiumEnv(env))):
        carry = module.start(algo, spec, made, schedule, seed=0)
        column, counted = carry.metrics.index("return_scale"), 0.0
        while carry.steps < schedule.steps:
            carry, _ = module.advance(carry)
            scales = np.asarray(carry.tally)[:, column]
            assert same_everywhere(scales)
            counted += scales[0]
        assert counted
        assert same_everywhere(carry.learner)
        own = mpi.allgather(carry.buffer.moments[1].item())
        assert len({*own}) == RANKS
        carry.envs.close()


def check_minibatches_on_scaled_rewards_stay_in_step() -> None:
    if RANKS == 2:  # slow to compile: `make test-mpi`
        return
    ppo = algos.load("ppo")
    words = dict.fromkeys(("normalise_obs", "scale_rewards", "recompute_advantages"), True)
    spec = ppo.Spec(EnvSpec.of(pole()), hidden=(8,), minibatch_size=16, train_pi_iters=2, **words)
    schedule = OnPolicySchedule(steps=128 * RANKS, steps_per_epoch=64 * RANKS)
    carry = loop.start(ppo, spec, pole, schedule, 0)
    while carry.steps < schedule.steps:
        carry, _ = loop.advance(carry)  # whose record compares the learner
    assert float(carry.learner.params.ret_stats.rows) == schedule.steps
    carry.envs.close()


def check_ranks_know_whether_all_stop_at_the_same_error() -> None:
    assert mpi.all_raise(ValueError("of all ranks"))
    world.get_world().errors.clear()  # the last thing a rank does: it asks once
    mpi.allgather(0)
    assert not mpi.all_raise(ValueError(f"of rank {RANK}"))


def tiny(**options: Any) -> config.Config:
    return config.from_json(
        {
            "algo": "vpg",
            "env": "CartPole-v1",
            "spec": {"hidden": [4]},
            "schedule": {"steps": 200 * RANKS, "steps_per_epoch": 50 * RANKS},
            "options": {"save_freq": 50 * RANKS} | options,
        }
    )


@contextlib.contextmanager
def shared_folder() -> Iterator[str]:
    made = mpi.allgather(tempfile.mkdtemp() if RANK == 0 else "")[0]
    yield made
    mpi.allgather(0)
    if RANK == 0:
        shutil.rmtree(made)


def check_ranks_go_on_from_the_newest_checkpoint_that_is_good_on_all() -> None:
    quiet = Screen(quiet=True)
    with shared_folder() as data:
        done = train.train(tiny(), data_dir=data, screen=quiet)
        mpi.allgather(0)
        for rank, step in ((0, 200), (1, 150)):  # a rank alone would begin at another step
            path = done.run / f"checkpoints/{step * RANKS:012d}/rank{rank}.npz"
            if rank == RANK:
                path.write_bytes(path.read_bytes()[:-1] + b"?")
        mpi.allgather(0)
        loaded = checkpoint.load(done.run, describe_run(config.settle(tiny(), RANKS)[0]), RANK)
        assert loaded.step == 100 * RANKS
        assert [f"rank{i}.npz" in why for i, why in enumerate(loaded.skipped)] == [True, True]
        again = train.resume(done.run, screen=quiet)
        assert again.step == done.step
        assert same_everywhere(again.carry.learner)
        same = jax.tree.map(np.array_equal, again.carry.learner.params, done.carry.learner.params)
        assert all(jax.tree.leaves(same))


def check_checkpoints_that_differ_between_ranks_raise() -> None:
    def shift_steps(carry: Any, frozen: Any) -> tuple[Any, list[int]]:
        return dataclasses.replace(carry, steps=carry.steps + RANK), []

    kept, snapshot.thaw = snapshot.thaw, shift_steps
    loaded = checkpoint.Loaded(50, {}, None, (), ())
    try:
        raises(mpi.RanksDisagree, "['steps']", restoring.restore_carry, tiny(), pole, loaded)
    finally:
        snapshot.thaw = kept


def check_configurations_that_differ_are_refused_at_the_start() -> None:
    config = tiny(save_freq=100 * (RANK + 1))
    raises(mpi.RanksDisagree, "['options.save_freq']: rank 0 100; rank 1 200", train.train, config)
    other = dataclasses.replace(tiny(), env=f"CartPole-v{RANK % 2}")
    raises(mpi.RanksDisagree, "['env']: rank 0 'CartPole-v0'", train.train, other)


def check_ranks_of_one_host_share_its_memory() -> None:
    assert mpi.num_local() == RANKS
    kept, replay.free_memory = replay.free_memory, lambda: 2**30
    env, size = EnvSpec.of(swing()), 20_000_000 * RANKS  # 0.6 GiB on each rank
    schedule = OffPolicySchedule(
        steps=200 * RANKS, steps_per_epoch=200 * RANKS, start_steps=100 * RANKS,
        update_after=100 * RANKS, update_every=100 * RANKS, batch_size=10,
        replay_size=3_000_000 * RANKS,
    ).resolve(RANKS)  # fmt: skip
    try:
        devices.check_memory(env, schedule, None, RANKS)
        big = dataclasses.replace(schedule, replay_size=size)
        raises(
            ValueError, f"replay_size = {size:,} takes", devices.check_memory, env, big, None, RANKS
        )
    finally:
        replay.free_memory = kept


def main() -> None:
    chosen = sys.argv[1] if len(sys.argv) > 1 else ""
    names = [name for name in globals() if name.startswith("check_") and chosen in name]
    for name in names:
        began = time.monotonic()
        globals()[name]()
        sys.stderr.write(f"{time.monotonic() - began:5.1f} s  rank {RANK}  {name}\n")
        sys.stdout.write(f"ok {name}\n")  # in one piece: ranks share the stream
        sys.stdout.flush()
    assert world.get_world().inside.begun > 0 or chosen


if __name__ == "__main__":
    mpi.connect_devices = lambda: None  # devices that are not connected, to see their misuse fail
    purerl.setup(devices=2)
    main()
