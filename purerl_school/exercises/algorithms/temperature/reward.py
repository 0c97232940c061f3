"""Reward of exercise 3.5: SAC learns to swing up a pendulum with your temperature."""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import optax

from purerl.algos import sac
from purerl.envs.classic.pendulum import Pendulum
from purerl.schedules import OffPolicySchedule
from purerl.types import Batch, Metrics
from purerl_school.exercises.algorithms import training


def reward(answer: Callable[..., Any], report: Callable[[str], None]) -> float:
    """Train with the temperature of the answer; return the last return."""

    def update(state: sac.State, batch: Batch) -> tuple[sac.State, Metrics]:
        params, spec = state.params, state.params.spec
        new, info = sac.update(state, batch)  # everything but the step of the temperature is kept
        logp = sac.sample(params, batch, batch.obs, draw=1)[1]  # [B]
        grad = jax.grad(answer)(params.log_alpha, logp, -float(spec.env.act_dim))
        tx, opt_state = sac.optimizers(spec)["log_alpha"], dict(new.opt_state)
        step, opt_state["log_alpha"] = tx.update(grad, state.opt_state["log_alpha"])
        log_alpha = optax.apply_updates(params.log_alpha, step)
        params = dataclasses.replace(new.params, log_alpha=log_alpha)
        return sac.State(params, opt_state, new.step), info

    report("Training SAC on Pendulum. A good return is above -200. The target of logp is 1.")
    schedule = OffPolicySchedule(
        steps=8_000,
        steps_per_epoch=1_000,
        start_steps=1_000,
        update_after=1_000,
        batch_size=64,
        replay_size=8_000,
        num_test_episodes=0,
    )
    settings = {"hidden": (64, 64), "alpha": "auto", "lr": 3e-3, "gamma": 0.95}
    functions, metrics = {"update": update}, ("alpha", "logp")
    return training.train(sac, functions, Pendulum(), schedule, settings, report, metrics)
