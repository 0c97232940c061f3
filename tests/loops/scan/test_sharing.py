"""Programs on two devices: the same run as on one, except for rounding."""

import dataclasses
import types

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl import algos, errors, rng
from purerl.algos import dqn, ppo
from purerl.envs.bit_flipping import BitFlipping
from purerl.loops import devices, metrics, scan, snapshot
from purerl.loops.scan import programs, sharing
from purerl.loops.scan.stepping import Fault, World
from purerl.types import PolicyBatch, Transition
from tests.loops.scan.drift import (
    CASES,
    DISCRETE,
    Drift,
    Params,
    make_case,
    mark_complete,
    off,
    on,
)
from tests.loops.scan.test_loop import finish, split_numbers

FOUR = {"num_envs": 4}  # environments
OFF = FOUR | {"steps_per_epoch": 28, "start_steps": 16}  # epochs end inside of bursts
CUT = FOUR | {"rollout_steps": 32, "steps": 128}  # longer than an episode
LOGGED = ("far", "cost")
CHANGES = {"reinforce": CUT}
CHANGES |= dict.fromkeys(("ddpg", "dqn", "redq", "sac", "sac_discrete", "td3", "tqc"), OFF)


def make_split(name, **changes):
    """Return the arguments of a run on two devices."""
    return make_case(name, **CHANGES.get(name, FOUR) | changes, devices=2, log_info=LOGGED)


def compare(algo, spec, env, schedule):
    """Train on one and on two devices, and compare everything; return the carry of both."""
    alone, split = (dataclasses.replace(schedule, devices=number) for number in (1, 2))
    one, records = finish(scan.start(algo, spec, env, alone, seed=5))
    two, others = finish(scan.start(algo, spec, env, split, seed=5))
    assert one.updates == two.updates > 3
    for field in ("learner", "episodes", "buffer"):
        pair = (getattr(carry, field) for carry in (one, two))
        chex.assert_trees_all_close(*pair, rtol=2e-3, atol=5e-4)
    assert len(records) == len(others)
    for mine, other in zip(records, others, strict=True):
        (counts, numbers), (other_counts, other_numbers) = map(split_numbers, (mine, other))
        assert counts == other_counts
        chex.assert_trees_all_close(numbers, other_numbers, rtol=5e-3, atol=5e-4)
    return two


SPLIT = [name for name in CASES if algos.ALGORITHMS[name].splits_batches]


@pytest.mark.parametrize(
    "name", mark_complete(SPLIT, tuple(name for name in SPLIT if name not in ("dqn", "ppo")))
)
def test_two_devices_train_like_one(name):
    two = compare(*make_split(name))
    for leaf in jax.tree.leaves((two.learner, two.buffer, two.tally, two.episodes)):
        assert len(leaf.devices()) == 2
    halves = [part.data.shape for part in two.episodes.obs.addressable_shards]
    assert halves == [(2, 3), (2, 3)]


@pytest.mark.complete
def test_statistics_of_rollouts_are_those_of_all_environments():
    """Unlike the loop over Gymnasium, each device has the whole rollout of its environments."""
    env = Drift(DISCRETE)
    options = {"normalise_obs": True, "scale_rewards": True, "recompute_advantages": True}
    spec = ppo.Spec(env.spec, hidden=(8,), train_pi_iters=2, train_v_iters=2, **options)
    compare(ppo, spec, env, on(**FOUR))


@pytest.mark.complete
def test_rewards_are_summed_and_scaled_on_two_devices():
    two = compare(*make_split("dqn", n_step=3, scale_rewards=True))
    assert two.buffer.ret.shape == (4,)


@pytest.mark.complete
def test_goals_are_replayed_on_two_devices():
    env = BitFlipping(n_bits=4)
    spec = dqn.Spec(env.spec, hidden=(8,), clip_targets=True)
    changes = {"steps": 120, "steps_per_epoch": 60, "replay_size": 80} | FOUR
    two = compare(dqn, spec, env, off(**changes, start_steps=16))
    assert set(np.unique(two.buffer.data.extra["env"])) == {0, 1, 2, 3}


@pytest.mark.parametrize("name", mark_complete(("dqn", "ppo", "acer"), ("dqn", "acer")))
def test_a_resumed_run_on_two_devices_has_the_same_bits(name):
    args = make_split(name)
    run = (programs.compile_bursts if name == "dqn" else programs.compile_rollouts)(False)
    whole, records = finish(scan.start(*args, seed=3))
    before = run._cache_size()
    carry, others = scan.start(*args, seed=3), []
    carry.envs.pace.target = 0.0  # every program as short as possible
    while carry.steps < 40:
        carry, record = scan.advance(carry)
        others += [record] if record else []
    frozen = snapshot.freeze(carry)
    carry, rest = finish(snapshot.thaw(scan.start(*args, seed=3), frozen)[0])
    assert others + rest == records
    for field in ("learner", "episodes", "buffer", "tally"):
        chex.assert_trees_all_equal(getattr(carry, field), getattr(whole, field))
    assert run._cache_size() == before  # one compilation serves all lengths, and resumed runs


def test_a_run_may_go_on_with_another_number_of_devices():
    *args, schedule = make_split("ppo")
    alone = dataclasses.replace(schedule, devices=1)
    whole, _ = finish(scan.start(*args, alone, seed=3))
    carry = scan.start(*args, schedule, seed=3)
    carry.envs.pace.target = 0.0
    frozen = snapshot.freeze(scan.advance(carry)[0])
    carry, _ = finish(snapshot.thaw(scan.start(*args, alone, seed=3), frozen)[0])
    chex.assert_trees_all_close(carry.learner, whole.learner, rtol=2e-3, atol=5e-4)


def test_rows_collected_without_learning_are_the_next_ones_of_the_run():
    carry = scan.start(*make_split("dqn", update_after=24, update_every=24), seed=0)
    carry.envs.pace.target = 0.0
    rows = scan.collect(carry, 6)  # the last two steps explore
    carry, _ = scan.advance(carry)
    assert carry.steps == 24
    for stored, new in zip(carry.buffer.data, rows, strict=True):
        new = np.asarray(new).reshape(24, *stored.shape[1:])
        np.testing.assert_allclose(stored[:24], new, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", mark_complete(("dqn", "ppo"), ("dqn",)))
def test_an_error_names_the_environment_and_step_as_on_one_device(name):
    algo, spec, env, schedule = make_split(name)
    env = dataclasses.replace(env, params=Params(bad_reward_at=1, bad_above=0.3))
    messages = []
    for number in (1, 2):
        own = dataclasses.replace(schedule, devices=number)
        with pytest.raises(errors.NonFiniteError) as raised:
            finish(scan.start(algo, spec, env, own, seed=0))
        messages.append(str(raised.value))
    assert messages[0] == messages[1]
    assert "environment 3" in messages[0]


def test_each_device_updates_with_its_own_key_and_all_values_are_counted():
    batch = PolicyBatch(*[jnp.zeros(1)] * 7)
    toy = types.SimpleNamespace(
        prepare=lambda params, rollout: batch._replace(val=rollout.rew.ravel()),
        update=lambda state, batch: (
            state,
            {"drawn": jax.random.uniform(batch.key), "val": batch.val.mean()},
        ),
    )

    empty = jnp.asarray(metrics.make_empty_tally(2))

    def body(rew):
        learner = types.SimpleNamespace(params=None)
        rollout, words = types.SimpleNamespace(rew=rew), jnp.array([3, 1, 0, 7], jnp.uint32)
        return sharing.learn_once(toy, learner, empty, rollout, words)[1]

    x = jnp.array([[1.0, 4.0], [0.0, 2.0]])
    tally = jax.jit(devices.map_over_devices(body, 2, devices.SPLIT))(x)
    found = metrics.read_tally(("drawn", "val"), np.asarray(tally), single=1)
    key = rng.stream(3, 1, "update", 7)
    drawn = [jax.random.uniform(jax.random.fold_in(key, device)) for device in range(2)]
    np.testing.assert_allclose(found["drawn"], np.mean(drawn), rtol=1e-5)
    assert (found["val_min"], found["val_max"]) == (0.0, 4.0)


def test_the_first_fault_of_all_devices_is_reported():
    """Rows 0 .. 2 of a device are of its first step, rows 3 .. 5 of its second one."""
    world = World(Drift(), 3, None, devices=2)
    x = jnp.arange(2.0)
    row = Transition(x[:, None], x, x, x[:, None], x > 0, x > 0)

    def body(fault):
        return sharing.find_first_fault(world, Fault(fault.place[0], fault.row))

    find = jax.jit(devices.map_over_devices(body, 2, devices.SPLIT))
    assert find(Fault(jnp.array((-1, -1)), row)).place.tolist() == [-1]
    cases = (((4, -1), 7, 0), ((-1, 4), 10, 1), ((3, 2), 5, 1), ((3, 3), 6, 0))
    for places, place, device in cases:
        found = find(Fault(jnp.array(places), row))
        assert found.place.tolist() == [place]
        assert found.row.rew.tolist() == [device]


def test_devices_that_cannot_share_environments_are_refused():
    args = make_case("dqn", num_envs=3, steps_per_epoch=21, start_steps=15, update_after=18)
    args = (*args[:-1], dataclasses.replace(args[-1], update_every=9, devices=2))
    with pytest.raises(ValueError, match=r"multiple of devices.* got 3 .* 2 dev.* num_envs=4"):
        scan.start(*args, seed=0)


def test_several_seeds_on_two_devices_are_refused():
    args = make_split("ppo")
    with pytest.raises(ValueError, match="need one device, got devices=2. Set devices=1"):
        scan.start(*args, seeds=(0, 1))
    with pytest.raises(ValueError, match="several seeds .* need one device, got devices=2"):
        scan.join([scan.start(*args, seed=0)])


def test_a_state_that_environments_share_is_refused():
    episodes = scan.start(*make_case("ppo", **FOUR), seed=0).episodes
    odd = episodes._replace(state={"count": jnp.zeros(3)})
    with pytest.raises(ValueError, match=r"episodes\.state\['count'\] of shape \(3,\) is shared"):
        sharing.split_episodes(odd, World(Drift(), 2, None, devices=2))
    assert sharing.split_episodes(odd, World(Drift(), 4, None)) is odd
