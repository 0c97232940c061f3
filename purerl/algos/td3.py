r"""TD3: DDPG with two critics, delayed policy updates and smoothed targets.

Two critics learn the value of a deterministic policy. The target uses the minimum of the two
critics, which limits overestimation. Clipped noise smooths the action in the target. The policy and
all target networks are updated only every `policy_delay` updates. The name stands for twin delayed
deep deterministic policy gradient.

.. math::
    y = r + \gamma (1 - d) \min_i Q_{\phi'_i}(s', \tilde a), \qquad
    L(\phi) = \sum_i \mathbb{E}\,[(Q_{\phi_i}(s, a) - y)^2], \qquad
    L(\theta) = -\mathbb{E}\,[Q_{\phi_1}(s, \mu_\theta(s))]

Reference: Fujimoto, van Hoof, Meger, 2018, https://arxiv.org/abs/1802.09477, algorithm 1.

Differences from the paper: Spinning Up's numbers are the defaults (learning rates 1e-3, batch 100,
and 10 000 random steps in runs of 100 000 steps or more). All noise is in units of the action
range, normalised to [-1, 1] per dimension. Exploring and smoothed actions are clipped to the range,
as in the authors' code. `d` is `terminated`, not `truncated`, so a time limit never stops
bootstrapping. The delay counts all updates since `init`, and the first update includes a policy
step.
"""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import optax
from flax import struct

from purerl import checks, moments, mpi, nets, rng
from purerl.fields import network_setting, setting
from purerl.schedules import OffPolicySchedule
from purerl.spaces import EnvSpec, require_box
from purerl.types import Batch, Metrics


@dataclasses.dataclass(frozen=True)
class Spec:
    """Static settings of a TD3 learner: hashable and compared by value.

    `actor` and `critic` are custom networks, or None for an MLP. The actor maps observations
    `[B, *obs_shape]` to actions `[B, A]` in [-1, 1]. The critic maps observations and such actions
    to values `[B]`. It is initialised twice, once for each of the two critics.
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
    layer_norm: bool = network_setting(False, "normalise the critics' hidden layers", rare=True)
    gamma: float = setting(0.99, "discount factor")
    polyak: float = setting(0.995, "weight of the old target in a target update")
    pi_lr: float = setting(1e-3, "learning rate of the policy")
    q_lr: float = setting(1e-3, "learning rate of the critics")
    act_noise: float = setting(0.1, "std of exploration noise for actions in [-1, 1]")
    target_noise: float = setting(
        0.2, "std of target smoothing noise for actions in [-1, 1]", rare=True
    )
    noise_clip: float = setting(
        0.5, "bound of target smoothing noise for actions in [-1, 1]", rare=True
    )
    policy_delay: int = setting(2, "critic updates per policy and target update")
    clip_targets: bool = setting(
        False, "clip targets to [-1/(1-gamma), 0], for rewards of -1 and 0", rare=True
    )
    normalise_obs: bool = setting(False, "normalise observations by running statistics")

    def __post_init__(self) -> None:
        """Check every field."""
        require_box("td3", self.env)
        nets.check_networks(self, optimized=("actor", "critic"))
        checks.each(self, ("gamma", "polyak"), checks.real, 0.0, 1.0)
        checks.each(self, ("pi_lr", "q_lr"), checks.positive)
        checks.each(self, ("act_noise", "target_noise", "noise_clip"), checks.real, 0.0)
        checks.integer("policy_delay", self.policy_delay, 1)
        checks.each(self, ("layer_norm", "normalise_obs"), checks.boolean)
        checks.target_clipping(self)
        checks.hashable(self)


SCHEDULE = OffPolicySchedule()
NOISE_DRAWS = 1  # 0: smoothing of the target action


@struct.dataclass
class Params:
    """All arrays that the losses read; targets receive no gradient."""

    actor: Any
    critic: tuple[Any, ...]  # two trees of parameters
    target_actor: Any
    target_critic: tuple[Any, ...]
    spec: Spec = struct.field(pytree_node=False)
    obs_stats: moments.Moments | None = None  # of observations, if they are normalised


@struct.dataclass
class State:
    """Everything that `update` carries from one call to the next."""

    params: Params
    opt_state: dict[str, optax.OptState]
    step: jax.Array  # () int32, number of updates done


def networks(spec: Spec) -> nets.Networks:
    """Return the networks of a learner: the policy, and one module for both critics."""
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
    q = nets.init_ensemble("critic", critic, key_critic, (obs, row.act), (), 2)
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
        key: PRNG key used for the exploration noise, which is Gaussian.
    """
    checks.key("key", key)
    spec = checks.spec_of(params)
    pi = _unit_action(params, obs)
    noise = spec.act_noise * jax.random.normal(key, pi.shape, jnp.float32)
    return spec.env.from_unit(pi + noise)


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
    """Return the values of actions under both online critics, `[2, ...]`.

    Args:
        params: The learner's parameters.
        obs: Observations `[..., *obs_shape]`.
        act: Actions `[..., A]` in the environment's units.
    """
    spec = checks.spec_of(params)
    spec.env.check_obs_act(obs, act)
    obs = moments.normalise(obs, params.obs_stats)
    row = (obs, spec.env.obs_shape, spec.env.normalise(act))
    critic = networks(spec).critic
    return jnp.stack([nets.apply_rows(critic, tree, *row) for tree in params.critic])


def target_action(params: Params, batch: Batch) -> jax.Array:
    r"""Return the smoothed target action `[B, A]` in [-1, 1].

    .. math::
        \tilde a = \mathrm{clip}(\mu_{\theta'}(s') + \mathrm{clip}(\sigma \xi, -c, c), -1, 1),
        \qquad \xi \sim \mathcal{N}(0, 1)
    """
    spec = checks.spec_of(params)
    spec.env.check_batch(batch)
    actor, _ = networks(spec)
    xi = rng.noise(batch, NOISE_DRAWS, spec.env.act_dim)[:, 0]  # [B, A]
    noise = jnp.clip(spec.target_noise * xi, -spec.noise_clip, spec.noise_clip)
    next_obs = moments.normalise(batch.next_obs, params.obs_stats)
    return jnp.clip(nets.apply(actor, params.target_actor, next_obs) + noise, -1.0, 1.0)


def critic_loss(params: Params, batch: Batch) -> tuple[jax.Array, Metrics]:
    r"""Return the clipped double-Q Bellman error, summed over the two critics.

    .. math::
        y = r + \gamma (1 - d) \min_i Q_{\phi'_i}(s', \tilde a), \qquad
        L = \sum_i \mathbb{E}\,[(Q_{\phi_i}(s, a) - y)^2]

    With `clip_targets`, :math:`y` is clipped to :math:`[-1 / (1 - \gamma), 0]`.

    Args:
        params: The learner's parameters, online and target.
        batch: obs `[B, *obs_shape]`, act `[B, A]`, rew `[B]`, next_obs and terminated `[B]`, with
            a key or noise `[B, 1, A]` for the smoothing.

    Returns:
        The loss, and `loss_q`, `q1`, `q2` (mean value of each critic), `target` (mean).
    """
    spec = checks.spec_of(params)
    spec.env.check_batch(batch)
    _, critic = networks(spec)
    next_act = target_action(params, batch)  # [B, A]
    next_obs = moments.normalise(batch.next_obs, params.obs_stats)
    next_q = nets.q_values(critic, params.target_critic, next_obs, next_act)  # [2, B]
    target = batch.rew + spec.gamma * (1.0 - batch.terminated) * next_q.min(axis=0)  # [B]
    if spec.clip_targets:  # the values of all policies if rewards are -1 and 0
        target = target.clip(-1.0 / (1.0 - spec.gamma), 0.0)
    target = jax.lax.stop_gradient(target)
    q = q_value(params, batch.obs, batch.act)  # [2, B]
    loss_q = jnp.square(q - target[None]).mean(axis=1).sum()
    return loss_q, {"loss_q": loss_q, "q1": q[0].mean(), "q2": q[1].mean(), "target": target.mean()}


def actor_loss(params: Params, batch: Batch) -> tuple[jax.Array, Metrics]:
    r"""Return minus the first critic's value of the policy's actions; the critic is held fixed.

    .. math::
        L = -\mathbb{E}\,[Q_{\phi_1}(s, \mu_\theta(s))]

    Returns:
        The loss, and `loss_pi`.
    """
    checks.spec_of(params).env.check_batch(batch)
    actor, critic = networks(params.spec)
    frozen = jax.lax.stop_gradient(params.critic[0])
    obs = moments.normalise(batch.obs, params.obs_stats)
    pi = nets.apply(actor, params.actor, obs)  # [B, A]
    loss_pi = -nets.apply(critic, frozen, obs, pi).mean()
    return loss_pi, {"loss_pi": loss_pi}


def loss(params: Params, batch: Batch) -> tuple[jax.Array, Metrics]:
    """Return the sum of the critic and actor losses; their gradients do not overlap."""
    loss_q, info_q = critic_loss(params, batch)
    loss_pi, info_pi = actor_loss(params, batch)
    return loss_q + loss_pi, info_q | info_pi


@jax.jit
def update(state: State, batch: Batch) -> tuple[State, Metrics]:
    """Update the critics. Every `policy_delay` updates, also update the policy and all targets.

    The first update includes a policy step. Under `vmap` both branches are always computed.

    Args:
        state: The learner's state, which does not change.
        batch: Batch with the fields that `critic_loss` reads.

    Returns:
        The new state, and the metrics of the losses. Without a policy step `loss_pi` and
        `loss_pi_count` are 0.
    """
    checks.state(state)
    params, spec = state.params, state.params.spec
    tx = optimizers(spec)

    # Step both critics towards the target.
    grads, info = jax.grad(critic_loss, has_aux=True)(params, batch)
    grad = mpi.pmean(grads.critic)
    step, opt_critic = tx["critic"].update(grad, state.opt_state["critic"], params.critic)
    params = dataclasses.replace(params, critic=optax.apply_updates(params.critic, step))

    # If a policy step is due, step the policy against the new critics, then move all targets.
    def step_policy(params: Params, opt_actor: Any) -> tuple[Params, Any, Metrics]:
        grads, info = jax.grad(actor_loss, has_aux=True)(params, batch)
        grad = mpi.pmean(grads.actor)
        step, opt_actor = tx["actor"].update(grad, opt_actor, params.actor)
        params = dataclasses.replace(params, actor=optax.apply_updates(params.actor, step))
        return _move_targets(params), opt_actor, info

    def skip_policy(params: Params, opt_actor: Any) -> tuple[Params, Any, Metrics]:
        return params, opt_actor, {"loss_pi": jnp.float32(0.0)}

    due = state.step % spec.policy_delay == 0
    params, opt_actor, info_pi = jax.lax.cond(
        due, step_policy, skip_policy, params, state.opt_state["actor"]
    )

    # Update the running statistics of the observations, if the setting is on.
    stats = moments.merge_obs(params.obs_stats, batch.obs)
    params = dataclasses.replace(params, obs_stats=stats)

    # Report whether the policy moved, and count the update.
    info = info | info_pi | {"loss_pi_count": due.astype(jnp.float32)}
    return State(params, {"actor": opt_actor, "critic": opt_critic}, state.step + 1), info


def _move_targets(params: Params) -> Params:
    """Move the targets a fraction `1 - polyak` of the way to the online parameters."""
    fraction = 1.0 - params.spec.polyak
    return dataclasses.replace(
        params,
        target_actor=optax.incremental_update(params.actor, params.target_actor, fraction),
        target_critic=optax.incremental_update(params.critic, params.target_critic, fraction),
    )
