"""Training for the rewards: an algorithm with functions of the student, in a compiled loop."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np

from purerl.algos import ppo
from purerl.envs.classic.cartpole import CartPole
from purerl.envs.protocol import JaxEnv
from purerl.loops import scan
from purerl.schedules import OnPolicySchedule, Schedule

Report = Callable[[str], None]


def train(
    algo: Any,
    functions: dict[str, Any],
    env: JaxEnv,
    schedule: Schedule,
    settings: dict[str, Any],
    report: Report,
    metrics: tuple[str, ...] = (),
) -> float:
    """Train an algorithm, report the mean return of each epoch, and return the last one.

    Args:
        algo: Module of an algorithm.
        functions: Functions that replace those of the algorithm, by name.
        env: Environment in JAX.
        schedule: Schedule of the algorithm.
        settings: Settings of the algorithm's Spec.
        report: Function that prints a line.
        metrics: Metrics to print beside the returns.
    """
    changed: Any = SimpleNamespace(**vars(algo) | functions)
    score = np.nan
    for record in scan.run(changed, algo.Spec(env.spec, **settings), env, schedule, seed=0):
        score = float(np.mean(record["ep_returns"]))
        shown = "".join(f"  {name} {record[name]:6.3f}" for name in metrics if name in record)
        report(f"step {record['steps']:6,}  return {score:7.1f}{shown}")
    return score


def train_ppo(functions: dict[str, Any], report: Report) -> float:
    """Train PPO on CartPole, and return the last return."""
    report("Training PPO on CartPole. The largest return is 500. Compiling takes a few seconds.")
    schedule = OnPolicySchedule(
        steps=131_072, num_envs=8, rollout_steps=512, steps_per_epoch=16_384
    )
    settings = {"train_pi_iters": 4, "train_v_iters": 4, "minibatch_size": 128, "target_kl": None}
    return train(ppo, functions, CartPole(), schedule, settings, report)
