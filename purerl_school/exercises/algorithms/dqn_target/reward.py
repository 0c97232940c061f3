"""Reward of exercise 3.4: double DQN learns CartPole with your target."""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optax

from purerl.algos import dqn
from purerl.envs.classic.cartpole import CartPole
from purerl.schedules import OffPolicySchedule
from purerl.types import Batch, Metrics
from purerl_school.exercises.algorithms import training


def reward(answer: Callable[..., Any], report: Callable[[str], None]) -> float:
    """Train with the targets of the answer; return the last return."""

    def loss(critic: Any, params: dqn.Params, batch: Batch) -> jax.Array:
        online = dataclasses.replace(params, critic=critic)
        frozen = dataclasses.replace(params, critic=params.target_critic)
        next_q = (dqn.q_value(frozen, batch.next_obs), dqn.q_value(online, batch.next_obs))
        flags = (batch.terminated, batch.truncated)
        y = answer(batch.rew, *flags, *next_q, params.spec.gamma, params.spec.double)  # [B]
        q = jnp.take_along_axis(dqn.q_value(online, batch.obs), batch.act[:, None], axis=1)[:, 0]
        return optax.losses.huber_loss(q, y).mean()

    def update(state: dqn.State, batch: Batch) -> tuple[dqn.State, Metrics]:
        params, spec = state.params, state.params.spec
        new, info = dqn.update(state, batch)  # everything but the step of the critic is kept
        grads = jax.grad(loss)(params.critic, params, batch)
        tx = dqn.optimizers(spec)["critic"]
        step, opt_critic = tx.update(grads, state.opt_state["critic"], params.critic)
        critic = optax.apply_updates(params.critic, step)
        is_due = new.step % spec.target_every == 0
        target = jax.tree.map(
            lambda new, old: jnp.where(is_due, new, old), critic, params.target_critic
        )
        params = dataclasses.replace(new.params, critic=critic, target_critic=target)
        return dqn.State(params, {"critic": opt_critic}, new.step), info

    report("Training double DQN on CartPole. The largest return is 500.")
    schedule = OffPolicySchedule(
        steps=20_000,
        steps_per_epoch=4_000,
        start_steps=500,
        update_after=500,
        batch_size=64,
        replay_size=20_000,
        num_test_episodes=0,
    )
    settings = {"hidden": (64, 64), "lr": 1e-3, "eps_decay": 4_000}
    return training.train(dqn, {"update": update}, CartPole(), schedule, settings, report)
