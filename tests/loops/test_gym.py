"""`start`, `advance`, `run` and `evaluate`."""

import dataclasses
import subprocess
import sys

import chex
import jax
import numpy as np
import pytest

from purerl import errors, mpi, rng
from purerl.algos import ddpg, td3
from purerl.loops import gym as loop
from purerl.schedules import OnPolicySchedule
from purerl.spaces import EnvSpec
from tests.loops import script
from tests.loops.script import SMALL, WAYS, finish, schedule, start


def test_run_yields_a_record_per_epoch_and_returns_the_carry():
    env_fn, _ = script.make_singles(1)
    spec = td3.Spec(EnvSpec.of(script.Script()), **SMALL)
    closed = []
    made = []

    def counted():
        env = env_fn()
        env.close = lambda: closed.append(env)
        made.append(env)
        return env

    running = loop.run(td3, spec, counted, schedule(num_test_episodes=3), seed=0)
    records = []
    while True:
        try:
            records.append(next(running))
        except StopIteration as stop:
            carry = stop.value
            break
    assert [r["steps"] for r in records] == [30, 60]
    assert [len(r["test_returns"]) for r in records] == [3, 3]
    assert records[0]["test_lengths"] == [3, 1, 4]
    assert carry.updates == 48
    assert len(closed) == len(made) == 3  # one to train in, one per evaluation
    for epoch in (1, 2):  # each evaluation plays other episodes
        seeds = [rng.host_seed(0, 0, "eval", epoch, 0, n) for n in range(3)]
        assert made[epoch].seeds[:3] == seeds


def test_test_episodes_of_a_run_end_at_max_ep_len():
    spec = td3.Spec(EnvSpec.of(script.Script()), **SMALL)
    env_fn, _ = script.make_singles(1, lengths=(50,))
    plan = schedule(steps=30, num_test_episodes=2, max_ep_len=5)
    (record,) = loop.run(td3, spec, env_fn, plan, seed=0)
    assert record["test_lengths"] == [5, 5]


def test_each_rank_plays_test_episodes_of_its_own(monkeypatch):
    params = td3.init(jax.random.key(0), td3.Spec(EnvSpec.of(script.Script()), **SMALL)).params
    for rank in (0, 2):
        monkeypatch.setattr(mpi, "proc_id", lambda rank=rank: rank)
        env_fn, envs = script.make_singles(1)
        loop.evaluate(td3, params, env_fn, seed=3, epoch=4, episodes=2)
        seeds = [rng.host_seed(3, rank, "eval", 4, 0, n) for n in range(2)]
        assert envs[0].seeds[:2] == seeds


@pytest.mark.parametrize("name", ["one", "next_step", "same_step", "disabled"])
def test_evaluation_is_deterministic_has_its_own_seeds_and_does_not_favour_short_episodes(name):
    number, (env_fn, envs) = WAYS[name]
    params = td3.init(jax.random.key(0), td3.Spec(EnvSpec.of(script.Script()), **SMALL)).params
    envs.clear()
    first = loop.evaluate(td3, params, env_fn, seed=3, epoch=1, episodes=5)
    seeds = [s for env in envs for s in env.seeds]
    actions = np.array(envs[0].actions)
    envs.clear()
    again = loop.evaluate(td3, params, env_fn, seed=3, epoch=1, episodes=5)
    assert first == again
    np.testing.assert_array_equal(actions, envs[0].actions)
    assert len(first["test_returns"]) == 5
    # One environment plays five episodes; three environments play two, two and one.
    assert sorted(first["test_lengths"]) == ([1, 1, 3, 3, 4] if number == 1 else [1, 1, 3, 4, 4])
    training = {rng.host_seed(3, 0, "env", i, n) for i in range(3) for n in range(9)}
    assert not training & set(seeds)
    if number == 1:
        assert len(set(seeds)) == len(seeds)
        np.testing.assert_allclose(actions[0], td3.policy(params, np.float32([0, 0, 0])), rtol=1e-6)


def test_evaluation_cuts_episodes_at_max_ep_len():
    params = td3.init(jax.random.key(0), td3.Spec(EnvSpec.of(script.Script()), **SMALL)).params
    env_fn, _ = script.make_singles(1, lengths=(50,))
    result = loop.evaluate(td3, params, env_fn, 0, 1, episodes=2, max_ep_len=5)
    assert result["test_lengths"] == [5, 5]


def test_evaluation_refuses_bad_seeds_and_numbers_that_are_not_finite():
    params = td3.init(jax.random.key(0), td3.Spec(EnvSpec.of(script.Script()), **SMALL)).params
    for seed, epoch in ((2**40, 1), (0, 1.5), (0, -1)):
        with pytest.raises(ValueError, match="^(seed|epoch) must be an integer"):
            loop.evaluate(td3, params, script.Script, seed, epoch, 1)

    class Endless(script.Script):
        def step(self, action):
            obs, _, *rest = super().step(action)
            return obs, float("nan"), *rest

    with pytest.raises(errors.NonFiniteError, match="^the return of environment 0 is nan"):
        loop.evaluate(td3, params, Endless, 0, 1, 1)


DIGEST = """
import hashlib, gymnasium, jax, numpy as np
import purerl; purerl.setup(threads=1, cache=False)
from purerl.algos import td3
from purerl.loops import gym as loop
from purerl.schedules import OffPolicySchedule
from purerl.spaces import EnvSpec
env_fn = lambda: gymnasium.make("Pendulum-v1")
spec = td3.Spec(EnvSpec.of(env_fn()), hidden=(64, 64))
schedule = OffPolicySchedule(steps=300, steps_per_epoch=150, start_steps=100, update_after=100)
for seed in (5, 6):
    carry, digest = loop.start(td3, spec, env_fn, schedule, seed), hashlib.sha256()
    while carry.steps < 300:
        carry, record = loop.advance(carry)
        digest.update(repr(record).encode())
    arrays = (carry.learner, carry.buffer, carry.tally, carry.obs, carry.ep_return)
    for leaf in jax.tree.leaves(arrays):
        digest.update(np.asarray(leaf).tobytes())
    rest = (carry.steps, carry.calls, carry.updates, carry.envs.list_episodes())
    digest.update(repr(rest).encode())
    print(digest.hexdigest())
"""


@pytest.mark.complete
def test_two_processes_with_one_config_end_bit_for_bit_identical():
    command = [sys.executable, "-c", DIGEST]
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    first, second = (process.communicate()[0].split() for process in processes)
    assert first == second
    assert len(set(first)) == 2  # one for each seed


def test_start_refuses_arguments_that_do_not_fit():
    env_fn = script.make_singles(1)[0]
    spec = td3.Spec(EnvSpec.of(script.Script()), **SMALL)
    for seed in (-1, 2**32, 1.0, "0", np.float32(3), True):
        with pytest.raises(ValueError, match=r"^seed must be an integer in 0 \.\. 2\*\*32 - 1"):
            loop.start(td3, spec, env_fn, schedule(), seed)
    with pytest.raises(ValueError, match=r"^schedule of td3 must be a purerl\.schedules\.OffP"):
        loop.start(td3, spec, env_fn, OnPolicySchedule(), 0)
    with pytest.raises(
        ValueError, match=r"script' .* is not an algorithm: it lacks Spec, SCHEDULE"
    ):
        loop.start(script, spec, env_fn, schedule(), 0)
    with pytest.raises(ValueError, match=r"^spec must be a td3\.Spec, got a ddpg\.Spec"):
        loop.start(td3, ddpg.Spec(spec.env), env_fn, schedule(), 0)
    other = td3.Spec(dataclasses.replace(spec.env, obs_shape=(4,)))
    with pytest.raises(ValueError, match=r"^spec\.env must equal .*, EnvSpec.*, got"):
        loop.start(td3, other, env_fn, schedule(), 0)
    with pytest.raises(ValueError, match="GiB are free"):
        start(env_fn, replay_size=2**30)


def test_a_refused_start_closes_its_environments():
    env = script.Script()
    closed = []
    env.close = lambda: closed.append(1)
    with pytest.raises(ValueError, match="GiB are free"):
        start(lambda: env, replay_size=2**30)
    other = dataclasses.replace(EnvSpec.of(env), obs_shape=(4,))
    with pytest.raises(ValueError, match=r"^spec\.env must equal the spaces of"):
        start(lambda: env, spec=td3.Spec(other))
    assert closed == [1]  # the run without memory was refused before it made an environment
    assert start(lambda: env).envs.envs == [env]  # and it may be used again


def test_a_complete_run_cannot_be_advanced():
    carry, _ = finish(start(script.make_singles(1)[0]))
    with pytest.raises(ValueError, match="^the run is complete: 60 of 60 steps are done"):
        loop.advance(carry)


@pytest.mark.complete  # tests/test_rng.py has the cheap one
def test_training_without_jit_gives_the_same_learner():
    """Debugging with JAX_DISABLE_JIT=1 or `jax.disable_jit()` follows the same random streams."""
    short = {"steps": 4, "steps_per_epoch": 4, "update_every": 4, "updates_per_burst": 1}
    short |= {"start_steps": 3, "update_after": 4}
    compiled, _ = finish(start(script.make_singles(1)[0], **short))
    with jax.disable_jit():
        plain, _ = finish(start(script.make_singles(1)[0], **short))
    assert plain.updates == compiled.updates > 0
    chex.assert_trees_all_close(plain.learner, compiled.learner, rtol=1e-4)
