"""`purerl doctor` finds the first bad update by replaying the run."""

import dataclasses
import functools

import gymnasium
import jax
import numpy as np
import pytest

from purerl import rng
from purerl.algos import acer, td3
from purerl.buffers import replay as memory
from purerl.errors import Diverged, EnvFault, NonFiniteError
from purerl.loops import gym as loop
from purerl.runs.record import checkpoint_folders, status
from purerl.runs.settings import config
from purerl.runs.training import diagnosis, restoring, train
from purerl.runs.training.progress_bar import Screen
from purerl.schedules import SequenceSchedule
from purerl.spaces import EnvSpec
from tests.loops.hindsight import reach

SPIKE = 1e30


class Spiky(gymnasium.Env):
    """Environment with one reward whose square overflows float32."""

    observation_space = gymnasium.spaces.Box(-1, 1, (2,), np.float32)
    action_space = gymnasium.spaces.Box(-1, 1, (1,), np.float32)

    def __init__(self, at, value=SPIKE):
        self.at, self.value, self.steps = at, value, 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return self.np_random.uniform(-1, 1, 2).astype(np.float32), {}

    def step(self, action):
        self.steps += 1
        obs = self.np_random.uniform(-1, 1, 2).astype(np.float32)
        reward = self.value if self.steps == self.at else float(action[0])
        return obs, reward, False, self.steps == 1_000, {}


def settings(algo, env_fn, **schedule):
    content = {"algo": algo, "env": "Spiky", "spec": {"hidden": [4]}, "schedule": schedule}
    return config.from_json(content | {"options": {"save_freq": 100}}, env_fn)


def diverge(tmp_path, algo, env_fn, **schedule):
    made = settings(algo, env_fn, **schedule)
    with pytest.raises(NonFiniteError) as caught:
        train.train(made, env_fn, data_dir=str(tmp_path), screen=Screen(quiet=True))
    (path,) = tmp_path.rglob("config.json")
    return path.parent, caught.value


@pytest.fixture(scope="module")
def diverged(tmp_path_factory):
    env_fn = functools.partial(Spiky, 555)
    schedule = {"steps": 1_000, "steps_per_epoch": 500, "start_steps": 100, "update_after": 100}
    schedule |= {"update_every": 50, "updates_per_burst": 10, "batch_size": 64}
    where = tmp_path_factory.mktemp("diverged")
    run, error = diverge(where, "td3", env_fn, **schedule | {"replay_size": 600})
    return run, error, env_fn


def test_divergence_keeps_the_last_checkpoint_and_names_the_next_command(diverged):
    run, error, _ = diverged
    assert isinstance(error, Diverged)
    kept = checkpoint_folders.list_steps(run)[-1]
    assert kept in (500, 600)  # the row came at 555
    call = f"purerl.runs.training.diagnosis.diagnose(pathlib.Path({str(run)!r}), env_fn=...)"
    assert error.__notes__ == [
        f"the checkpoint of step {kept} is kept. Find the cause: in Python: {call}"
    ]
    assert status.read_status(run)["status"] == "failed"


def test_the_first_bad_update_is_found_with_its_batch_and_parameters(diverged):
    run, error, env_fn = diverged
    said = []
    finding = diagnosis.diagnose(run, env_fn, say=said.append)
    kept = checkpoint_folders.list_steps(run)[-1]
    assert said[0] == f"replaying from step {kept}"
    assert finding.message == str(error)
    assert f"(environment step {finding.step})" in str(error)
    assert finding.step > kept
    saved = np.load(finding.saved)
    assert (saved["batch .rew"] == np.float32(SPIKE)).any()
    assert int(saved["step"]) == finding.update - 1
    rows = np.arange(finding.step)
    ring = memory.add(memory.init(np.zeros((), int), 600), rows, len(rows))
    which = (finding.update - 1) % 10  # index in its burst
    keys = jax.random.split(rng.stream(0, 0, "sample", finding.update - 1 - which), 10)
    drawn = np.asarray(memory.sample(ring, keys[which], 64))
    np.testing.assert_array_equal(drawn == 554, saved["batch .rew"] == np.float32(SPIKE))
    params = {k: v for k, v in saved.items() if k.startswith("params ")}
    assert all(np.isfinite(x).all() for x in params.values())
    assert "metric ['loss_q']" in finding.bad
    # Gradients of 1e28 are finite, but their squares in Adam's second moments are not.
    assert not any(name.startswith("gradient") for name in finding.bad)
    assert any(name.startswith("new .opt_state['critic']") for name in finding.bad)
    assert not any(name.startswith("new .params.target") for name in finding.bad)
    again = diagnosis.diagnose(run, env_fn, at=400)
    assert again == finding


def test_a_run_that_does_not_diverge_again_has_no_finding(diverged):
    run, _, _ = diverged
    assert diagnosis.diagnose(run, functools.partial(Spiky, 555, 1.0), at=400) is None


def test_an_on_policy_finding_names_the_line_of_the_first_nan(tmp_path):
    env_fn = functools.partial(Spiky, 150, 3e38)
    run, _ = diverge(tmp_path, "vpg", env_fn, steps=400, steps_per_epoch=100)
    finding = diagnosis.diagnose(run, env_fn)
    assert (finding.update, finding.step) == (2, 200)
    assert "purerl/" in finding.line
    lines = finding.describe().split("\n")
    assert lines[0] == "first bad update: 2, at environment step 200"
    assert len(lines) <= 13


def test_an_on_policy_update_is_repeated_with_its_own_key():
    env_fn = functools.partial(Spiky, 2_000)
    made = settings("ppo", env_fn, steps=400, steps_per_epoch=100)
    carry = restoring.start_carry(made, env_fn)
    for number in range(2):
        carry = dataclasses.replace(carry, updates=number)
        step, (batch,) = diagnosis._collect(carry)
        assert step == 100
        assert bool(batch.key == rng.stream(0, 0, "update", number))
    carry.envs.close()


@pytest.mark.complete
def test_the_batches_of_a_burst_with_goals_are_drawn_again():
    whole, _ = reach.finish(reach.start(), 36)
    carry, _ = reach.finish(reach.start(), 24)
    step, batches = diagnosis._collect(carry)
    assert step == 36
    learner = carry.learner
    for batch in batches:
        learner, _ = td3.update(learner, batch)
    near = functools.partial(np.testing.assert_allclose, rtol=1e-4, atol=1e-6)
    jax.tree.map(near, learner.params, whole.learner.params)


def test_a_bad_number_from_the_environment_is_not_blamed_on_an_update(tmp_path):
    env_fn = functools.partial(Spiky, 150, float("inf"))
    run, error = diverge(tmp_path, "vpg", env_fn, steps=400, steps_per_epoch=100)
    assert not isinstance(error, Diverged)
    finding = diagnosis.diagnose(run, env_fn)
    assert finding.update == 0
    assert "rew of environment 0 is not finite at environment step 150" in finding.message
    assert finding.describe() == f"no update is at fault: {finding.message}"


def test_other_errors_do_not_suggest_the_doctor(tmp_path):
    made = settings("vpg", functools.partial(Spiky, 150), steps=400, steps_per_epoch=100)
    made = dataclasses.replace(made, seed=3)

    def broken():
        raise ZeroDivisionError

    with pytest.raises(EnvFault, match="env_fn raised ZeroDivisionError") as caught:
        train.train(made, broken, data_dir=str(tmp_path), screen=Screen(quiet=True))
    (path,) = tmp_path.rglob("config.json")
    way = f"in Python: purerl.runs.training.train.resume(pathlib.Path({str(path.parent)!r}), "
    assert caught.value.__notes__ == [f"there is no checkpoint yet. Start again: {way}env_fn=...)"]


def test_the_batches_of_replayed_updates_are_collected_again():
    def begin():
        env_fn = functools.partial(gymnasium.make, "CartPole-v1")
        spec = acer.Spec(EnvSpec.of(env_fn()), hidden=(4,))
        schedule = SequenceSchedule(steps=400, rollout_steps=40, replay_start=80, num_envs=2)
        carry = loop.start(acer, spec, env_fn, schedule, 0)
        while carry.steps < 160:
            carry, _ = loop.advance(carry)
        return carry

    carry, _ = loop.advance(begin())
    before = begin()
    step, batches = diagnosis._collect(before)
    assert step == carry.steps == 200
    assert len(batches) == carry.updates - before.updates > 1
    learner = before.learner
    for batch in batches:
        learner, _ = acer.update(learner, batch)
    for a, b in zip(*(jax.tree.leaves(x.params) for x in (learner, carry.learner)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-5)
