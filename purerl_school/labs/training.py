"""Short training runs of a copy of an algorithm, on environments written in JAX.

The stored curves are from these runs (`benchmarks/lab_curves.py`).
"""

import importlib.util
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from purerl.envs import names
from purerl.errors import WrongAnswer
from purerl.loops import scan


class Setup(NamedTuple):
    """Settings of the runs of an algorithm."""

    env: str
    spec: dict[str, Any]
    schedule: dict[str, Any]
    metrics: tuple[str, ...]  # in the order of the picture; `return` is that of episodes


_CARTPOLE = {"num_envs": 8, "steps": 40_960, "rollout_steps": 1024, "steps_per_epoch": 2048}
_PENDULUM = {"steps": 8_000, "start_steps": 1_000, "update_after": 1_000, "steps_per_epoch": 400}
_PENDULUM |= {"batch_size": 64, "num_test_episodes": 0, "replay_size": 8_000}
_SHORT = {"start_steps": 500, "update_after": 500, "steps_per_epoch": 200}
_SMALL = {"hidden": (32, 32)}
_V = ("return", "val", "loss_v", "delta_loss_v", "entropy", "kl", "loss_pi", "delta_loss_pi")
_SOFT = ("q1", "q2", "target", "loss_q", "loss_pi", "logp", "alpha", "loss_alpha")
SETUPS = {
    "acer": Setup(
        "jax:CartPole-v1",
        _SMALL | {"lr": 2e-3},
        {"num_envs": 8, "steps": 83_200, "steps_per_epoch": 4_160, "replay_start": 2_560},
        ("return", "q", "loss_q", "entropy", "kl", "limited"),
    ),
    "crossq": Setup(
        "jax:Pendulum-v1",
        {"hidden": (64, 64)},
        _PENDULUM | {"steps": 6_400, "batch_size": 128},
        ("return", *_SOFT),
    ),
    "ddpg": Setup(
        "jax:Pendulum-v1",
        {"hidden": (64, 64)},
        _PENDULUM,
        ("return", "q", "target", "loss_q", "loss_pi"),
    ),
    "dqn": Setup(
        "jax:CartPole-v1",
        {"hidden": (128, 128), "eps_decay": 5_000},
        {"steps": 20_000, "steps_per_epoch": 1_000, "num_test_episodes": 0},
        ("return", "q", "target", "loss_q", "epsilon"),
    ),
    "ppo": Setup(
        "jax:CartPole-v1",
        _SMALL | {"pi_lr": 1e-3, "vf_lr": 3e-3, "train_pi_iters": 20, "train_v_iters": 20},
        _CARTPOLE,
        (*_V[:6], "clip_frac", "stop_iter", "delta_loss_pi"),
    ),
    "pqn": Setup(
        "jax:CartPole-v1",
        {"lr": 5e-4, "reward_scale": 0.1, "eps_end": 0.1, "eps_decay": 20, "hidden": (64, 64)},
        {"steps": 106_496, "steps_per_epoch": 4_096, "num_test_episodes": 0},
        ("return", "q", "target", "loss_q", "delta_loss_q", "epsilon"),
    ),
    "redq": Setup(
        "jax:Pendulum-v1",
        {"hidden": (64, 64), "ensemble": 5, "policy_delay": 10, "lr": 1e-3},
        _PENDULUM | _SHORT | {"steps": 3_200, "updates_per_burst": 10},
        ("return", "q", "q_spread", *_SOFT[2:]),
    ),
    "reinforce": Setup(
        "jax:CartPole-v1",
        _SMALL,
        {"num_envs": 16, "steps": 327_680, "rollout_steps": 8192, "steps_per_epoch": 8192},
        ("return", "entropy", "kl", "loss_pi", "delta_loss_pi"),
    ),
    "sac": Setup(
        "jax:Pendulum-v1",
        {"hidden": (64, 64), "alpha": "auto"},
        _PENDULUM,
        ("return", *_SOFT),
    ),
    "sac_discrete": Setup(
        "jax:CartPole-v1",
        {"hidden": (64, 64)},
        {"steps": 20_000, "steps_per_epoch": 1_000, "num_test_episodes": 0, "batch_size": 128},
        ("return", "q1", "q2", "target", "loss_q", "loss_pi", "entropy", "alpha", "loss_alpha"),
    ),
    "td3": Setup(
        "jax:Pendulum-v1",
        {"hidden": (64, 64)},
        _PENDULUM,
        ("return", "q1", "q2", "target", "loss_q", "loss_pi"),
    ),
    "tqc": Setup(
        "jax:Pendulum-v1",
        {"hidden": (64, 64), "lr": 1e-3, "num_quantiles": 15},
        _PENDULUM | {"steps": 7_200},
        ("return", "q", *_SOFT[2:]),
    ),
    "trpo": Setup(
        "jax:CartPole-v1",
        _SMALL | {"vf_lr": 3e-3, "train_v_iters": 20},
        _CARTPOLE,
        (*_V[:6], "backtrack_iters", "accepted", "delta_loss_pi"),
    ),
    "vpg": Setup(
        "jax:CartPole-v1",
        _SMALL | {"pi_lr": 1e-2, "vf_lr": 3e-3},
        _CARTPOLE | {"steps": 81_920, "steps_per_epoch": 4_096},
        (*_V[:6], "loss_pi", "delta_loss_pi"),
    ),
    "xqc": Setup(
        "jax:Pendulum-v1",
        {"hidden": (64, 64), "gamma": 0.975, "lr": 1e-3},
        _PENDULUM | _SHORT | {"steps": 4_000, "batch_size": 128},
        ("return", "q1", "q2", "target", "clipped", *_SOFT[3:7]),
    ),
}


def load_copy(file: Path) -> ModuleType:
    """Run the file of a copy, and return its module."""
    name = f"{file.resolve().parent.name}.{file.stem}"
    found = importlib.util.spec_from_file_location(name, file)
    if found is None or found.loader is None:
        raise ValueError(f"{file} must be a Python file, with the suffix .py.")
    sys.modules[name] = module = importlib.util.module_from_spec(found)
    try:
        found.loader.exec_module(module)
    except Exception as error:  # a student's file may raise anything
        raise WrongAnswer(f"{file} cannot be imported: {type(error).__name__}: {error}") from error
    return module


def train(algo: ModuleType, setup: Setup, seeds: Sequence[int]) -> Iterator[list[dict[str, Any]]]:
    """Train with several seeds in one program; yield the metrics of all seeds at each epoch."""
    env = names.make(setup.env)
    schedule = type(algo.SCHEDULE)(**vars(algo.SCHEDULE) | setup.schedule)
    carry = scan.start(algo, algo.Spec(env.spec, **setup.spec), env, schedule, seeds=seeds)
    while carry.carries[0].steps < schedule.steps:
        carry, records = scan.advance(carry)
        if records is not None:
            yield [_read_metrics(record, setup.metrics) for record in records]


def _read_metrics(record: dict[str, Any], metrics: Sequence[str]) -> dict[str, Any]:
    """Return the steps and the metrics of an epoch; None for those without a value."""
    score = float(np.mean(record["ep_returns"])) if record["ep_returns"] else None
    values = {"return": score, **{name: record.get(name) for name in metrics if name != "return"}}
    return {"steps": record["steps"], **{name: values[name] for name in metrics}}
