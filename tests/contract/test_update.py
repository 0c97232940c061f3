"""`update`: pure, traced once, and equal under every transformation of JAX."""

import dataclasses
import math

import jax
import jax.numpy as jnp
import pytest

from purerl import algos, mpi
from purerl.buffers import replay
from purerl.types import Batch, SequenceBatch
from tests.contract.shared import close, equal, host, learner


def test_update_is_pure_and_repeatable(case):
    state, batch = learner(case), case.batch()
    before = host((state, batch._replace(key=None)))
    first = case.algo.update(state, batch)
    second = case.algo.update(state, batch)
    equal(first, second)
    equal(before, host((state, batch._replace(key=None))))


def test_update_is_the_same_without_jit(case):
    state, batch = learner(case), case.batch()
    with jax.disable_jit():
        eager, _ = case.algo.update(state, batch)
    close(case.algo.update(state, batch)[0], eager, rtol=1e-3, atol=1e-5)


def test_update_keeps_structure_and_dtypes_and_counts(case):
    state = learner(case)
    new, info = case.algo.update(state, case.batch())
    assert jax.tree.structure(new) == jax.tree.structure(state)
    for a, b in zip(jax.tree.leaves(new), jax.tree.leaves(state), strict=True):
        assert (a.shape, a.dtype, a.weak_type) == (b.shape, b.dtype, b.weak_type)
    assert int(new.step) == int(state.step) + 1
    for name, metric in info.items():
        assert jnp.shape(metric) == (), name
        if name.endswith("_count"):
            assert float(metric) in (0.0, 1.0)
            assert name.removesuffix("_count") in info


def test_optimizers_keep_their_state_between_updates(case):
    """An Adam that starts anew at each update takes steps of full size for ever."""
    free = {"target_kl": None} if hasattr(case.spec(), "target_kl") else {}
    state = start = learner(case, **free)
    for seed in range(3):
        state, _ = case.algo.update(state, case.batch(seed=seed))
    spec, owned = state.params.spec, [name for names in case.owns.values() for name in names]
    passes = {"actor": "train_pi_iters", "critic": "train_v_iters"}
    for name, opt in state.opt_state.items():
        steps = 3 * getattr(spec, passes.get(name, ""), getattr(spec, "train_q_iters", 1))
        if name != "critic":
            steps = math.ceil(steps / getattr(spec, "policy_delay", 1))
        before, after = jax.tree.leaves(start.opt_state[name]), jax.tree.leaves(opt)
        counts = [int(x) for x in after if jnp.issubdtype(x.dtype, jnp.integer)]
        assert counts == ([] if hasattr(spec, "rms_init") else [steps]), name  # RMSProp has none
        if name in owned:
            assert all(bool((x != y).any()) for x, y in zip(before, after, strict=True)), name


def test_metrics_that_were_not_computed_are_zero_and_not_counted(case):
    state, seen = learner(case), set()
    for seed in range(4):
        state, info = case.algo.update(state, case.batch(seed=seed))
        for name in [n.removesuffix("_count") for n in info if n.endswith("_count")]:
            seen.add((name, float(info[f"{name}_count"])))
            if info[f"{name}_count"] == 0:
                assert info[name] == 0
    assert all((name, 1.0) in seen for name, _ in seen)


def test_update_works_under_scan_as_in_a_loop(case):
    batches = [case.batch(seed=s, key=None)._replace(key=jax.random.key(s)) for s in range(4)]
    state = scanned = learner(case)
    for batch in batches:
        state, _ = case.algo.update(state, batch)
    stacked = jax.tree.map(lambda *x: jnp.stack(x), *batches)
    scanned, _ = jax.lax.scan(case.algo.update, scanned, stacked)
    close(state, scanned, rtol=1e-4)


def test_update_works_under_vmap_over_seeds(case):
    batches = [case.batch(seed=s) for s in range(3)]
    keys = jax.random.split(jax.random.key(7), 3)
    states = jax.jit(jax.vmap(lambda k: case.algo.init(k, case.spec())))(keys)
    stacked = jax.tree.map(lambda *x: jnp.stack(x), *batches)
    many = states
    for _ in range(3):
        many, _ = jax.vmap(case.algo.update)(many, stacked)
    for i, batch in enumerate(batches):
        one = jax.tree.map(lambda x, i=i: x[i], states)
        for _ in range(3):
            one, _ = case.algo.update(one, batch)
        close(jax.tree.map(lambda x, i=i: x[i], many), one, rtol=1e-3, atol=1e-4)


def test_a_caller_can_donate_the_state(case):
    state, batch = learner(case), case.batch()
    expected, _ = case.algo.update(state, batch)
    donating = jax.jit(lambda s, b: case.algo.update(s, b), donate_argnums=0)
    new, _ = donating(state, batch)
    close(new, expected)
    # Whatever `update` reads; what it only writes, such as epsilon, has nothing to give away.
    read = ([getattr(state.params, name) for name in case.networks], state.opt_state, state.step)
    assert all(leaf.is_deleted() for leaf in jax.tree.leaves(read))


def test_devices_with_parts_of_a_batch_do_the_update_of_the_whole(case):
    state, batch = learner(case), case.noisy()
    parts = jax.tree.map(lambda x: x.reshape(2, 3, *x.shape[1:]), batch)
    split = jax.vmap(case.algo.update, in_axes=(None, 0), axis_name=mpi.AXIS)
    many, _ = split(state, parts)
    if not algos.get_facts(case.algo).splits_batches:  # each rank normalises by its own rows
        equal(*(jax.tree.map(lambda x, i=i: x[i], many) for i in range(2)))
        return
    one, _ = case.algo.update(state, batch)
    for i in range(2):
        close(jax.tree.map(lambda x, i=i: x[i], many), one, rtol=1e-4, atol=3e-5)


def test_update_on_one_process_contains_no_collective_and_no_callback(case):
    text = str(jax.make_jaxpr(case.algo.update)(learner(case), case.batch()))
    assert "callback" not in text
    assert "psum" not in text


def test_update_accepts_samples_of_the_replay_buffer(case, key):
    if case.on_policy:
        pytest.skip("takes what prepare makes")
    rows, example = case.batch(size=8, key=None), case.env.example()
    if case.has_sequences:
        example = jax.tree.map(lambda x: x[0], rows)
    else:
        rows = type(example)(*rows[:6])
    batch = replay.sample(replay.add(replay.init(example, 16), rows), key, 6)
    assert isinstance(batch, SequenceBatch if case.has_sequences else Batch)
    assert batch.key is not None
    case.algo.update(learner(case), batch)


def test_equal_specs_share_one_trace_of_update(case):
    case.algo.update(learner(case), case.batch())
    before = case.algo.update._cache_size()
    for seed in range(3):
        state = learner(case, seed)
        state = state.replace(params=dataclasses.replace(state.params, spec=case.spec()))
        for step in range(3):
            state, _ = case.algo.update(state, case.batch(seed=step))
    assert case.algo.update._cache_size() == before
