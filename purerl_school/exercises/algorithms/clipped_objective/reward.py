"""Reward of exercise 3.3: PPO learns CartPole with your loss."""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optax

from purerl.algos import ppo
from purerl.nets import policies
from purerl.types import Metrics, PolicyBatch
from purerl_school.exercises.algorithms import training


def reward(answer: Callable[..., Any], report: Callable[[str], None]) -> float:
    """Train with the answer as the policy's loss; return the last return."""

    def loss(params: ppo.Params, batch: PolicyBatch) -> jax.Array:
        dist = ppo.distribution(params, batch.obs)
        logp = policies.log_prob(params.spec.env, dist, batch.act)  # [B]
        loss_pi = answer(logp, batch.logp, batch.adv, params.spec.clip_ratio)
        return loss_pi + ppo.critic_loss(params, batch)[0]

    def update(state: ppo.State, batch: PolicyBatch) -> tuple[ppo.State, Metrics]:
        spec, tx = state.params.spec, ppo.optimizers(state.params.spec)
        keys = jax.random.split(batch.key, spec.train_pi_iters)
        passes = [jax.random.permutation(key, len(batch.adv)) for key in keys]
        order = jnp.concatenate(passes).reshape(-1, spec.minibatch_size)  # rows of each step
        batch = batch._replace(key=None, rollout=None)

        def step_on_rows(carry: Any, index: jax.Array) -> tuple[Any, None]:
            params, opt_state = carry
            rows = jax.tree.map(lambda x: x[index], batch)
            grads, changed, kept = jax.grad(loss)(params, rows), {}, {}
            for name, lr in (("actor", spec.pi_lr), ("critic", spec.vf_lr)):
                step, kept[name] = tx[name].update(getattr(grads, name), opt_state[name])
                step = jax.tree.map(lambda x, lr=lr: -lr * x, step)  # PPO's optimizers have no rate
                changed[name] = optax.apply_updates(getattr(params, name), step)
            return (dataclasses.replace(params, **changed), kept), None

        first = (state.params, state.opt_state)
        (params, opt_state), _ = jax.lax.scan(step_on_rows, first, order)
        info = ppo.loss(params, batch)[1]
        return ppo.State(params, opt_state, state.step + 1), info

    return training.train_ppo({"update": update}, report)
