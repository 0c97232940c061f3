"""Off-policy loop: blocks and bursts, exact counts and exact updates."""

import dataclasses
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl import algos, rng
from purerl.algos import td3
from purerl.buffers import replay, return_replay
from purerl.loops import acting, offpolicy
from purerl.loops import gym as loop
from purerl.spaces import EnvSpec
from tests.loops import script
from tests.loops.script import SMALL, WAYS, finish, read_buffer, start


@pytest.mark.parametrize("name", ["one", "three", "same_step", "disabled"])
def test_a_run_makes_exactly_the_requested_number_of_steps(name):
    number, (env_fn, envs) = WAYS[name]
    envs.clear()
    finish(start(env_fn, num_envs=number))
    assert sum(env.steps for env in envs) == 60


def test_rows_beyond_a_border_wait_for_the_next_block():
    env_fn, envs = WAYS["next_step"][1]
    carry = start(env_fn, num_envs=3)
    waited = 0
    while carry.steps < 60:
        carry, _ = loop.advance(carry)
        assert int(carry.buffer.stored) == carry.steps
        assert carry.steps + len(carry.surplus.rew) == sum(len(e.actions) for e in envs)
        waited = max(waited, len(carry.surplus.rew))
    assert 0 < waited < 3


def test_exactly_start_steps_actions_are_random_and_the_policy_chooses_the_others():
    env_fn, envs = script.make_singles(1)
    spec = td3.Spec(EnvSpec.of(script.Script()), act_noise=0.0, **SMALL)
    carry = start(env_fn, spec=spec, start_steps=12, update_after=60)
    params = jax.tree.map(jnp.copy, carry.learner.params)
    carry, _ = finish(carry)
    rows = [np.float32(r[0]) for r in read_buffer(carry)[0]]
    same = [
        np.allclose(a, td3.policy(params, o)) for a, o in zip(envs[0].actions, rows, strict=True)
    ]
    assert same[:12] == [False] * 12
    assert same[12:58] == [True] * 46


def test_random_actions_fill_the_box():
    env_fn, envs = script.make_singles(1)
    finish(start(env_fn, steps=600, start_steps=600))
    actions = np.array(envs[0].actions)
    np.testing.assert_allclose(actions.min(axis=0), [-2, 0], atol=0.05)
    np.testing.assert_allclose(actions.max(axis=0), [2, 1], atol=0.05)
    np.testing.assert_allclose(actions.mean(axis=0), [0, 0.5], atol=0.15)
    assert len(np.unique(actions)) == actions.size


def test_random_actions_differ_between_environments_ranks_and_calls():
    env = EnvSpec.of(script.Script())
    words = [(0, 0, 0, 5), (0, 1, 0, 5), (0, 0, 0, 6), (1, 0, 0, 5)]
    draws = [acting.draw_random_actions(env, 3, np.array(x, np.uint32)) for x in words]
    assert len(np.unique(np.stack(draws))) == 4 * 3 * 2


def test_updates_start_at_update_after_and_repeat_every_update_every():
    carry, seen = start(script.make_singles(1)[0]), []
    while carry.steps < 60:
        carry, _ = loop.advance(carry)
        seen.append((carry.steps, carry.updates))
        assert int(carry.learner.step) == carry.updates
    # Bursts of 6 at 18, 24, ...; a border at the end of an epoch (30, 60) falls on them.
    assert seen == [(s, max(0, s - 12)) for s in range(6, 61, 6)]


def test_blocks_end_at_burst_and_epoch_borders_without_recompiling():
    sizes = {"steps": 47, "steps_per_epoch": 20, "update_every": 6, "updates_per_burst": 2}
    sizes["replay_size"] = 999  # no other test has it, so that no program is compiled yet
    before = offpolicy._compiled_burst()._cache_size()
    spec = td3.Spec(EnvSpec.of(script.Script()), hidden=(9,))
    carry, seen = start(script.make_singles(1)[0], spec=spec, **sizes), []
    while carry.steps < 47:
        carry, record = loop.advance(carry)
        seen.append((carry.steps, carry.updates, bool(record)))
    assert [s for s, _, _ in seen] == [6, 12, 18, 20, 24, 30, 36, 40, 42, 47]
    assert [u for _, u, _ in seen] == [0, 0, 2, 2, 4, 6, 8, 8, 10, 10]
    assert [s for s, _, r in seen if r] == [20, 40, 47]
    assert offpolicy._compiled_burst()._cache_size() - before == 2  # with and without updates


@pytest.mark.parametrize("rank", [0, 1])
def test_a_burst_equals_add_and_a_loop_of_sample_and_update(rank):
    carry = dataclasses.replace(start(script.make_singles(1)[0]), rank=rank)
    for _ in range(4):
        carry, _ = loop.advance(carry)
    learner, buffer = jax.tree.map(jnp.copy, (carry.learner, carry.buffer))
    following, _ = loop.advance(carry)
    new = jax.tree.map(lambda x: x[24:30], following.buffer.data)
    buffer = replay.add(buffer, new)
    metrics = []
    for key in jax.random.split(rng.stream(0, rank, "sample", 12), 6):
        learner, info = td3.update(learner, replay.sample(buffer, key, 4))
        metrics.append(info)
    for a, b in zip(jax.tree.leaves(learner), jax.tree.leaves(following.learner), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)


def test_a_burst_learns_from_returns_of_several_steps_and_scaled_rewards():
    env_fn, _ = WAYS["three"][1]
    changes = {"num_envs": 3, "n_step": 3, "scale_rewards": True, "replay_size": 20}
    carry, rows = start(env_fn, **changes), []
    metrics, scales, draw = [], [], jax.jit(return_replay.sample, static_argnums=2)
    while carry.steps < 60:
        learner, updates = jax.tree.map(jnp.copy, carry.learner), carry.updates
        carry, record = loop.advance(carry)
        metrics += [record] if record else []
        first = (carry.steps - 6) % 20
        place = (first + np.arange(6)) % 20
        rows += zip(*(np.asarray(x)[place] for x in carry.buffer.data), strict=True)
        rew, terminated, truncated = (np.array([row[i] for row in rows]) for i in (2, 4, 5))
        ret, found = np.zeros(3), []
        for i, reward in enumerate(rew):
            ret[i % 3] = reward + 0.99 * ret[i % 3]
            found.append(ret[i % 3])
            ret[i % 3] *= not (terminated[i] or truncated[i])
        np.testing.assert_allclose(carry.buffer.ret, ret, rtol=1e-5)
        np.testing.assert_allclose(carry.buffer.moments[1], np.var(found), rtol=1e-4)
        if carry.updates > updates:
            scales.append(np.std(found))
            for key in jax.random.split(rng.stream(0, 0, "sample", updates), 6):
                batch = draw(carry.buffer, key, 4)
                learner, _ = td3.update(learner, batch)
            for a, b in zip(jax.tree.leaves(learner), jax.tree.leaves(carry.learner), strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-5)
    assert metrics[1]["return_scale"] == pytest.approx(np.mean(scales[3:]), rel=1e-4)
    assert np.asarray(batch.terminated).tolist() != [0, 0, 0, 0]


def test_a_schedule_that_changes_no_rewards_has_a_plain_buffer_and_its_metrics():
    carry = start(script.make_singles(1)[0])
    assert type(carry.buffer) is replay.Replay
    assert "return_scale" not in carry.metrics
    changed = start(script.make_singles(1)[0], n_step=2)
    assert changed.metrics == carry.metrics
    assert (changed.buffer.n_step, changed.buffer.gamma) == (2, 0.99)


def test_settings_that_cannot_change_rewards_are_refused():
    env_fn, _ = WAYS["next_step"][1]
    for change in ({"n_step": 2}, {"scale_rewards": True}):
        with pytest.raises(ValueError, match="mode NEXT_STEP has none from the steps that reset"):
            start(env_fn, num_envs=3, **change)
    assert start(env_fn, num_envs=3).steps == 0
    assert start(WAYS["same_step"][1][0], num_envs=3, n_step=2).steps == 0
    clips = td3.Spec(EnvSpec.of(script.Script()), clip_targets=True)
    env_fn, _ = script.make_singles(1)
    text = r"clip_targets is for .*\(--no-clip-targets or --no-scale-rewards\)"
    with pytest.raises(ValueError, match=text):
        start(env_fn, spec=clips, scale_rewards=True)
    algos.check_settings(td3, clips, script.schedule(n_step=2))
    lacking = dataclasses.make_dataclass("Spec", ["env"], frozen=True)
    algo = SimpleNamespace(Spec=lacking, SCHEDULE=script.schedule(), __name__="mine")
    with pytest.raises(ValueError, match="need the discount factor spec.gamma, which mine lacks"):
        algos.check_settings(algo, lacking(clips.env), script.schedule(n_step=2))


def test_the_replay_buffer_has_replay_size_rows_and_overwrites_the_oldest():
    """TorchingUp ignored its setting `capacity` and stored 1000 rows."""
    env_fn, _ = script.make_singles(1, lengths=(1000,))
    whole, _ = finish(start(env_fn))
    carry, _ = finish(start(env_fn, replay_size=20))
    assert carry.buffer.data.rew.shape == (20,)
    assert int(carry.buffer.stored) == 20
    newest = np.asarray(whole.buffer.data.rew)[40:60]
    np.testing.assert_array_equal(np.sort(carry.buffer.data.rew), np.sort(newest))


def test_td3_delays_the_policy_with_one_update_per_step():
    """Spinning Up restarted its count in each burst, so `update_every=1` had no delay."""
    every = {"update_every": 1, "updates_per_burst": 1, "steps": 30}
    carry, counts = start(script.make_singles(1)[0], **every), []
    while carry.steps < 30:
        actor, updates = jax.tree.map(jnp.copy, carry.learner.params.actor), carry.updates
        carry, _ = loop.advance(carry)
        if carry.updates > updates:
            pairs = zip(*map(jax.tree.leaves, (actor, carry.learner.params.actor)), strict=True)
            counts.append(any(bool((a != b).any()) for a, b in pairs))
    assert counts == [True, False] * 6 + [True]


def test_a_burst_of_large_batches_gathers_them_one_by_one_with_equal_results(monkeypatch):
    carry = start(script.make_singles(1)[0])
    while not carry.updates:
        carry, _ = loop.advance(carry)
    block = jax.tree.map(lambda x: x[:2], carry.buffer.data)
    words = np.zeros(4, np.uint32)
    parts = (carry.learner, carry.buffer, carry.tally, block, np.int32(2), words)

    def run():
        burst = jax.jit(lambda *parts: offpolicy._burst(td3, 3, 4, 1, None, *parts))
        return burst(*parts), str(jax.make_jaxpr(burst)(*parts))

    early, program = run()
    monkeypatch.setattr(offpolicy, "BURST_BYTES", 0)
    late, other = run()
    assert program != other
    jax.tree.map(np.testing.assert_array_equal, early, late)
