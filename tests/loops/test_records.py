"""Records of an epoch: episodes, means of the metrics, and divergence."""

import dataclasses
import functools

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from gymnasium.vector import AutoresetMode

from purerl import errors, rng
from purerl.algos import sac, td3, vpg
from purerl.buffers import replay
from purerl.loops import adapters, records, snapshot
from purerl.loops import gym as loop
from purerl.schedules import OnPolicySchedule
from purerl.spaces import EnvSpec
from purerl.types import Transition
from tests.loops import script
from tests.loops.script import SMALL, WAYS, finish, read_buffer, start


@pytest.mark.parametrize(("number", "made"), WAYS.values(), ids=WAYS)
def test_finished_episodes_are_reported_with_return_and_length(number, made):
    env_fn, envs = made
    envs.clear()
    carry, records = finish(start(env_fn, num_envs=number, steps=24, steps_per_epoch=24))
    ended = [row for rows in read_buffer(carry).values() for row in rows if any(row[3:])]
    assert len(records[0]["ep_lengths"]) == len(ended) + sum(carry.surplus[4] | carry.surplus[5])
    for total, length in zip(records[0]["ep_returns"], records[0]["ep_lengths"], strict=True):
        episode = (total - length * (length + 1) / 2) / (100 * length)
        assert episode == int(episode)
        assert any((3, 1, 4)[(int(episode) + who) % 3] == length for who in range(number))


def test_a_call_that_only_starts_an_episode_has_neither_reward_nor_length():
    rows = Transition(*[np.zeros(2)] * 2, np.float32([1.0, 5.0]), *[np.zeros(2)] * 3)
    step = adapters.Step(rows, np.array([True, False]), [], np.zeros(2), [])
    ep_return, ep_length = np.zeros(2), np.zeros(2, np.int64)
    assert records.count_step(step, ep_return, ep_length) == []
    assert (ep_return.tolist(), ep_length.tolist()) == ([1.0, 0.0], [1, 0])


def test_an_episode_continues_across_epochs_and_its_return_is_complete():
    env_fn, _ = script.make_singles(1, lengths=(10_000, 45))
    _, records = finish(start(env_fn, steps=30, steps_per_epoch=12))
    assert [r["ep_returns"] for r in records] == [[], [], []]  # and nothing crashes
    env_fn, _ = script.make_singles(1, lengths=(45, 10_000))
    _, records = finish(start(env_fn))
    assert [r["ep_lengths"] for r in records] == [[], [45]]
    assert records[1]["ep_returns"] == [45 * 46 / 2]


def test_a_record_has_means_over_the_updates_that_computed_a_metric():
    carry = start(script.make_singles(1)[0], steps_per_epoch=6, updates_per_burst=1)
    infos = []
    for _ in range(6):
        learner, buffer = jax.tree.map(jnp.copy, (carry.learner, carry.buffer))
        updates = carry.updates
        carry, record = loop.advance(carry)
        if carry.updates > updates:
            block = slice(carry.steps - 6, carry.steps)
            new = Transition(*(leaf[block] for leaf in carry.buffer.data))
            buffer = replay.add(buffer, new)
            (key,) = jax.random.split(rng.stream(0, 0, "sample", updates), 1)
            _, info = td3.update(learner, replay.sample(buffer, key, 4))
            infos.append(info)
            assert record["loss_q"] == pytest.approx(float(info["loss_q"]), rel=1e-4)
            assert ("loss_pi" in record) == bool(info["loss_pi_count"])
        else:
            assert "loss_q" not in record
    assert [float(i["loss_pi_count"]) for i in infos] == [1, 0, 1, 0]
    assert not any(name.endswith("_count") for name in record)


def test_metrics_of_an_epoch_are_averaged_only_over_its_updates():
    carry, records = finish(start(script.make_singles(1)[0]))
    assert [r["updates"] for r in records] == [18, 48]
    assert [r["epoch"] for r in records] == [1, 2]
    assert all(np.isfinite(r["loss_pi"]) for r in records)
    assert not np.asarray(carry.tally)[0].any()


def test_a_record_without_updates_and_episodes_is_valid():
    env_fn, _ = script.make_singles(1, lengths=(1000,))
    _, records = finish(start(env_fn, steps_per_epoch=10, update_after=50))
    assert [sorted(r) for r in records[:2]] == [
        ["ep_lengths", "ep_returns", "epoch", "random_steps", "steps", "updates"]
    ] * 2


@pytest.mark.parametrize(
    ("start_steps", "expected"),
    [(0, [None, None, None]), (25, [20, 5, None]), (40, [20, 20, None])],
)
def test_a_record_counts_the_random_steps_of_its_epoch(start_steps, expected):
    env_fn, _ = script.make_singles(1)
    _, records = finish(start(env_fn, steps=60, steps_per_epoch=20, start_steps=start_steps))
    assert [record.get("random_steps") for record in records] == expected


def test_records_count_exactly_the_steps_done():
    carry = start(script.make_singles(1)[0], steps_per_epoch=20)
    while carry.steps < 60:
        carry, record = loop.advance(carry)
        if record:
            assert record["steps"] == carry.steps == carry.calls == int(carry.buffer.stored)


def test_divergence_is_reported_with_updates_step_and_metric():
    spec = td3.Spec(EnvSpec.of(script.Script()), q_lr=1e38, pi_lr=1e38, **SMALL)
    with pytest.raises(
        errors.NonFiniteError,
        match=r"^learning diverged between updates \d+ and \d+ \(environment step \d+\): .*loss_q",
    ):
        finish(start(script.make_singles(1)[0], spec=spec))


class Large(script.Script):
    """Environment whose observations make finite gradients with infinite squares."""

    def obs(self):
        return np.full(3, 1e15)


def test_moments_that_overflow_end_the_run_although_parameters_stay_finite():
    with pytest.raises(errors.Diverged) as caught:
        finish(start(Large, max_ep_len=5))
    message = str(caught.value)
    assert "step 18): opt_state['critic'][0].nu[0]['params']['MLP_0']['Dense_0']" in message
    assert "and 1 more not finite." in message


def test_scalars_of_an_optimizer_may_be_infinite_and_integers_are_not_checked():
    def init(params):
        scale = jax.tree.map(jnp.ones_like, params)
        return {"bound": jnp.float32(jnp.inf), "count": jnp.ones(3, int), "scale": scale}

    bounded = optax.GradientTransformation(init, lambda grads, state, params=None: (grads, state))
    adam = optax.chain(bounded, optax.adam(1e-3))
    spec = td3.Spec(EnvSpec.of(script.Script()), optimizer=adam, **SMALL)
    carry, _ = finish(start(script.make_singles(1)[0], spec=spec, steps=30))
    assert carry.updates
    state = sac.init(rng.stream(0, 0, "init"), sac.Spec(EnvSpec.of(script.Script()), **SMALL))
    mixed = state.opt_state | {"actor": bounded.init(jnp.ones(2))}
    state = dataclasses.replace(state, opt_state=mixed)
    names = records.list_numbers(state)
    assert {name for name in names if "actor'" in name} == {".opt_state['actor']['scale']"}
    moments = {name for name in names if "log_alpha" in name}  # its only parameter is a scalar
    alpha = ".opt_state['log_alpha'][0]"
    assert moments == {f"{alpha}.mu", f"{alpha}.nu", ".params.log_alpha"}


class Told(script.Script):
    """The script with values in `info` in its last steps only, as many environments have them."""

    def step(self, action):
        obs, reward, terminated, truncated, info = super().step(action)
        if terminated or truncated:
            info |= {"is_success": bool(self.episode % 2), "length": self.time}
        return obs, reward, terminated, truncated, info


@pytest.mark.parametrize("algo", [td3, vpg])
def test_values_of_info_are_logged_for_each_episode(algo):
    names = ("is_success", "length")
    settings = {"log_info": names, "steps": 60, "steps_per_epoch": 20, "num_test_episodes": 2}
    spec = algo.Spec(EnvSpec.of(script.Script()), **SMALL)
    if algo is td3:
        schedule = script.schedule(**settings)
    else:
        schedule = OnPolicySchedule(rollout_steps=20, **settings)
    records = list(loop.run(algo, spec, Told, schedule, 0))
    success = [x for record in records for x in record["ep_is_success"]]
    lengths = [x for record in records for x in record["ep_lengths"]]
    assert success == [float(n % 2) for n in range(len(lengths))]
    assert [x for record in records for x in record["ep_length"]] == lengths
    assert [record["test_is_success"] for record in records] == [[0.0, 1.0]] * 3
    assert [record["test_length"] for record in records] == [[3.0, 1.0]] * 3


def test_logged_values_survive_a_snapshot():
    begin = functools.partial(start, Told, log_info=("length",), steps_per_epoch=60)
    carry = begin()
    while carry.steps < 30:
        carry, _ = loop.advance(carry)
    frozen = snapshot.freeze(carry)
    _, (record,) = finish(carry)
    thawed, _ = snapshot.thaw(begin(), frozen)
    number = len(thawed.ep_infos)
    assert number > 3
    assert [x for (x,) in thawed.ep_infos] == record["ep_length"][:number]
    other = start(Told, log_info=("length", "is_success"), steps_per_epoch=60)
    with pytest.raises(errors.SnapshotMismatch, match="ep_infos must be"):
        snapshot.thaw(other, frozen)


def test_names_to_log_are_checked():
    for names in (["x"], ("x", "x"), ("returns",), ("",), (1,), "x"):
        with pytest.raises(ValueError, match="^log_info must "):
            script.schedule(log_info=names)


def test_logged_values_of_surplus_test_episodes_are_not_counted():
    envs = [lambda i=i: Told(i) for i in range(2)]
    many = gymnasium.vector.SyncVectorEnv(envs, autoreset_mode=AutoresetMode.DISABLED)
    params = td3.init(jax.random.key(0), td3.Spec(EnvSpec.of(many), **SMALL)).params
    found = loop.evaluate(td3, params, lambda: many, 0, 0, 5, log_info=("length",))
    assert found["test_length"] == found["test_lengths"]
    assert len(found["test_length"]) == 5


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
@pytest.mark.parametrize("size", [3, 100_000])  # checked together with others, and alone
def test_a_single_number_that_is_not_finite_is_found_in_small_and_large_arrays(size, value):
    good = {"small": jnp.ones(5), "large": jnp.full(90_000, 3e38)}
    assert records.are_all_finite(good)
    assert not records.are_all_finite(good | {"bad": jnp.ones(size).at[2].set(value)})
