r"""DDPG: learn the values of continuous actions, and a deterministic policy that maximises them.

A critic learns the value of the policy from transitions in the replay buffer. The policy follows
the critic's gradient with respect to the action. Both have target networks that move slowly. The
name stands for deep deterministic policy gradient.

.. math::
    y = r + \gamma (1 - d)\, Q_{\phi'}(s', \mu_{\theta'}(s')), \qquad
    L(\phi) = \mathbb{E}\,[(Q_\phi(s, a) - y)^2], \qquad
    L(\theta) = -\mathbb{E}\,[Q_\phi(s, \mu_\theta(s))]

Reference: Lillicrap et al., 2015, https://arxiv.org/abs/1509.02971, algorithm 1.

Differences from the paper: Spinning Up's numbers are the defaults (learning rates 1e-3, batch 100,
and 10 000 random steps in runs of 100 000 steps or more). Exploration noise is Gaussian and
uncorrelated, in units of the action range normalised to [-1, 1] per dimension.
`examples/custom_ddpg_ou.py` adds the paper's Ornstein-Uhlenbeck noise. The networks use no weight
decay, no batch normalisation and no smaller initial weights in the last layers. The action enters
the first layer of the critic. Updates come in bursts: 50 updates after every 50 steps. `d` is
`terminated`, not `truncated`, so a time limit never stops bootstrapping.

Three options are those of hindsight experience replay (Andrychowicz et al., 2017,
https://arxiv.org/abs/1707.01495): `clip_targets`, `random_action` and `action_l2`. They are off by
default.
"""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import optax
from flax import struct

from purerl import checks, moments, mpi, nets
from purerl.fields import network_setting, setting
from purerl.schedules import OffPolicySchedule
from purerl.spaces import EnvSpec, require_box
from purerl.types import Batch, Metrics


@dataclasses.dataclass(frozen=True)
class Spec:
    """Static settings of a DDPG learner: hashable and compared by value.

    `actor` and `critic` are custom networks, or None for an MLP. The actor maps observations
    `[B, *obs_shape]` to actions `[B, A]` in [-1, 1]. The critic maps observations and such actions
    to values `[B]`.
    `optimizer` replaces Adam; `purerl.nets.optimizers` has examples.
    """

    env: EnvSpec
    actor: Any = None
    critic: Any = None
    optimizer: Any = None
    hidden: tuple[int, ...] = network_setting(
        (256, 256), "units of the hidden layers", flag="--hid"
    )
    activation: str = network_setting("relu", "activation of the hidden layers", flag="--act")
    initializer: str = network_setting("torch_uniform", "initializer of all layers", rare=True)
    torso: str | None = network_setting(None, "network for images: nature_cnn", rare=True)
    layer_norm: bool = network_setting(False, "normalise the critic's hidden layers", rare=True)
    gamma: float = setting(0.99, "discount factor")
    polyak: float = setting(0.995, "weight of the old target in a target update")
    pi_lr: float = setting(1e-3, "learning rate of the policy")
    q_lr: float = setting(1e-3, "learning rate of the critic")
    act_noise: float = setting(0.1, "std of exploration noise for actions in [-1, 1]")
    random_action: float = setting(0.0, "probability of a uniform action", rare=True)
    action_l2: float = setting(0.0, "weight of the squared action in the actor loss", rare=True)
    clip_targets: bool = setting(
        False, "clip targets to [-1/(1-gamma), 0], for rewards of -1 and 0", rare=True
    )
    normalise_obs: bool = setting(False, "normalise observations by running statistics")

    def __post_init__(self) -> None:
        """Check every field."""
        require_box("ddpg", self.env)
        nets.check_networks(self, optimized=("actor", "critic"))
        checks.each(self, ("gamma", "polyak", "random_action"), checks.real, 0.0, 1.0)
        checks.each(self, ("pi_lr", "q_lr"), checks.positive)
        checks.each(self, ("act_noise", "action_l2"), checks.real, 0.0)
        checks.each(self, ("layer_norm", "normalise_obs"), checks.boolean)
        checks.target_clipping(self)
        checks.hashable(self)


SCHEDULE = OffPolicySchedule()
NOISE_DRAWS = 0


@struct.dataclass
class Params:
    """All arrays that the losses read; targets receive no gradient."""

    actor: Any
    critic: Any
    target_actor: Any
    target_critic: Any
    spec: Spec = struct.field(pytree_node=False)
    obs_stats: moments.Moments | None = None  # of observations, if they are normalised


@struct.dataclass
class State:
    """Everything that `update` carries from one call to the next."""

    params: Params
    opt_state: dict[str, optax.OptState]
    step: jax.Array  # () int32, number of updates done


def networks(spec: Spec) -> nets.Networks:
    """Return the networks of a learner: the policy and the critic."""
    style = (spec.hidden, spec.activation, spec.initializer, spec.torso)
    actor = spec.actor or nets.DeterministicActor(spec.env.act_dim, *style)
    critic = spec.critic or nets.QFunction(*style, layer_norm=spec.layer_norm)
    return nets.Networks(actor, critic)


def optimizers(spec: Spec) -> dict[str, optax.GradientTransformation]:
    """Return the optimizer of each group of parameters."""
    return {
        "actor": nets.make_optimizer(spec, "actor", spec.pi_lr),
        "critic": nets.make_optimizer(spec, "critic", spec.q_lr),
    }


def init(key: jax.Array, spec: Spec) -> State:
    """Initialise a learner whose targets are copies of the online networks.

    Args:
        key: PRNG key used for the initial parameters.
        spec: Static settings.
    """
    checks.key("key", key)
    checks.spec(spec, Spec)
    key_actor, key_critic = jax.random.split(key)
    actor, critic = networks(spec)
    row, stats = spec.env.example(), moments.init_obs_stats(spec)
    obs = moments.normalise(row.obs, stats)
    pi = nets.init_params("actor", actor, key_actor, (obs,), row.act.shape)
    q = nets.init_params("critic", critic, key_critic, (obs, row.act), ())
    tx = optimizers(spec)
    opt_state = {"actor": tx["actor"].init(pi), "critic": tx["critic"].init(q)}
    params = Params(pi, q, jax.tree.map(jnp.copy, pi), jax.tree.map(jnp.copy, q), spec, stats)
    return State(params, opt_state, jnp.zeros((), jnp.int32))


@jax.jit
def act(params: Params, obs: Any, key: jax.Array) -> jax.Array:
    """Return exploring actions in the environment's units, inside its bounds.

    Args:
        params: The learner's parameters.
        obs: Observations `[..., *obs_shape]`.
        key: PRNG key used for the exploration noise, which is Gaussian, and for uniform actions.
    """
    checks.key("key", key)
    spec = checks.spec_of(params)
    pi = _unit_action(params, obs)
    if spec.random_action:  # otherwise the noise has the bits of the key itself
        key, key_chance, key_uniform = jax.random.split(key, 3)
    noise = spec.act_noise * jax.random.normal(key, pi.shape, jnp.float32)
    if not spec.random_action:
        return spec.env.from_unit(pi + noise)
    chance = jax.random.uniform(key_chance, (*pi.shape[:-1], 1), jnp.float32)
    uniform = jax.random.uniform(key_uniform, pi.shape, jnp.float32, -1.0, 1.0)
    return spec.env.from_unit(jnp.where(chance < spec.random_action, uniform, pi + noise))


@jax.jit
def policy(params: Params, obs: Any) -> jax.Array:
    """Return the deterministic actions for `obs` `[..., *obs_shape]`, in environment units."""
    spec = checks.spec_of(params)
    return spec.env.from_unit(_unit_action(params, obs))


def _unit_action(params: Params, obs: Any) -> jax.Array:
    """Return the policy's actions `[..., A]` in [-1, 1]."""
    spec = params.spec
    spec.env.check_obs(obs)
    obs = moments.normalise(obs, params.obs_stats)
    return nets.apply_rows(networks(spec).actor, params.actor, obs, spec.env.obs_shape)


def q_value(params: Params, obs: Any, act: Any) -> jax.Array:
    """Return the values of actions under the online critic, `[...]`.

    Args:
        params: The learner's parameters.
        obs: Observations `[..., *obs_shape]`.
        act: Actions `[..., A]` in the environment's units.
    """
    spec = checks.spec_of(params)
    spec.env.check_obs_act(obs, act)
    obs = moments.normalise(obs, params.obs_stats)
    row = (obs, spec.env.obs_shape, spec.env.normalise(act))
    return nets.apply_rows(networks(spec).critic, params.critic, *row)


def critic_loss(params: Params, batch: Batch) -> tuple[jax.Array, Metrics]:
    r"""Return the mean squared Bellman error against the target networks.

    .. math::
        y = r + \gamma (1 - d)\, Q_{\phi'}(s', \mu_{\theta'}(s')), \qquad
        L = \mathbb{E}\,[(Q_\phi(s, a) - y)^2]

    With `clip_targets`, :math:`y` is clipped to :math:`[-1 / (1 - \gamma), 0]`.

    Args:
        params: The learner's parameters, online and target.
        batch: obs `[B, *obs_shape]`, act `[B, A]`, rew `[B]`, next_obs and terminated `[B]`.

    Returns:
        The loss, and `loss_q`, `q` (mean value of the critic), `target` (mean).
    """
    spec = checks.spec_of(params)
    spec.env.check_batch(batch)
    actor, critic = networks(spec)
    next_obs = moments.normalise(batch.next_obs, params.obs_stats)
    next_act = nets.apply(actor, params.target_actor, next_obs)  # [B, A]
    next_q = nets.apply(critic, params.target_critic, next_obs, next_act)  # [B]
    target = batch.rew + spec.gamma * (1.0 - batch.terminated) * next_q  # [B]
    if spec.clip_targets:  # the values of all policies if rewards are -1 and 0
        target = target.clip(-1.0 / (1.0 - spec.gamma), 0.0)
    target = jax.lax.stop_gradient(target)
    q = q_value(params, batch.obs, batch.act)  # [B]
    loss_q = jnp.square(q - target).mean()
    return loss_q, {"loss_q": loss_q, "q": q.mean(), "target": target.mean()}


def actor_loss(params: Params, batch: Batch) -> tuple[jax.Array, Metrics]:
    r"""Return minus the critic's value of the policy's actions; the critic is held fixed.

    .. math::
        L = -\mathbb{E}\,[Q_\phi(s, \mu_\theta(s))]

    A positive `action_l2` :math:`c` adds :math:`c \, \mathbb{E}\,[\mu_\theta(s)^2]`, the mean over
    rows and dimensions of actions in [-1, 1].

    Returns:
        The loss, and `loss_pi`.
    """
    checks.spec_of(params).env.check_batch(batch)
    actor, critic = networks(params.spec)
    frozen = jax.lax.stop_gradient(params.critic)
    obs = moments.normalise(batch.obs, params.obs_stats)
    pi = nets.apply(actor, params.actor, obs)  # [B, A]
    loss_pi = -nets.apply(critic, frozen, obs, pi).mean()
    if params.spec.action_l2:
        loss_pi += params.spec.action_l2 * jnp.square(pi).mean()
    return loss_pi, {"loss_pi": loss_pi}


def loss(params: Params, batch: Batch) -> tuple[jax.Array, Metrics]:
    """Return the sum of the critic and actor losses; their gradients do not overlap."""
    loss_q, info_q = critic_loss(params, batch)
    loss_pi, info_pi = actor_loss(params, batch)
    return loss_q + loss_pi, info_q | info_pi


@jax.jit
def update(state: State, batch: Batch) -> tuple[State, Metrics]:
    """Update the critic, then the policy against the new critic, then all targets.

    Args:
        state: The learner's state, which does not change.
        batch: Batch with the fields that `critic_loss` reads.

    Returns:
        The new state, and the metrics of the losses.
    """
    checks.state(state)
    params, spec = state.params, state.params.spec
    tx = optimizers(spec)

    # Step the critic towards the target.
    grads, info_q = jax.grad(critic_loss, has_aux=True)(params, batch)
    grad = mpi.pmean(grads.critic)
    step, opt_critic = tx["critic"].update(grad, state.opt_state["critic"], params.critic)
    params = dataclasses.replace(params, critic=optax.apply_updates(params.critic, step))

    # Step the policy against the new critic.
    grads, info_pi = jax.grad(actor_loss, has_aux=True)(params, batch)
    grad = mpi.pmean(grads.actor)
    step, opt_actor = tx["actor"].update(grad, state.opt_state["actor"], params.actor)
    params = dataclasses.replace(params, actor=optax.apply_updates(params.actor, step))

    # Move the targets a fraction 1 - polyak of the way to the online parameters.
    fraction = 1.0 - spec.polyak
    params = dataclasses.replace(
        params,
        target_actor=optax.incremental_update(params.actor, params.target_actor, fraction),
        target_critic=optax.incremental_update(params.critic, params.target_critic, fraction),
    )

    # Update the running statistics of the observations, if the setting is on.
    stats = moments.merge_obs(params.obs_stats, batch.obs)
    params = dataclasses.replace(params, obs_stats=stats)

    opt_state = {"actor": opt_actor, "critic": opt_critic}
    return State(params, opt_state, state.step + 1), info_q | info_pi
