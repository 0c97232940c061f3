"""One update after each step: the same streams and results as a loop written by hand."""

import dataclasses

import chex
import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

from purerl import errors, rng
from purerl.algos import td3
from purerl.buffers import replay
from purerl.loops import acting, snapshot
from purerl.loops import gym as loop
from purerl.loops.stepwise import packing, steps
from purerl.schedules import OffPolicySchedule
from purerl.types import Transition
from tests.loops import script
from tests.loops.test_snapshot import ENVS, begin, bits, freeze_to_bits, interrupt, through_json

EVERY = OffPolicySchedule(
    steps=60, steps_per_epoch=30, start_steps=12, update_after=9, update_every=1, batch_size=4,
    replay_size=40, num_test_episodes=0,
)  # fmt: skip
OFF_POLICY = [
    pytest.param(name, marks=() if name in ("dqn", "td3") else pytest.mark.complete)
    for name in ("dqn", "ddpg", "td3", "sac", "sac_discrete", "crossq", "tqc", "redq", "xqc")
]


def advance_to(carry, until, should_stop=None):
    """Advance to a step; return the carry and the records."""
    records = []
    while carry.steps < until:
        carry, record = loop.advance(carry, should_stop)
        records += [record] if record else []
    return carry, records


def train_by_hand(algo, spec, env, seed, number):
    """Train as `EVERY` says, in plain NumPy and functions of the algorithm."""
    learner = algo.init(rng.stream(seed, 0, "init"), spec)
    buffer = replay.init(spec.env.example(), EVERY.replay_size)
    obs, episode, infos = None, 0, []
    for step in range(number):
        if obs is None:
            obs, _ = env.reset(seed=rng.host_seed(seed, 0, "env", 0, episode))
            episode += 1
        if step < EVERY.start_steps:
            words = np.array([seed, 0, 0, step], np.uint32)
            act = np.asarray(acting.draw_random_actions(spec.env, 1, words))
        else:
            act = np.asarray(algo.act(learner.params, obs[None], rng.stream(seed, 0, "act", step)))
        after, rew, *ends, _ = env.step(act[0].item() if act.dtype == np.int32 else act[0])
        row = Transition(obs, act[0], np.float32(rew), after, *ends)
        buffer = replay.add(buffer, jax.tree.map(lambda x: np.asarray(x)[None], row))
        obs = None if any(ends) else after
        if step + 1 >= EVERY.update_after:
            (key,) = jax.random.split(rng.stream(seed, 0, "sample", len(infos)), 1)
            learner, info = algo.update(learner, replay.sample(buffer, key, EVERY.batch_size))
            infos.append(info)
    return learner, buffer, infos


@pytest.mark.parametrize("name", OFF_POLICY)
def test_a_run_equals_a_loop_written_by_hand(name):
    carry = begin(name, EVERY)
    algo, spec = carry.algo, carry.learner.params.spec
    carry, records = advance_to(carry, 60)
    assert steps.applies(dataclasses.replace(carry, steps=50))
    env = gymnasium.make(ENVS.get(name, "Pendulum-v1"))
    learner, buffer, infos = train_by_hand(algo, spec, env, 3, 60)
    chex.assert_trees_all_close(carry.buffer, buffer, rtol=1e-3, atol=1e-4)
    chex.assert_trees_all_close(carry.learner, learner, rtol=1e-2, atol=1e-4)
    assert carry.updates == len(infos) == 52
    late = [info["loss_q"] for info in infos[22:]]
    assert records[1]["loss_q"] == pytest.approx(np.mean(late), rel=1e-3)
    assert records[1]["loss_q_max"] == pytest.approx(np.max(late), rel=1e-3)


def test_indices_drawn_ahead_are_those_of_a_burst():
    carry = begin("dqn", EVERY)
    for updates, added in [(0, 5), (1, 6), (254, 39), (255, 40), (256, 41), (2**32 + 7, 2**32)]:
        index, key = steps._draw(carry.replace(updates=updates), 40, added)
        stored = min(added, 40)
        ring = dataclasses.replace(carry.buffer, stored=jnp.int32(stored))
        (burst,) = jax.random.split(rng.stream(3, 0, "sample", updates), 1)
        expected, expected_key = replay.draw_indices(ring, burst, 4)
        np.testing.assert_array_equal(index, expected)
        np.testing.assert_array_equal(key, jax.random.key_data(expected_key))


@pytest.mark.parametrize("name", OFF_POLICY)
def test_a_run_has_the_episodes_of_the_general_loop(name, monkeypatch):
    carry, records = advance_to(begin(name, EVERY), 60)
    monkeypatch.setattr(steps, "applies", lambda carry: False)
    general, others = advance_to(begin(name, EVERY), 60)
    for one, other in zip(records, others, strict=True):
        assert one.keys() == other.keys()
        for key in ("steps", "updates", "ep_lengths"):
            assert one[key] == other[key]
        np.testing.assert_allclose(one["ep_returns"], other["ep_returns"], rtol=1e-5)
    assert carry.calls == general.calls == 60
    assert carry.ep_length == general.ep_length
    np.testing.assert_allclose(carry.ep_return, general.ep_return, rtol=1e-5)
    np.testing.assert_allclose(carry.obs, general.obs, rtol=1e-4, atol=1e-5)


@pytest.mark.complete
def test_changed_rewards_are_those_of_the_general_loop(monkeypatch):
    schedule = dataclasses.replace(EVERY, n_step=3, scale_rewards=True)
    carry, records = advance_to(begin("dqn", schedule), 60)
    frozen = through_json(snapshot.freeze(advance_to(begin("dqn", schedule), 44)[0]))
    thawed, lost = snapshot.thaw(begin("dqn", schedule), frozen)
    assert not lost
    assert freeze_to_bits(advance_to(thawed, 60)[0]) == freeze_to_bits(carry)
    monkeypatch.setattr(steps, "applies", lambda carry: False)
    general, others = advance_to(begin("dqn", schedule), 60)
    chex.assert_trees_all_close(carry.learner, general.learner, rtol=1e-3, atol=1e-4)
    chex.assert_trees_all_close(carry.buffer, general.buffer, rtol=1e-3, atol=1e-4)
    scales = [[record["return_scale"] for record in several] for several in (records, others)]
    np.testing.assert_allclose(*scales, rtol=1e-4)


@pytest.mark.parametrize("name", ["dqn", "td3"])
@pytest.mark.parametrize("cut", [17, 30, 44])
def test_a_thawed_run_ends_bit_for_bit_like_one_that_was_not_interrupted(name, cut):
    carry, _ = advance_to(begin(name, EVERY), cut)
    frozen = through_json(snapshot.freeze(carry))
    assert ("next_act" in frozen.host) == (cut != 30)  # a record ends the packing
    carry, records = advance_to(carry, 60)
    thawed, lost = snapshot.thaw(begin(name, EVERY), frozen)
    assert not lost
    assert freeze_to_bits(thawed) == bits(frozen)
    thawed, resumed = advance_to(thawed, 60)
    assert resumed == records
    assert freeze_to_bits(thawed) == freeze_to_bits(carry)


def test_the_next_action_of_a_snapshot_is_taken():
    """Another program may round the same action differently, so it is stored."""
    carry, _ = advance_to(begin("td3", EVERY), 20)
    frozen = snapshot.freeze(carry)
    frozen.host["next_act"][:] = 1.25
    thawed, _ = snapshot.thaw(begin("td3", EVERY), frozen)
    thawed, _ = loop.advance(thawed)
    assert np.asarray(thawed.buffer.data.act)[20] == 1.25
    wrong = frozen._replace(host=frozen.host | {"next_act": np.zeros((1, 2), np.float32)})
    with pytest.raises(errors.SnapshotMismatch, match="next_act must be float32"):
        snapshot.thaw(begin("td3", EVERY), wrong)


@pytest.mark.parametrize("how", ["interrupt", "exception", "stop", "nan"])
def test_an_interrupted_step_can_be_repeated(how):
    whole, _ = advance_to(begin("td3", EVERY), 40)
    carry, _ = advance_to(begin("td3", EVERY), 20)
    env = carry.envs.envs[0]
    if how == "stop":
        assert loop.advance(carry, lambda: True) == (carry, None)
    elif how == "nan":
        real, env.step = env.step, lambda action: (np.full(3, np.nan, "f4"), 0.0, False, False, {})
        with pytest.raises(errors.NonFiniteError, match="next_obs .* at environment step 21"):
            loop.advance(carry)
        env.step = real
    else:
        error = KeyboardInterrupt() if how == "interrupt" else ValueError("x")
        env.step = interrupt(env.step, 0, [error])
        with pytest.raises((KeyboardInterrupt, errors.EnvFault)):
            loop.advance(carry)
    assert not carry.is_stale
    carry, _ = advance_to(carry, 40)
    assert freeze_to_bits(carry) == freeze_to_bits(whole)


def test_a_repeated_step_takes_the_same_action():
    carry, _ = advance_to(begin("td3", EVERY), 20)
    carry.pack().act = np.full((1, 1), 1.25, np.float32)
    env = carry.envs.envs[0]
    env.step = interrupt(env.step, 0, [KeyboardInterrupt()])
    with pytest.raises(KeyboardInterrupt):
        loop.advance(carry)
    carry, _ = loop.advance(carry)
    assert np.asarray(carry.buffer.data.act)[20] == 1.25


@pytest.mark.parametrize("until", [20, 30])  # packed, and not packed after a record
@pytest.mark.parametrize("which", [0, 1])
def test_a_consumed_carry_and_its_copies_are_stale(until, which):
    carry, _ = advance_to(begin("td3", EVERY), until)
    carries = (carry, dataclasses.replace(carry))
    following, _ = loop.advance(carries[which])
    assert not following.is_stale
    for one in carries:
        assert one.is_stale
        assert all(x.is_deleted() for x in jax.tree.leaves(one.learner))
        with pytest.raises(ValueError, match="^this carry was consumed by an earlier advance"):
            loop.advance(one)


def test_another_learner_and_another_buffer_are_used():
    carry, _ = advance_to(begin("td3", EVERY), 20)
    spec = carry.learner.params.spec
    other = jax.tree.map(jnp.copy, td3.init(jax.random.key(7), spec))
    buffer = replay.init(spec.env.example(), 30)  # another capacity
    buffer = replay.add(buffer, jax.tree.map(lambda x: x[:9], carry.buffer.data))
    act = np.asarray(td3.act(other.params, carry.obs, rng.stream(3, 0, "act", 20)))
    expected, expected_buffer = jax.tree.map(jnp.copy, (other, buffer))
    carry, _ = loop.advance(dataclasses.replace(carry, learner=other, buffer=buffer))
    np.testing.assert_allclose(np.asarray(carry.buffer.data.act)[9], act[0], rtol=1e-5)
    assert int(carry.buffer.stored) == 10
    expected_buffer = replay.add(
        expected_buffer, jax.tree.map(lambda x: x[9:10], carry.buffer.data)
    )
    (key,) = jax.random.split(rng.stream(3, 0, "sample", 12), 1)
    expected, _ = td3.update(expected, replay.sample(expected_buffer, key, 4))
    chex.assert_trees_all_close(carry.learner, expected, rtol=1e-3, atol=1e-5)


def test_reading_a_carry_changes_nothing():
    carry, _ = advance_to(begin("dqn", EVERY), 25)
    read, _ = advance_to(begin("dqn", EVERY), 20)
    while read.steps < 25:
        held = read.__dict__["learner"]
        jax.tree.map(np.asarray, (read.learner, read.buffer, read.tally))
        assert read.__dict__["learner"] is held
        read, _ = loop.advance(read)
        assert isinstance(read.__dict__["learner"], packing.Packed)
    assert freeze_to_bits(read) == freeze_to_bits(carry)


def test_divergence_names_the_arrays():
    carry, _ = advance_to(begin("td3", EVERY), 20)
    learner = jax.tree.map(jnp.copy, carry.learner)
    actor = jax.tree.map(lambda x: x.at[...].set(jnp.nan), learner.params.actor)
    params = dataclasses.replace(learner.params, actor=actor)
    carry = dataclasses.replace(carry, learner=dataclasses.replace(learner, params=params))
    carry.pack().act = np.zeros((1, 1), np.float32)  # the action of the broken policy is not taken
    with pytest.raises(errors.Diverged, match=r"between updates 12 and 13 .* not finite"):
        loop.advance(carry)


def test_clipped_targets_refuse_other_rewards():
    carry, rewards = begin("dqn", EVERY, clip_targets=True), iter([0.0] * 20)
    env = carry.envs.envs[0]
    real = env.step

    def step(action):
        obs, _, *rest = real(action)
        return obs, next(rewards, 1.0), *rest

    env.step = step
    with pytest.raises(errors.EnvFault, match="clip_targets is .* got 1 at environment step 21"):
        advance_to(carry, 60)


@pytest.mark.parametrize(
    ("change", "number", "fits"),
    [
        ({}, 1, True),
        ({"updates_per_burst": 2}, 1, False),
        ({"update_every": 2}, 1, False),
        ({"update_every": 2, "updates_per_burst": 1}, 2, False),
        ({"update_after": 22}, 1, False),
        ({"update_after": 21}, 1, True),
    ],
)
def test_only_one_update_after_each_step_of_one_environment_is_packed(change, number, fits):
    fields = {"update_every": 1, "replay_size": 40, "num_envs": number} | change
    carry, _ = advance_to(script.start(script.make_singles(number)[0], **fields), 20)
    assert steps.applies(carry) == fits
    carry, _ = loop.advance(carry)
    assert isinstance(carry.__dict__["learner"], packing.Packed) == fits


def test_goals_devices_and_vector_environments_are_left_to_the_general_loop():
    carry, _ = advance_to(script.start(script.make_singles(1)[0], update_every=1), 20)
    assert steps.applies(carry)
    assert not steps.applies(dataclasses.replace(carry, relabelling=object()))
    split = dataclasses.replace(carry.schedule, devices=2)
    assert not steps.applies(dataclasses.replace(carry, schedule=split))
    env_fn, _ = script.make_vector(1, AutoresetMode.NEXT_STEP)
    carry, records = advance_to(script.start(env_fn, update_every=1), 60)
    assert not steps.applies(carry)
    assert carry.updates == 43
    assert len(records) == 2


def test_programs_are_compiled_once_and_indices_drawn_once():
    steps._draw_ahead.cache_clear()
    programs = (steps._compiled_learn(), acting._act)
    before = [program._cache_size() for program in programs]
    advance_to(begin("dqn", EVERY, hidden=(5,)), 40)
    assert [program._cache_size() for program in programs] == [size + 1 for size in before]
    assert steps._draw_ahead.cache_info().misses == 1
