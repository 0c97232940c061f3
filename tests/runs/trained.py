"""Tiny trained runs for tests; each is made once per process."""

import dataclasses
import functools
import tempfile
from pathlib import Path

import jax
import jax.numpy as jnp

import purerl
from purerl import algos
from purerl.loops import gym as loop
from purerl.moments import Moments
from purerl.runs.policy.run import Run
from purerl.runs.record import checkpoint, folder
from purerl.runs.settings import config as configs
from purerl.runs.settings import environments
from purerl.runs.settings.config import Config
from purerl.runs.training import saving
from tests.cases import CASES

OFF_POLICY = {
    "steps": 120,
    "steps_per_epoch": 60,
    "start_steps": 20,
    "update_after": 20,
    "update_every": 20,
    "batch_size": 8,
    "replay_size": 200,
}
ON_POLICY = {"steps": 120, "steps_per_epoch": 60}
SEQUENCES = ON_POLICY | {"num_envs": 2, "rollout_steps": 20, "replay_size": 40, "replay_start": 20}
SMALL = {
    "acer": ("CartPole-v1", SEQUENCES),
    "crossq": ("Pendulum-v1", OFF_POLICY),
    "ddpg": ("Pendulum-v1", OFF_POLICY),
    "dqn": ("CartPole-v1", OFF_POLICY),
    "ppo": ("CartPole-v1", ON_POLICY | {"train_v_iters": 2, "train_pi_iters": 2}),
    "pqn": ("CartPole-v1", ON_POLICY | {"num_envs": 2, "rollout_steps": 60, "minibatch_size": 20}),
    "redq": ("Pendulum-v1", OFF_POLICY),
    "reinforce": ("CartPole-v1", ON_POLICY),
    "sac": ("Pendulum-v1", OFF_POLICY),
    "sac_discrete": ("CartPole-v1", OFF_POLICY),
    "td3": ("Pendulum-v1", OFF_POLICY),
    "tqc": ("Pendulum-v1", OFF_POLICY),
    "trpo": ("Pendulum-v1", ON_POLICY),
    "vpg": ("Pendulum-v1", ON_POLICY),
    "xqc": ("Pendulum-v1", OFF_POLICY | {"updates_per_burst": 20}),
}
COMMON = {
    "hidden": (8, 8),
    "max_ep_len": 30,
    "num_test_episodes": 1,
    "save_freq": 60,
    "quiet": True,
    "seed": 3,
}
_folder = tempfile.TemporaryDirectory(prefix="purerl-trained-")


@functools.cache
def train_tiny_run(algo: str) -> Run:
    """Train a run of 120 steps, with checkpoints at 60 and 120. Copy it before changing it."""
    env, settings = SMALL[algo]
    return purerl.train(algo, env, data_dir=_folder.name, **COMMON, **settings)


@functools.cache
def begun(algo: str) -> Run:
    """Make a run with one checkpoint, at step 0, so that nothing must be compiled."""
    env, settings = SMALL[algo]
    known = {field.name for field in dataclasses.fields(algos.load(algo).SCHEDULE)}
    schedule = {name: x for name, x in (COMMON | settings).items() if name in known}
    spec = {name: x for name, x in settings.items() if name in ("minibatch_size",)}
    content = {"algo": algo, "env": env, "spec": spec | {"hidden": [8, 8]}, "schedule": schedule}
    config = configs.from_json(content)
    run = folder.create_folder(configs.to_json(config), _folder.name)
    carry = loop.start(
        algos.load(algo), config.spec, environments.make_env_fn(env), config.schedule, 0
    )
    checkpoint.save(run, carry, saving.describe_run(config), ())
    carry.envs.close()
    return Run(run, config, 0, carry.learner.params)


def make_run(case: str, path: Path, **changes) -> Run:
    """Make an untrained run from a contract case, with statistics if its spec normalises."""
    algo = CASES[case].algo
    spec = dataclasses.replace(CASES[case].spec(), **changes)
    name = algo.__name__.rpartition(".")[2]
    params = algo.init(jax.random.key(1), spec).params
    params = jax.tree.map(lambda x: 3 * x, params)  # so that actions differ between observations
    if getattr(spec, "normalise_obs", False):
        seen = Moments(jnp.array([1.0, -2.0, 30.0]), jnp.array([0.5, 4.0, 9.0]), jnp.float32(50))
        params = params.replace(obs_stats=seen)
    if hasattr(params, "actor_stats"):  # means and variances unlike the first ones
        params = params.replace(
            actor_stats=jax.tree.map(lambda x: 10 * x + 0.5, params.actor_stats)
        )
    return Run(path, Config(name, "Case-v0", 0, "case", spec, algo.SCHEDULE), 0, params)
