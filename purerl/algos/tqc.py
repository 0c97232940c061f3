r"""TQC: SAC whose targets drop the largest quantiles of several critics.

Several critics each learn M quantiles of the return's distribution. The target pools the quantiles
of all target critics, sorts them, and drops the largest. How many it drops sets the amount of
pessimism, in finer steps than the minimum of two critics.

.. math::
    y_k &= r + \gamma (1 - d) (z'_{(k)} - \alpha \log \pi_\theta(a'|s')),
        \quad a' \sim \pi_\theta \\
    L(\phi) &= \operatorname{mean}_{i, j, k} \mathbb{E}\,
        [|\tau_j - 1\{y_k < z_{ij}\}| \; \ell(y_k - z_{ij})] \\
    L(\theta) &= \mathbb{E}\,[\alpha \log \pi_\theta(\tilde a|s)
        - \operatorname{mean}_{i, j} z_{ij}(s, \tilde a)] \\
    L(\alpha) &= -\log \alpha \; \mathbb{E}\,[\log \pi_\theta(\tilde a|s) + \bar{\mathcal{H}}]

:math:`z_{ij}(s, a)` is quantile j of critic i, at level :math:`\tau_j = (2 j + 1) / (2 M)`.
:math:`z'_{(0)} \le z'_{(1)} \le \ldots` are the kept quantiles of all target critics at
:math:`(s', a')`, and :math:`\ell` is the Huber loss.

Reference: Kuznetsov et al., 2020, https://arxiv.org/abs/2005.04269.

Differences from the paper: two critics with layers of 256 units, not five with three layers of 512,
which suits a CPU. The policy's loss uses the critics after their step. Updates come in bursts: 50
updates after every 50 steps. Densities and the target entropy are for actions normalised to [-1, 1]
per dimension, so that results do not depend on the scale of a Box. `d` is `terminated`, not
`truncated`, so a time limit never stops bootstrapping.
"""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import optax
from flax import struct

from purerl import checks, moments, mpi, nets, rng
from purerl.fields import network_setting, setting
from purerl.nets import quantiles, squashed
from purerl.schedules import OffPolicySchedule
from purerl.spaces import EnvSpec, require_box
from purerl.types import Batch, Metrics


@dataclasses.dataclass(frozen=True)
class Spec:
    """Static settings of a TQC learner: hashable and compared by value.

    `actor` and `critic` are custom networks, or None for an MLP. The actor maps observations
    `[B, *obs_shape]` to mean and log std `[B, A]` of the Gaussian before squashing. The critic maps
    observations and actions `[B, A]` in [-1, 1] to quantiles `[B, num_quantiles]`; all critics are
    such modules. `optimizer` replaces Adam; `purerl.nets.optimizers` has examples.
    """

    env: EnvSpec
    actor: Any = None
    critic: Any = None
    optimizer: Any = None
    hidden: tuple[int, ...] = network_setting(
        (256, 256), "units of the hidden layers", flag="--hid"
    )
    critic_hidden: tuple[int, ...] | None = network_setting(
        None, "units of the critics' hidden layers; none: those of hidden"
    )
    activation: str = network_setting("relu", "activation of the hidden layers", flag="--act")
    initializer: str = network_setting("torch_uniform", "initializer of all layers", rare=True)
    torso: str | None = network_setting(None, "network for images: nature_cnn", rare=True)
    gamma: float = setting(0.99, "discount factor")
    polyak: float = setting(0.995, "weight of the old target in a target update")
    lr: float = setting(3e-4, "learning rate of all networks and of alpha")
    num_critics: int = setting(2, "number of critics")
    num_quantiles: int = setting(25, "quantiles of each critic")
    drop_quantiles: int = setting(2, "largest quantiles that targets drop, per critic")
    alpha_init: float = setting(1.0, "initial weight alpha of the entropy bonus", rare=True)
    target_entropy: float | None = setting(
        None, "target entropy; none: -(action dimension)", rare=True
    )
    normalise_obs: bool = setting(False, "normalise observations by running statistics")

    def __post_init__(self) -> None:
        """Check every field."""
        require_box("tqc", self.env)
        nets.check_networks(self, optimized=("actor", "critic", "log_alpha"))
        checks.each(self, ("critic_hidden",), checks.integers, 1, optional=True)
        checks.each(self, ("num_critics", "num_quantiles"), checks.integer, 1)
        checks.integer("drop_quantiles", self.drop_quantiles, 0)
        if self.drop_quantiles >= self.num_quantiles:
            raise ValueError(
                f"drop_quantiles must be less than num_quantiles, {self.num_quantiles}, so that "
                f"targets keep some, got {self.drop_quantiles}."
            )
        checks.each(self, ("gamma", "polyak"), checks.real, 0.0, 1.0)
        checks.each(self, ("lr", "alpha_init"), checks.positive)
        checks.each(self, ("target_entropy",), checks.real, optional=True)
        checks.boolean("normalise_obs", self.normalise_obs)
        checks.hashable(self)


SCHEDULE = OffPolicySchedule(batch_size=256)
NOISE_DRAWS = 2  # 0: next action in the target; 1: action in the policy's loss
LOG_STD = (-20.0, 2.0)  # bounds of the Gaussian's log standard deviation


@struct.dataclass
class Params:
    """All arrays that the losses read; targets receive no gradient."""

    actor: Any
    critic: tuple[Any, ...]  # one tree of parameters for each critic
    target_critic: tuple[Any, ...]
    log_alpha: jax.Array  # () log of the temperature
    spec: Spec = struct.field(pytree_node=False)
    obs_stats: moments.Moments | None = None  # of observations, if they are normalised


@struct.dataclass
class State:
    """Everything that `update` carries from one call to the next."""

    params: Params
    opt_state: dict[str, optax.OptState]
    step: jax.Array  # () int32, number of updates done


def networks(spec: Spec) -> nets.Networks:
    """Return the networks of a learner: the policy, and one module for all critics."""
    style = (spec.activation, spec.initializer, spec.torso)
    wide = spec.hidden if spec.critic_hidden is None else spec.critic_hidden
    actor = spec.actor or nets.GaussianActor(spec.env.act_dim, spec.hidden, *style)
    critic = spec.critic or nets.QuantileFunction(spec.num_quantiles, wide, *style)
    return nets.Networks(actor, critic)


def optimizers(spec: Spec) -> dict[str, optax.GradientTransformation]:
    """Return the optimizer of each group of parameters."""
    return {
        name: nets.make_optimizer(spec, name, spec.lr) for name in ("actor", "critic", "log_alpha")
    }


def init(key: jax.Array, spec: Spec) -> State:
    """Initialise a learner whose targets are copies of the online critics.

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
    inputs, shape = (obs, row.act), (spec.num_quantiles,)
    pi = nets.init_params("actor", actor, key_actor, (obs,), [row.act.shape] * 2)
    z = nets.init_ensemble("critic", critic, key_critic, inputs, shape, spec.num_critics)
    log_alpha = jnp.log(jnp.float32(spec.alpha_init))
    params = Params(pi, z, jax.tree.map(jnp.copy, z), log_alpha, spec, stats)
    opt_state = {name: tx.init(getattr(params, name)) for name, tx in optimizers(spec).items()}
    return State(params, opt_state, jnp.zeros((), jnp.int32))


@jax.jit
def act(params: Params, obs: Any, key: jax.Array) -> jax.Array:
    """Sample actions for `obs` `[..., *obs_shape]` with a key, in the environment's units."""
    checks.key("key", key)
    spec = checks.spec_of(params)
    dist = distribution(params, obs)
    u = squashed.sample(dist, jax.random.normal(key, dist[0].shape, jnp.float32))
    return spec.env.from_unit(squashed.squash(u))


@jax.jit
def policy(params: Params, obs: Any) -> jax.Array:
    """Return the squashed mean actions for `obs` `[..., *obs_shape]`, in environment units."""
    spec = checks.spec_of(params)
    u = squashed.mode(distribution(params, obs))
    return spec.env.from_unit(squashed.squash(u))


def distribution(params: Params, obs: Any) -> tuple[jax.Array, jax.Array]:
    """Return mean and bounded log std `[..., A]` of the Gaussian before squashing."""
    spec = checks.spec_of(params)
    spec.env.check_obs(obs)
    actor, _ = networks(spec)
    obs = moments.normalise(obs, params.obs_stats)
    mean, log_std = nets.apply_rows(actor, params.actor, obs, spec.env.obs_shape)
    return mean, log_std.clip(*LOG_STD)


def q_quantiles(params: Params, obs: Any, act: Any) -> jax.Array:
    """Return the quantiles of actions' returns under all online critics, `[N, ..., M]`.

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


def q_value(params: Params, obs: Any, act: Any) -> jax.Array:
    """Return the values `[N, ...]` of actions under all online critics: means of quantiles."""
    return q_quantiles(params, obs, act).mean(axis=-1)


def sample(params: Params, batch: Batch, obs: Any, draw: int) -> tuple[jax.Array, jax.Array]:
    """Return actions `[B, A]` in (-1, 1) made from noise draw `draw`, and their log-densities."""
    dist = distribution(params, obs)
    noise = rng.noise(batch, NOISE_DRAWS, params.spec.env.act_dim)[:, draw]  # [B, A]
    u = squashed.sample(dist, noise)
    return squashed.squash(u), squashed.log_prob(dist, u, noise)


def temperature(params: Params) -> jax.Array:
    """Return the weight of the entropy bonus, without a gradient."""
    checks.spec_of(params)
    return jax.lax.stop_gradient(jnp.exp(params.log_alpha))


def critic_loss(params: Params, batch: Batch) -> tuple[jax.Array, Metrics]:
    r"""Return the quantile Huber loss against the truncated target, a mean over all critics.

    .. math::
        y_k = r + \gamma (1 - d) (z'_{(k)} - \alpha \log \pi(a'|s')), \qquad
        L = \operatorname{mean}_{i, j, k} \mathbb{E}\,
            [|\tau_j - 1\{y_k < z_{ij}\}| \; \ell(y_k - z_{ij})]

    Args:
        params: The learner's parameters, online and target.
        batch: obs `[B, *obs_shape]`, act `[B, A]`, rew `[B]`, next_obs and terminated `[B]`, with
            a key or noise `[B, 2, A]`. Noise draw 0 makes the next action :math:`a'`.

    Returns:
        The loss, and `loss_q`, `q` (mean of all quantiles), `target` (mean).
    """
    spec = checks.spec_of(params)
    spec.env.check_batch(batch)
    critic = networks(spec).critic
    next_act, next_logp = sample(params, batch, batch.next_obs, draw=0)  # [B, A], [B]
    next_obs = moments.normalise(batch.next_obs, params.obs_stats)
    next_z = nets.q_values(critic, params.target_critic, next_obs, next_act)  # [N, B, M]
    kept = spec.num_critics * (spec.num_quantiles - spec.drop_quantiles)
    smallest = quantiles.pool_smallest(next_z, kept)  # [B, K]
    soft = smallest - temperature(params) * next_logp[:, None]  # [B, K]
    discount = spec.gamma * (1.0 - batch.terminated)  # [B]
    target = jax.lax.stop_gradient(batch.rew[:, None] + discount[:, None] * soft)  # [B, K]
    z = q_quantiles(params, batch.obs, batch.act)  # [N, B, M]
    loss_q = quantiles.huber_loss(z, target[None]).mean()
    return loss_q, {"loss_q": loss_q, "q": z.mean(), "target": target.mean()}


def actor_loss(params: Params, batch: Batch) -> tuple[jax.Array, Metrics]:
    r"""Return temperature times log-density minus the mean of all quantiles of fixed critics.

    .. math::
        L = \mathbb{E}\,[\alpha \log \pi(\tilde a|s)
            - \operatorname{mean}_{i, j} z_{ij}(s, \tilde a)]

    No quantile is dropped here. Noise draw 1 makes the action :math:`\tilde a`, and gradients flow
    through it.

    Returns:
        The loss, and `loss_pi`, `logp` (minus the entropy).
    """
    checks.spec_of(params).env.check_batch(batch)
    critic = networks(params.spec).critic
    frozen = jax.lax.stop_gradient(params.critic)
    pi, logp = sample(params, batch, batch.obs, draw=1)  # [B, A], [B]
    obs = moments.normalise(batch.obs, params.obs_stats)
    q = nets.q_values(critic, frozen, obs, pi).mean(axis=(0, 2))  # [B]
    loss_pi = (temperature(params) * logp - q).mean()
    return loss_pi, {"loss_pi": loss_pi, "logp": logp.mean()}


def alpha_loss(params: Params, batch: Batch) -> tuple[jax.Array, Metrics]:
    r"""Return the loss that drives the entropy to its target.

    .. math::
        L = -\log \alpha \; \mathbb{E}\,[\log \pi(\tilde a|s) + \bar{\mathcal{H}}]

    The temperature falls while the entropy exceeds its target. It uses draw 1, like `actor_loss`.

    Returns:
        The loss, and `loss_alpha`, `alpha`.
    """
    spec = checks.spec_of(params)
    spec.env.check_batch(batch)
    wanted = -float(spec.env.act_dim) if spec.target_entropy is None else spec.target_entropy
    _, logp = sample(params, batch, batch.obs, draw=1)  # [B]
    loss_alpha = -params.log_alpha * (jax.lax.stop_gradient(logp) + wanted).mean()
    return loss_alpha, {"loss_alpha": loss_alpha, "alpha": temperature(params)}


def loss(params: Params, batch: Batch) -> tuple[jax.Array, Metrics]:
    """Return the sum of the three losses; their gradients do not overlap."""
    loss_q, info_q = critic_loss(params, batch)
    loss_pi, info_pi = actor_loss(params, batch)
    loss_alpha, info_alpha = alpha_loss(params, batch)
    return loss_q + loss_pi + loss_alpha, info_q | info_pi | info_alpha


@jax.jit
def update(state: State, batch: Batch) -> tuple[State, Metrics]:
    """Update the critics, the policy, the temperature and the targets, in this order.

    The policy's loss uses the new critics, the temperature's loss the policy before its step.

    Args:
        state: The learner's state, which does not change.
        batch: Batch with the fields that `critic_loss` reads.

    Returns:
        The new state, and the metrics of the losses.
    """
    checks.state(state)
    params, spec, opt = state.params, state.params.spec, state.opt_state
    tx = optimizers(spec)

    # Step all critics towards the target.
    grads, info_q = jax.grad(critic_loss, has_aux=True)(params, batch)
    grad = mpi.pmean(grads.critic)
    step, opt_critic = tx["critic"].update(grad, opt["critic"], params.critic)
    params = dataclasses.replace(params, critic=optax.apply_updates(params.critic, step))

    # Take the gradients of policy and temperature, both at the old policy and the new critics.
    grads_pi, info_pi = jax.grad(actor_loss, has_aux=True)(params, batch)
    grads_alpha, info_alpha = jax.grad(alpha_loss, has_aux=True)(params, batch)
    grad_pi, grad_alpha = mpi.pmean((grads_pi.actor, grads_alpha.log_alpha))

    # Step the policy and the temperature, and move the targets towards the new critics.
    step_pi, opt_actor = tx["actor"].update(grad_pi, opt["actor"], params.actor)
    step_alpha, opt_alpha = tx["log_alpha"].update(grad_alpha, opt["log_alpha"], params.log_alpha)
    params = dataclasses.replace(
        params,
        actor=optax.apply_updates(params.actor, step_pi),
        log_alpha=optax.apply_updates(params.log_alpha, step_alpha),
        target_critic=optax.incremental_update(
            params.critic, params.target_critic, 1.0 - spec.polyak
        ),
        obs_stats=moments.merge_obs(params.obs_stats, batch.obs),
    )
    opt_state = {"actor": opt_actor, "critic": opt_critic, "log_alpha": opt_alpha}
    return State(params, opt_state, state.step + 1), info_q | info_pi | info_alpha
