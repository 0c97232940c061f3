r"""DDPG: deep deterministic policy gradient.

A critic learns the value of a deterministic policy from replayed transitions; the policy climbs the
critic's gradient through the action. Both have slowly moving targets.

.. math::
    y = r + \gamma (1 - d)\, Q_{\phi'}(s', \mu_{\theta'}(s')), \qquad
    L(\phi) = \mathbb{E}\,[(Q_\phi(s, a) - y)^2], \qquad
    L(\theta) = -\mathbb{E}\,[Q_\phi(s, \mu_\theta(s))]

Reference: Lillicrap et al., 2015, https://arxiv.org/abs/1509.02971, algorithm 1.

Where this differs from the paper: Spinning Up's numbers are the default (learning rates 1e-3, batch
100, 10 000 random steps); exploration noise is Gaussian and uncorrelated, in units of the action
range normalised to [-1, 1] per dimension (`examples/custom_ddpg_ou.py` shows the paper's
Ornstein-Uhlenbeck noise); no weight decay, no batch normalisation, no smaller first weights in the
last layers, the action enters the critic's first layer, and updates come in bursts of 50 after 50
steps; `d` is `terminated` alone, so a time limit never stops bootstrapping.
"""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import optax
from flax import struct

from purerl import checks, mpi, nets
from purerl.fields import setting
from purerl.schedules import OffPolicySchedule
from purerl.spaces import EnvSpec, require_box
from purerl.types import Batch, Metrics


@dataclasses.dataclass(frozen=True)
class Spec:
    """Static settings of a DDPG learner: hashable and compared by value.

    `actor` and `critic` are Flax modules of your own, or None for an MLP:
    `actor(obs [B, *obs_shape]) -> [B, A]` in [-1, 1] and
    `critic(obs [B, *obs_shape], act [B, A] in [-1, 1]) -> [B]`.
    """

    env: EnvSpec
    actor: Any = None
    critic: Any = None
    hidden: tuple[int, ...] = setting(
        (256, 256), "units of the hidden layers", flag="--hid", group="Network"
    )
    activation: str = setting("relu", "of the hidden layers", flag="--act", group="Network")
    initializer: str = setting("torch_uniform", "of all layers", group="Network", rare=True)
    gamma: float = setting(0.99, "discount factor")
    polyak: float = setting(0.995, "weight of the old target in each target update")
    pi_lr: float = setting(1e-3, "learning rate of the policy")
    q_lr: float = setting(1e-3, "learning rate of the critic")
    act_noise: float = setting(0.1, "std of exploration noise, action range is [-1, 1]")

    def __post_init__(self) -> None:
        """Check every field."""
        require_box("ddpg", self.env)
        nets.check_style(self)
        for name in ("gamma", "polyak"):
            checks.real(name, getattr(self, name), 0.0, 1.0)
        for name in ("pi_lr", "q_lr"):
            checks.positive(name, getattr(self, name))
        checks.real("act_noise", self.act_noise, 0.0)
        nets.check_module("actor", self.actor, self.env)
        nets.check_module("critic", self.critic, self.env)
        checks.hashable(self)


SCHEDULE = OffPolicySchedule()
NOISE_DRAWS = 0


@struct.dataclass
class Params:
    """Every array the losses read; targets receive no gradient."""

    actor: Any
    critic: Any
    target_actor: Any
    target_critic: Any
    spec: Spec = struct.field(pytree_node=False)


@struct.dataclass
class State:
    """What `update` carries from one call to the next."""

    params: Params
    opt_state: dict[str, optax.OptState]
    step: jax.Array  # () int32, number of updates done


def _networks(spec: Spec) -> tuple[Any, Any]:
    style = (spec.hidden, spec.activation, spec.initializer)
    actor = spec.actor or nets.DeterministicActor(spec.env.act_dim, *style)
    critic = spec.critic or nets.QFunction(*style)
    return actor, critic


def _optimizers(spec: Spec) -> dict[str, optax.GradientTransformation]:
    return {"actor": optax.adam(spec.pi_lr), "critic": optax.adam(spec.q_lr)}


def init(key: jax.Array, spec: Spec) -> State:
    """Make a fresh learner; the targets are copies of the online networks.

    Args:
        key: typed key of all initial parameters.
        spec: static settings.
    """
    checks.key("key", key)
    checks.spec(spec, Spec)
    key_actor, key_critic = jax.random.split(key)
    actor, critic = _networks(spec)
    row = spec.env.example()
    pi = nets.init_params("actor", actor, key_actor, (row.obs,), row.act.shape)
    q = nets.init_params("critic", critic, key_critic, (row.obs, row.act), ())
    tx = _optimizers(spec)
    opt_state = {"actor": tx["actor"].init(pi), "critic": tx["critic"].init(q)}
    params = Params(pi, q, jax.tree.map(jnp.copy, pi), jax.tree.map(jnp.copy, q), spec)
    return State(params, opt_state, jnp.zeros((), jnp.int32))


@jax.jit
def act(params: Params, obs: Any, key: jax.Array) -> jax.Array:
    """Return exploring actions in the environment's units, inside its bounds.

    Args:
        params: of the learner.
        obs: `[..., *obs_shape]`.
        key: of the Gaussian exploration noise.
    """
    checks.key("key", key)
    spec = checks.spec_of(params)
    pi = _policy(params, obs)
    noise = spec.act_noise * jax.random.normal(key, pi.shape, jnp.float32)
    return spec.env.from_unit(pi + noise)


@jax.jit
def policy(params: Params, obs: Any) -> jax.Array:
    """Return the deterministic actions for `obs` `[..., *obs_shape]`, in environment units."""
    spec = checks.spec_of(params)
    return spec.env.from_unit(_policy(params, obs))


def _policy(params: Params, obs: Any) -> jax.Array:
    spec = params.spec
    spec.env.check_obs(obs)
    return nets.apply_rows(_networks(spec)[0], params.actor, obs, spec.env.obs_shape)


def critic_loss(params: Params, batch: Batch) -> tuple[jax.Array, Metrics]:
    r"""Mean squared Bellman error against the target networks.

    .. math::
        y = r + \gamma (1 - d)\, Q_{\phi'}(s', \mu_{\theta'}(s')), \qquad
        L = \mathbb{E}\,[(Q_\phi(s, a) - y)^2]

    Args:
        params: online and target parameters, with the static spec.
        batch: obs `[B, *obs_shape]`, act `[B, A]`, rew `[B]`, next_obs, terminated `[B]`.

    Returns:
        The loss, and `loss_q`, `q` (mean of the critic at the batch), `target`.
    """
    spec = checks.spec_of(params)
    spec.env.check_batch(batch)
    actor, critic = _networks(spec)
    next_act = nets.apply(actor, params.target_actor, batch.next_obs)  # [B, A]
    next_q = nets.apply(critic, params.target_critic, batch.next_obs, next_act)  # [B]
    target = batch.rew + spec.gamma * (1.0 - batch.terminated) * next_q  # [B]
    target = jax.lax.stop_gradient(target)
    q = nets.apply(critic, params.critic, batch.obs, spec.env.normalise(batch.act))  # [B]
    value = jnp.square(q - target).mean()
    return value, {"loss_q": value, "q": q.mean(), "target": target.mean()}


def actor_loss(params: Params, batch: Batch) -> tuple[jax.Array, Metrics]:
    r"""Minus the critic's value of the policy's own actions; the critic is held fixed.

    .. math::
        L = -\mathbb{E}\,[Q_\phi(s, \mu_\theta(s))]

    Returns:
        The loss, and `loss_pi`.
    """
    checks.spec_of(params).env.check_batch(batch)
    actor, critic = _networks(params.spec)
    frozen = jax.lax.stop_gradient(params.critic)
    pi = nets.apply(actor, params.actor, batch.obs)  # [B, A]
    value = -nets.apply(critic, frozen, batch.obs, pi).mean()
    return value, {"loss_pi": value}


def loss(params: Params, batch: Batch) -> tuple[jax.Array, Metrics]:
    """Return the sum of the critic and actor losses; their gradients do not overlap."""
    value_q, info_q = critic_loss(params, batch)
    value_pi, info_pi = actor_loss(params, batch)
    return value_q + value_pi, info_q | info_pi


@jax.jit
def update(state: State, batch: Batch) -> tuple[State, Metrics]:
    """Do one step of the critic, then of the policy against the new critic, then of all targets.

    Args:
        state: of the learner; unchanged and still usable afterwards.
        batch: as `critic_loss` takes it.

    Returns:
        The new state, and the metrics of the losses.
    """
    checks.state(state)
    params, spec = state.params, state.params.spec
    tx = _optimizers(spec)
    grads, info_q = jax.grad(critic_loss, has_aux=True)(params, batch)
    grad = mpi.pmean(grads.critic)
    step, opt_critic = tx["critic"].update(grad, state.opt_state["critic"], params.critic)
    params = dataclasses.replace(params, critic=optax.apply_updates(params.critic, step))

    grads, info_pi = jax.grad(actor_loss, has_aux=True)(params, batch)
    grad = mpi.pmean(grads.actor)
    step, opt_actor = tx["actor"].update(grad, state.opt_state["actor"], params.actor)
    params = dataclasses.replace(params, actor=optax.apply_updates(params.actor, step))

    part = 1.0 - spec.polyak
    params = dataclasses.replace(
        params,
        target_actor=optax.incremental_update(params.actor, params.target_actor, part),
        target_critic=optax.incremental_update(params.critic, params.target_critic, part),
    )
    opt_state = {"actor": opt_actor, "critic": opt_critic}
    return State(params, opt_state, state.step + 1), info_q | info_pi
