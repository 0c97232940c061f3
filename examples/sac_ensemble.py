"""SAC with an ensemble of critics, as a custom algorithm in one file.

    cd examples  # the commands import examples/sac_ensemble.py by its name
    python -m purerl train sac_ensemble --env Pendulum-v1 --steps 5000 --updates-per-burst 250

This file takes from SAC what both share. Lines that differ from `purerl/algos/sac.py` end with
`# ensemble`. A module with these names is an algorithm: `purerl.train(sac_ensemble, "Pendulum-v1")`
trains it in a folder of runs. Evaluation, videos, export and resume work as for SAC.

The idea is that of REDQ (Chen et al., 2021, https://arxiv.org/abs/2101.05982), which is also in
purerl: `purerl/algos/redq.py`. Here the policy moves at every update of the critics, as in SAC.
"""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import optax

from purerl import checks, moments, mpi, nets
from purerl.algos import sac
from purerl.algos.sac import (
    NOISE_DRAWS,
    Params,
    State,
    act,
    alpha_loss,
    optimizers,
    policy,
    q_value,
    sample,
    temperature,
)
from purerl.fields import setting
from purerl.schedules import OffPolicySchedule
from purerl.types import Batch, Metrics

__all__ = [
    "NOISE_DRAWS",
    "SCHEDULE",
    "Params",
    "Spec",
    "State",
    "act",
    "init",
    "loss",
    "policy",
    "update",
]


@dataclasses.dataclass(frozen=True)
class Spec(sac.Spec):
    """Settings of SAC, and those of the ensemble."""

    critics: int = setting(10, "number of critics")  # ensemble
    subset: int = setting(2, "critics in the minimum of a target")  # ensemble

    def __post_init__(self) -> None:
        """Check every field."""
        super().__post_init__()
        checks.integer("subset", self.subset, 1)
        checks.integer("critics", self.critics, self.subset)


SCHEDULE = OffPolicySchedule()


def init(key: jax.Array, spec: Spec) -> State:
    """Initialise a learner: SAC's, with as many critics as `spec` asks for."""
    state, row = sac.init(key, spec), spec.env.example()
    critic, key = sac.networks(spec).critic, jax.random.fold_in(key, 1)
    obs = moments.normalise(row.obs, state.params.obs_stats)
    q = nets.init_ensemble("critic", critic, key, (obs, row.act), (), spec.critics)  # ensemble
    params = dataclasses.replace(state.params, critic=q, target_critic=jax.tree.map(jnp.copy, q))
    opt_state = state.opt_state | {"critic": optimizers(spec)["critic"].init(q)}
    return State(params, opt_state, state.step)


def critic_loss(params: Params, batch: Batch) -> tuple[jax.Array, Metrics]:
    """Return the Bellman errors of all critics; the target uses a random subset of them."""
    spec: Any = params.spec
    critic = sac.networks(spec).critic
    next_act, next_logp = sample(params, batch, batch.next_obs, draw=0)  # [B, A], [B]
    next_obs = moments.normalise(batch.next_obs, params.obs_stats)
    next_q = nets.q_values(critic, params.target_critic, next_obs, next_act)  # [E, B]
    key = jax.random.fold_in(batch.key, 2**32 - 1)  # ensemble: no draw of noise has this counter
    chosen = jax.random.choice(key, spec.critics, (spec.subset,), replace=False)  # ensemble
    soft = next_q[chosen].min(axis=0) - temperature(params) * next_logp  # [B]  # ensemble
    target = jax.lax.stop_gradient(batch.rew + spec.gamma * (1.0 - batch.terminated) * soft)
    q = q_value(params, batch.obs, batch.act)  # [E, B]
    loss_q = jnp.square(q - target[None]).mean(axis=1).sum()
    return loss_q, {"loss_q": loss_q, "q": q.mean(), "q_spread": q.std(axis=0).mean()}


def actor_loss(params: Params, batch: Batch) -> tuple[jax.Array, Metrics]:
    """Return temperature times log-density minus the mean of all critics."""
    frozen = jax.lax.stop_gradient(params.critic)
    pi, logp = sample(params, batch, batch.obs, draw=1)  # [B, A], [B]
    obs = moments.normalise(batch.obs, params.obs_stats)
    q = nets.q_values(sac.networks(params.spec).critic, frozen, obs, pi).mean(axis=0)  # ensemble
    loss_pi = (temperature(params) * logp - q).mean()
    return loss_pi, {"loss_pi": loss_pi, "logp": logp.mean()}


def loss(params: Params, batch: Batch) -> tuple[jax.Array, Metrics]:
    """Return the sum of the three losses; their gradients do not overlap."""
    loss_q, info_q = critic_loss(params, batch)
    loss_pi, info_pi = actor_loss(params, batch)
    loss_alpha, info_alpha = alpha_loss(params, batch)
    return loss_q + loss_pi + loss_alpha, info_q | info_pi | info_alpha


@jax.jit
def update(state: State, batch: Batch) -> tuple[State, Metrics]:
    """Update the critics, the policy, the temperature and the targets, as SAC does."""
    params, spec, tx = state.params, state.params.spec, optimizers(state.params.spec)
    opt_state, info = {}, {}

    def step(params: Params, name: str, part: Any) -> Params:
        grads, metrics = jax.grad(part, has_aux=True)(params, batch)
        old, grad = getattr(params, name), mpi.pmean(getattr(grads, name))
        move, opt_state[name] = tx[name].update(grad, state.opt_state[name], old)
        info.update(metrics)
        return dataclasses.replace(params, **{name: optax.apply_updates(old, move)})

    critics = step(params, "critic", critic_loss)
    moved = step(critics, "actor", actor_loss)
    cooled = step(critics, "log_alpha", alpha_loss)  # at the old policy
    target = optax.incremental_update(critics.critic, params.target_critic, 1.0 - spec.polyak)
    stats = moments.merge_obs(params.obs_stats, batch.obs)
    params = dataclasses.replace(
        moved, log_alpha=cooled.log_alpha, target_critic=target, obs_stats=stats
    )
    return State(params, opt_state, state.step + 1), info
