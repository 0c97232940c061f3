"""On-policy loop: exact rollouts, exact counts, exact updates."""

import dataclasses
import types
from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl import errors, rng
from purerl.algos import acer, ppo, reinforce, trpo, vpg
from purerl.buffers import replay
from purerl.loops import acting, onpolicy
from purerl.loops import gym as loop
from purerl.loops.carry import OnPolicyCarry, SequenceCarry
from purerl.schedules import OffPolicySchedule, OnPolicySchedule, SequenceSchedule
from purerl.spaces import EnvSpec
from purerl.types import Rollout
from tests.loops import script
from tests.loops.script import WAYS

SPEC = vpg.Spec(EnvSpec.of(script.Script()), hidden=(4,), train_v_iters=2)


def start(env_fn: Any, seed: int = 0, spec: Any = SPEC, algo: Any = vpg, **changes: Any) -> Any:
    fields = {"steps": 60, "steps_per_epoch": 30} | changes
    return loop.start(algo, spec, env_fn, OnPolicySchedule(**fields), seed)


def finish(carry: loop.Carry) -> tuple[loop.Carry, list[Any]]:
    records = []
    while carry.steps < carry.schedule.steps:
        carry, record = loop.advance(carry)
        records.append(record)
    return carry, records


def entries(rollout: Rollout, who: int) -> list[tuple[Any, ...]]:
    """Return the rows of one environment in the form of `script.expect_rows`."""
    column = [np.asarray(x)[:, who] for x in rollout]

    def ints(x: Any) -> tuple[int, ...]:
        return tuple(int(v) for v in x)

    obs, _, rew, next_obs, terminated, truncated = column
    return [
        (ints(obs[t]), float(rew[t]), ints(next_obs[t]), bool(terminated[t]), bool(truncated[t]))
        for t in range(len(rew))
    ]


class Match(gymnasium.Env):
    """Each of two parts of the action that equals a digit of the observation gives 1."""

    observation_space = gymnasium.spaces.MultiBinary(3)
    action_space = gymnasium.spaces.MultiDiscrete([2, 3], start=[4, -1])

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.digits = self.np_random.integers(0, (2, 3))
        return self.make_obs(), {}

    def make_obs(self):
        return np.int8([self.digits[0], self.digits[1] == 1, self.digits[1] == 2])

    def step(self, action):
        reward = float((action - [4, -1] == self.digits).sum())
        return self.make_obs(), reward, True, False, {}


@pytest.mark.parametrize("algo", [ppo, pytest.param(trpo, marks=pytest.mark.complete)])
def test_actions_with_several_parts_are_learned(algo):
    def env_fn():
        return gymnasium.wrappers.FlattenObservation(Match())

    spec = algo.Spec(EnvSpec.of(env_fn()), hidden=(16,))
    schedule = OnPolicySchedule(steps=4_000, rollout_steps=400, num_test_episodes=50, num_envs=4)
    records = list(loop.run(algo, spec, env_fn, schedule, 0))
    assert np.mean(records[0]["ep_returns"]) < 1.1  # chance is 1/2 + 1/3
    assert np.mean(records[-1]["test_returns"]) > 1.4


@pytest.mark.parametrize(("number", "made"), WAYS.values(), ids=WAYS)
def test_every_way_of_resetting_gives_true_transitions_in_columns(number, made):
    env_fn, _ = made
    carry = start(env_fn, num_envs=number)
    carry, first = onpolicy.collect(carry, 30 // number)
    carry, second = onpolicy.collect(carry, 30 // number)
    for who in range(number):
        found = entries(first, who)
        assert found == script.expect_rows(who, 30 // number)
        if made is not WAYS["next_step"][1]:
            assert found + entries(second, who) == script.expect_rows(who, 60 // number)
    assert first.obs.shape == (30 // number, number, 3)
    assert first.act.shape == (30 // number, number, 2)


@pytest.mark.parametrize("name", ["one", "three", "same_step", "disabled"])
def test_a_run_makes_exactly_the_requested_number_of_steps(name):
    number, (env_fn, envs) = WAYS[name]
    envs.clear()
    carry, records = finish(start(env_fn, num_envs=number))
    assert sum(len(env.actions) for env in envs) == 60 == carry.steps
    assert [r["steps"] for r in records] == [30, 60]
    assert [r["epoch"] for r in records] == [r["updates"] for r in records] == [1, 2]


def test_steps_beyond_a_full_column_are_not_in_the_rollout():
    number, (env_fn, envs) = WAYS["next_step"]
    carry = start(env_fn, num_envs=number)
    _, rollout = onpolicy.collect(carry, 10)
    stepped = [len(env.actions) for env in envs]
    assert max(stepped) >= 10
    for who in range(number):
        assert entries(rollout, who) == script.expect_rows(who, 10)


def test_rows_keep_their_order_in_long_rollouts_with_resets_between_them():
    env_fn, _ = WAYS["next_step"][1]
    _, rollout = onpolicy.collect(start(env_fn, num_envs=3, steps=360, steps_per_epoch=360), 120)
    for who in range(3):
        assert entries(rollout, who) == script.expect_rows(who, 120)


def test_episodes_continue_across_epochs_or_start_again():
    for going_on, lengths in ((True, [45]), (False, [])):
        env_fn, envs = script.make_singles(1, lengths=(45,))
        _, records = finish(start(env_fn, continue_episodes=going_on))
        assert records[0]["ep_lengths"] == []  # and nothing crashes without a finished episode
        assert records[1]["ep_lengths"] == lengths
        assert len(envs[0].seeds) == (2 if going_on else 3)
        assert len(set(envs[0].seeds)) == len(envs[0].seeds)


def test_the_return_of_a_cut_episode_does_not_leak_into_the_next():
    env_fn, _ = script.make_singles(1, lengths=(40, 5))
    _, records = finish(start(env_fn, continue_episodes=False))
    assert records[1]["ep_lengths"] == [5]
    assert records[1]["ep_returns"] == [500.0 + 15.0]


def test_cutting_episodes_refuses_vector_environments():
    with pytest.raises(ValueError, match=r"^continue_episodes=False needs single environments"):
        start(WAYS["disabled"][1][0], num_envs=3, continue_episodes=False)


def test_rollouts_use_the_stream_of_acting_and_environments_get_clipped_copies():
    env_fn, envs = script.make_singles(1)
    carry = start(env_fn)
    params = jax.tree.map(jnp.copy, carry.learner.params)
    carry, rollout = onpolicy.collect(carry, 30)
    for t in (0, 1, 17):
        wanted = vpg.act(params, rollout.obs[t], rng.stream(0, 0, "act", t))
        np.testing.assert_allclose(rollout.act[t], wanted, atol=1e-5)
    stored, handed = rollout.act[:, 0], np.array(envs[0].actions)
    assert (np.abs(stored - handed) > 1e-3).any()  # the script refuses actions outside of its box
    np.testing.assert_array_equal(np.clip(stored, [-2, 0], [2, 1]), handed)


@pytest.mark.parametrize("rank", [0, 1])
def test_an_advance_equals_prepare_and_update_with_the_documented_key(rank):
    spec = ppo.Spec(SPEC.env, hidden=(4,), minibatch_size=10, train_pi_iters=2, train_v_iters=2)
    twin = start(script.make_singles(1)[0], spec=spec, algo=ppo)
    _, rollout = onpolicy.collect(dataclasses.replace(twin, rank=rank), 30)
    batch = ppo.prepare(twin.learner.params, rollout)
    batch = batch._replace(key=rng.stream(0, rank, "update", 0))
    wanted, info = ppo.update(twin.learner, batch)
    other = start(script.make_singles(1)[0], spec=spec, algo=ppo)
    carry, record = loop.advance(dataclasses.replace(other, rank=rank))
    for a, b in zip(jax.tree.leaves(carry.learner), jax.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-5)
    assert {"loss_pi", "loss_v", "kl", "entropy", "clip_frac", "stop_iter", "val"} <= set(record)
    for name in info:
        size = abs(float(info[name.removeprefix("delta_")]))  # a change is the difference of two
        assert record[name] == pytest.approx(float(info[name]), abs=1e-3 * size + 1e-5), name


def test_every_update_has_a_new_key():
    spec = ppo.Spec(SPEC.env, hidden=(4,), minibatch_size=10, train_pi_iters=2, train_v_iters=2)
    carry = start(script.make_singles(1)[0], spec=spec, algo=ppo)
    words = [acting.pack_key_words(dataclasses.replace(carry, updates=n), n) for n in (0, 1)]
    keys = [rng.stream(int(w[0]), int(w[1]), "update", w[2:]) for w in words]
    assert bool((jax.random.key_data(keys[0]) != jax.random.key_data(keys[1])).any())
    assert bool(keys[1] == rng.stream(0, 0, "update", 1))


def test_runs_repeat_bit_for_bit_and_seeds_differ():
    runs = [finish(start(script.make_singles(2)[0], seed=s, num_envs=2))[0] for s in (5, 5, 6)]
    leaves = [jax.tree.leaves(carry.learner) for carry in runs]
    for a, b in zip(leaves[0], leaves[1], strict=True):
        np.testing.assert_array_equal(a, b)
    assert any(bool((a != b).any()) for a, b in zip(leaves[0], leaves[2], strict=True))


def test_one_compilation_serves_a_run():
    before = onpolicy._compiled_learn()._cache_size()
    finish(start(script.make_singles(1)[0], steps=150, spec=dataclasses.replace(SPEC, hidden=(5,))))
    assert onpolicy._compiled_learn()._cache_size() - before == 1


def test_a_consumed_or_complete_carry_is_refused():
    carry = start(script.make_singles(1)[0], steps=30)
    after, _ = loop.advance(carry)
    with pytest.raises(ValueError, match="^this carry was consumed"):
        loop.advance(carry)
    with pytest.raises(ValueError, match="^the run is complete: 30 of 30"):
        loop.advance(after)


def test_errors_name_numbers_that_are_not_finite():
    class Broken(script.Script):
        def step(self, action: Any) -> Any:
            obs, rew, *rest = super().step(action)
            return obs, float("nan") if self.steps == 17 else rew, *rest

    with pytest.raises(
        errors.NonFiniteError,
        match=r"^rew of environment 0 is not finite at environment step 17: nan",
    ):
        finish(start(lambda: Broken()))
    kinds = [script.Script, Broken]
    with pytest.raises(
        errors.NonFiniteError,
        match=r"^rew of environment 1 is not finite at environment step 34: nan",
    ):
        finish(start(lambda: kinds.pop(0)(), num_envs=2, steps=120, steps_per_epoch=120))
    wild = vpg.Spec(SPEC.env, hidden=(4,), vf_lr=1e38, pi_lr=1e38)
    with pytest.raises(errors.NonFiniteError, match="^learning diverged between updates 0 and 1"):
        finish(start(script.make_singles(1)[0], spec=wild))


def test_moments_that_overflow_end_the_run_although_parameters_stay_finite():
    class Large(script.Script):
        def obs(self) -> np.ndarray:
            return np.full(3, 1e15)

    spec = vpg.Spec(SPEC.env, hidden=(4,), train_v_iters=2, activation="relu")
    with pytest.raises(
        errors.Diverged, match=r"step 30\): opt_state\['\w+'\]\[0\]\.nu.* not finite"
    ):
        finish(start(Large, spec=spec, max_ep_len=10))


def test_start_refuses_off_policy_schedules_and_rollouts_that_do_not_divide():
    env_fn = script.make_singles(1)[0]
    with pytest.raises(ValueError, match=r"^schedule of vpg must be a purerl\.schedules\.OnPol"):
        loop.start(vpg, SPEC, env_fn, OffPolicySchedule(), 0)
    spec = ppo.Spec(SPEC.env, hidden=(4,), minibatch_size=7)
    with pytest.raises(ValueError, match="^minibatch_size must divide the 30 rows of a rollout"):
        start(env_fn, spec=spec, algo=ppo)


def test_run_evaluates_and_reports_each_epoch():
    schedule = OnPolicySchedule(steps=60, steps_per_epoch=30, num_test_episodes=2)
    records = list(loop.run(vpg, SPEC, script.make_singles(3)[0], schedule, 0))
    assert [len(r["test_returns"]) for r in records] == [2, 2]


def test_start_warns_if_rollouts_cut_episodes_that_may_be_longer():
    def swing() -> Any:
        return gymnasium.make("Pendulum-v1")

    spec = vpg.Spec(EnvSpec.of(swing()), hidden=(4,))
    given = {"spec": spec, "num_envs": 8, "steps": 1600, "continue_episodes": False}
    for limit, number in ((None, 200), (150, 150)):
        with pytest.warns(
            errors.EpisodesCut, match=rf"^episodes may have {number} steps, .* has 100\."
        ):
            start(swing, **given, steps_per_epoch=800, max_ep_len=limit).envs.close()
    for calm in ({"steps_per_epoch": 1600}, {"max_ep_len": 100}, {"continue_episodes": True}):
        start(swing, **(given | {"steps_per_epoch": 800} | calm)).envs.close()


def test_reinforce_runs_without_a_finished_episode():
    spec = reinforce.Spec(SPEC.env, hidden=(4,))
    _, records = finish(start(script.make_singles(1, lengths=(500,))[0], spec=spec, algo=reinforce))
    assert len(records) == 2
    assert all("loss_pi" not in record for record in records)  # no update computed it


def test_statistics_of_values_are_over_the_steps_of_an_epoch():
    env_fn = script.make_singles(1)[0]
    other = start(env_fn)
    _, rollout = onpolicy.collect(other, 30)
    val = np.asarray(vpg.prepare(other.learner.params, rollout).val)
    _, record = loop.advance(start(env_fn))
    found = [record[name] for name in ("val", "val_std", "val_min", "val_max")]
    np.testing.assert_allclose(found, [val.mean(), val.std(), val.min(), val.max()], rtol=1e-4)
    assert "loss_pi_std" not in record  # a single update has no spread


def test_an_epoch_of_several_rollouts_has_the_episodes_and_metrics_of_all():
    lengths = {"steps": 120, "rollout_steps": 20, "steps_per_epoch": 60}
    env_fn = script.make_singles(1)[0]
    rows = finish(start(env_fn, steps=120, steps_per_epoch=20))[1]
    carry, records = finish(start(env_fn, **lengths))
    counts = [one and (one["epoch"], one["steps"], one["updates"]) for one in records]
    assert counts == [None, None, (1, 60, 3), None, None, (2, 120, 6)]
    for record, parts in zip(records[2::3], (rows[:3], rows[3:]), strict=True):
        assert record["ep_returns"] == [x for part in parts for x in part["ep_returns"]]
        assert record["ep_lengths"] == [x for part in parts for x in part["ep_lengths"]]
        for name in ("loss_v", "val", "entropy"):
            mean = np.mean([part[name] for part in parts])
            assert record[name] == pytest.approx(mean, rel=1e-4, abs=1e-6), name
        losses = [part["loss_v"] for part in parts]
        found = [record[f"loss_v_{kind}"] for kind in ("std", "min", "max")]
        np.testing.assert_allclose(found, [np.std(losses), min(losses), max(losses)], rtol=1e-3)
    assert not np.asarray(carry.tally)[0].any()


def test_the_last_epoch_ends_with_the_run():
    env_fn = script.make_singles(1)[0]
    _, records = finish(start(env_fn, steps=100, rollout_steps=20, steps_per_epoch=60))
    assert [record["steps"] for record in records if record] == [60, 100]


def test_a_loop_warns_of_counts_that_it_rounds_up():
    expected = "^rounded up to what fits: steps from 50 to 60$"
    with pytest.warns(errors.CountsRounded, match=expected):
        carry = start(script.make_singles(1)[0], steps=50, steps_per_epoch=30)
    assert carry.schedule.steps == 60


# --- sequences --------------------------------------------------------------------------

SHORT = {"steps": 200, "rollout_steps": 20, "steps_per_epoch": 100, "num_envs": 2}
SHORT |= {"replay_size": 100, "replay_start": 60}


def make_pole() -> gymnasium.Env:
    return gymnasium.make("CartPole-v1")


POLE = acer.Spec(EnvSpec.of(make_pole()), hidden=(4,))


def start_sequences(seed: int = 0, **changes: Any) -> Any:
    return loop.start(acer, POLE, make_pole, SequenceSchedule(**SHORT | changes), seed)


def test_an_advance_equals_an_update_and_further_ones_on_samples_of_the_buffer():
    carry, twin, numbers = start_sequences(), start_sequences(), []
    learner, ring = twin.learner, None
    for k in range(8):
        twin, rollout = onpolicy.collect(twin, 10)
        batch = acer.prepare(learner.params, rollout)
        if ring is None:
            ring = replay.init(jax.tree.map(lambda x: np.asarray(x[0]), batch), 10)
        ring, done = replay.add(ring, batch), carry.updates
        learner, _ = acer.update(learner, batch)
        drawn = int(jax.random.poisson(rng.stream(0, 0, "replays", done), 4.0))
        numbers.append(drawn if 20 * (k + 1) >= 60 else 0)
        for i in range(numbers[-1]):
            key = jax.random.fold_in(rng.stream(0, 0, "sample", done), i)
            learner, _ = acer.update(learner, replay.sample(ring, key, 2))
        carry, _ = loop.advance(carry)
        assert carry.updates == done + 1 + numbers[-1] == int(carry.learner.step)
        twin = dataclasses.replace(twin, learner=learner, steps=carry.steps)
        found = (carry.learner.params.replace(spec=None), carry.buffer)
        wanted = (learner.params.replace(spec=None), ring)
        for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-5)
    assert len({*numbers[2:]}) > 1
    assert numbers[:2] == [0, 0]


def test_the_number_of_replayed_updates_is_that_of_all_ranks_and_has_the_mean_of_the_ratio():
    ring = replay.init({"x": np.zeros(1)}, 8)
    full = dataclasses.replace(ring, stored=jnp.int32(4))
    plan = onpolicy.ReplayPlan(4.0, 4, 2)
    count = jax.jit(
        lambda ring, words: jax.vmap(
            lambda n: onpolicy.count_replays(plan, ring, words.at[3].set(n))
        )(jnp.arange(1_000, dtype=jnp.uint32))
    )
    words = [jnp.array([7, rank, 0, 0], jnp.uint32) for rank in (0, 3)]
    mine, other = (np.asarray(count(full, w)) for w in words)
    np.testing.assert_array_equal(mine, other)
    assert mine.mean() == pytest.approx(4.0, abs=0.2)
    assert mine.var() == pytest.approx(4.0, abs=0.6)
    few = dataclasses.replace(ring, stored=jnp.int32(3))
    assert not np.asarray(count(few, words[0])).any()


def test_all_numbers_of_replayed_updates_share_one_compilation():
    before = onpolicy._compiled_replay()._cache_size()
    carry, records = finish(start_sequences(replay_start=20, replay_ratio=3.0))
    assert onpolicy._compiled_replay()._cache_size() - before == 1
    assert carry.updates > 20
    assert [r["updates"] for r in records if r][-1] == carry.updates
    assert carry.steps == 200


def test_without_replay_there_is_no_buffer_and_one_update_for_each_rollout():
    carry, _ = finish(start_sequences(replay_ratio=0.0))
    assert isinstance(carry, OnPolicyCarry)
    assert (carry.updates, carry.buffer) == (10, None)
    assert isinstance(start_sequences(), SequenceCarry)


def test_stored_sequences_keep_the_logits_that_acted_and_the_true_successors():
    carry = start_sequences(max_ep_len=7)
    params = jax.tree.map(jnp.copy, carry.learner.params)
    carry, _ = loop.advance(carry)
    rows = jax.tree.map(lambda x: np.asarray(x)[:2], carry.buffer.data)
    np.testing.assert_allclose(rows.behaviour, acer.distribution(params, rows.obs), rtol=1e-5)
    cut = rows.truncated & ~rows.terminated
    assert cut.sum() == 2  # one in each environment
    who, when = np.nonzero(cut)
    assert (np.abs(rows.next_obs[who, when]) > 0.05).any(axis=-1).all()
    assert (np.abs(rows.obs[who, when + 1]) <= 0.05).all()  # the next episode has begun


def test_schedules_with_and_without_sequences_are_not_mixed_up():
    with pytest.raises(ValueError, match=r"^schedule of acer must be a .*\.SequenceSch"):
        loop.start(acer, POLE, make_pole, OnPolicySchedule(), 0)
    spec = vpg.Spec(EnvSpec.of(make_pole()))
    with pytest.raises(ValueError, match=r"^schedule of vpg must be a .*\.OnPolicySch"):
        loop.start(vpg, spec, make_pole, SequenceSchedule(), 0)


def test_a_custom_algorithm_must_prepare_sequences_for_such_a_schedule():
    names = ("Spec", "SCHEDULE", "init", "act", "policy", "loss", "update", "prepare")
    mine = types.SimpleNamespace(**{name: getattr(vpg, name) for name in names})
    mine.SCHEDULE = SequenceSchedule(**SHORT)
    spec = vpg.Spec(EnvSpec.of(make_pole()), hidden=(4,))
    with pytest.raises(ValueError, match="^prepare of custom must return a .*SequenceBatch, bec"):
        loop.start(mine, spec, make_pole, mine.SCHEDULE, 0)


def test_a_diverged_replay_is_reported_with_all_its_updates():
    wild = dataclasses.replace(POLE, lr=1e38, max_grad_norm=None)
    schedule = SequenceSchedule(**SHORT | {"replay_start": 20})
    carry = loop.start(acer, wild, make_pole, schedule, 0)
    with pytest.raises(errors.Diverged, match="^learning diverged between updates 0 and [2-9]"):
        finish(carry)
