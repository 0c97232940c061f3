r"""SAC: learn a stochastic policy that maximises reward plus an entropy bonus (soft actor-critic).

Two critics learn the soft value of the policy, which includes the bonus. Targets and the policy's
loss use the minimum of the two critics. Actions are tanh-squashed Gaussians. They are
reparameterised, so gradients flow from the critics through the action into the policy. The weight
of the bonus is the temperature alpha, fixed or learned.

.. math::
    y &= r + \gamma (1 - d) (\min_i Q_{\phi'_i}(s', a') - \alpha \log \pi_\theta(a'|s')),
        \quad a' \sim \pi_\theta \\
    L(\phi) &= \sum_i \mathbb{E}\,[(Q_{\phi_i}(s, a) - y)^2] \\
    L(\theta) &= \mathbb{E}\,[\alpha \log \pi_\theta(\tilde a|s)
        - \min_i Q_{\phi_i}(s, \tilde a)] \\
    L(\alpha) &= -\log \alpha \; \mathbb{E}\,[\log \pi_\theta(\tilde a|s) + \bar{\mathcal{H}}]

References: Haarnoja et al., 2018, https://arxiv.org/abs/1801.01290 and
https://arxiv.org/abs/1812.05905 (temperature: equation 18, in its logarithmic form).

Differences from the papers: as in Spinning Up, there is no separate state-value network, all
learning rates are 1e-3, and the critics' loss has no factor 1/2. The temperature is fixed at 0.2
unless `alpha="auto"`. Log standard deviations are clipped to [-20, 2]. Updates come in bursts: 50
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
from purerl.nets import squashed
from purerl.schedules import OffPolicySchedule
from purerl.spaces import EnvSpec, require_box
from purerl.types import Batch, Metrics


@dataclasses.dataclass(frozen=True)
class Spec:
    """Static settings of a SAC learner: hashable and compared by value.

    `actor` and `critic` are custom networks, or None for an MLP. The actor maps observations
    `[B, *obs_shape]` to mean and log std `[B, A]` of the Gaussian before squashing. The critic maps
    observations and actions `[B, A]` in [-1, 1] to values `[B]`; both critics are such modules.
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
    lr: float = setting(1e-3, "learning rate of all networks and of alpha")
    alpha: float | str = setting(0.2, "weight of the entropy bonus; auto: learned")
    alpha_init: float = setting(1.0, "initial value of a learned alpha", rare=True)
    target_entropy: float | None = setting(
        None, "target entropy of a learned alpha; none: -(action dimension)", rare=True
    )
    clip_targets: bool = setting(
        False, "clip targets to [-1/(1-gamma), 0], for rewards of -1 and 0", rare=True
    )
    normalise_obs: bool = setting(False, "normalise observations by running statistics")

    def __post_init__(self) -> None:
        """Check every field."""
        require_box("sac", self.env)
        nets.check_networks(self, optimized=("actor", "critic", "log_alpha"))
        checks.each(self, ("gamma", "polyak"), checks.real, 0.0, 1.0)
        checks.each(self, ("lr", "alpha_init"), checks.positive)
        checks.each(self, ("target_entropy",), checks.real, optional=True)
        if not isinstance(self.alpha, str):
            checks.real("alpha", self.alpha, 0.0)
            for name in ("alpha_init", "target_entropy"):
                if getattr(self, name) != getattr(Spec, name):
                    raise ValueError(
                        f"{name} needs a learned temperature, but alpha is fixed at {self.alpha}. "
                        f"Set alpha='auto', or leave {name} out."
                    )
        elif self.alpha != "auto":
            raise ValueError(f"alpha must be a number or 'auto', got {self.alpha!r}.")
        checks.each(self, ("layer_norm", "normalise_obs"), checks.boolean)
        checks.target_clipping(self)
        checks.hashable(self)


SCHEDULE = OffPolicySchedule()
NOISE_DRAWS = 2  # 0: next action in the target; 1: action in the policy's loss
LOG_STD = (-20.0, 2.0)  # bounds of the Gaussian's log standard deviation


@struct.dataclass
class Params:
    """All arrays that the losses read; targets receive no gradient."""

    actor: Any
    critic: tuple[Any, ...]  # two trees of parameters
    target_critic: tuple[Any, ...]
    log_alpha: jax.Array  # () log of a learned temperature; 0 and unused if fixed
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
    actor = spec.actor or nets.GaussianActor(spec.env.act_dim, *style)
    critic = spec.critic or nets.QFunction(*style, layer_norm=spec.layer_norm)
    return nets.Networks(actor, critic)


def optimizers(spec: Spec) -> dict[str, optax.GradientTransformation]:
    """Return the optimizer of each group of parameters."""
    groups = ("actor", "critic", "log_alpha")
    return {name: nets.make_optimizer(spec, name, spec.lr) for name in groups}


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
    pi = nets.init_params("actor", actor, key_actor, (obs,), [row.act.shape] * 2)
    q = nets.init_ensemble("critic", critic, key_critic, (obs, row.act), (), 2)
    first = spec.alpha_init if spec.alpha == "auto" else 1.0
    params = Params(pi, q, jax.tree.map(jnp.copy, q), jnp.log(jnp.float32(first)), spec, stats)
    opt_state = {name: tx.init(getattr(params, name)) for name, tx in optimizers(spec).items()}
    return State(params, opt_state, jnp.zeros((), jnp.int32))


@jax.jit
def act(params: Params, obs: Any, key: jax.Array) -> jax.Array:
    """Sample actions from the policy, in the environment's units.

    Args:
        params: The learner's parameters.
        obs: Observations `[..., *obs_shape]`.
        key: PRNG key used for sampling.
    """
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


def sample(params: Params, batch: Batch, obs: Any, draw: int) -> tuple[jax.Array, jax.Array]:
    """Return actions `[B, A]` in (-1, 1) made from noise draw `draw`, and their log-densities."""
    dist = distribution(params, obs)
    noise = rng.noise(batch, NOISE_DRAWS, params.spec.env.act_dim)[:, draw]  # [B, A]
    u = squashed.sample(dist, noise)
    return squashed.squash(u), squashed.log_prob(dist, u, noise)


def temperature(params: Params) -> jax.Array:
    """Return the weight of the entropy bonus, fixed or learned, without a gradient."""
    spec = checks.spec_of(params)
    if spec.alpha == "auto":
        return jax.lax.stop_gradient(jnp.exp(params.log_alpha))
    return jnp.float32(spec.alpha)


def critic_loss(params: Params, batch: Batch) -> tuple[jax.Array, Metrics]:
    r"""Return the soft clipped double-Q Bellman error, summed over the two critics.

    .. math::
        y = r + \gamma (1 - d) \left(\min_i Q_{\phi'_i}(s', a') - \alpha \log \pi(a'|s')\right),
        \qquad L = \sum_i \mathbb{E}\,[(Q_{\phi_i}(s, a) - y)^2]

    With `clip_targets`, :math:`y` with its bonus is clipped to :math:`[-1 / (1 - \gamma), 0]`.

    Args:
        params: The learner's parameters, online and target.
        batch: obs `[B, *obs_shape]`, act `[B, A]`, rew `[B]`, next_obs and terminated `[B]`, with
            a key or noise `[B, 2, A]`. Noise draw 0 makes the next action :math:`a'`.

    Returns:
        The loss, and `loss_q`, `q1`, `q2` (mean value of each critic), `target` (mean).
    """
    spec = checks.spec_of(params)
    spec.env.check_batch(batch)
    _, critic = networks(spec)
    next_act, next_logp = sample(params, batch, batch.next_obs, draw=0)  # [B, A], [B]
    next_obs = moments.normalise(batch.next_obs, params.obs_stats)
    next_q = nets.q_values(critic, params.target_critic, next_obs, next_act)  # [2, B]
    soft = next_q.min(axis=0) - temperature(params) * next_logp  # [B]
    target = batch.rew + spec.gamma * (1.0 - batch.terminated) * soft  # [B]
    if spec.clip_targets:  # the entropy bonus counts, too
        target = target.clip(-1.0 / (1.0 - spec.gamma), 0.0)
    target = jax.lax.stop_gradient(target)
    q = q_value(params, batch.obs, batch.act)  # [2, B]
    loss_q = jnp.square(q - target[None]).mean(axis=1).sum()
    return loss_q, {"loss_q": loss_q, "q1": q[0].mean(), "q2": q[1].mean(), "target": target.mean()}


def actor_loss(params: Params, batch: Batch) -> tuple[jax.Array, Metrics]:
    r"""Return temperature times log-density minus the smaller Q-value; the critics are held fixed.

    .. math::
        L = \mathbb{E}\,[\alpha \log \pi(\tilde a|s) - \min_i Q_{\phi_i}(s, \tilde a)]

    Noise draw 1 makes the action :math:`\tilde a`, and gradients flow through it.

    Returns:
        The loss, and `loss_pi`, `logp` (minus the entropy).
    """
    checks.spec_of(params).env.check_batch(batch)
    _, critic = networks(params.spec)
    frozen = jax.lax.stop_gradient(params.critic)
    pi, logp = sample(params, batch, batch.obs, draw=1)  # [B, A], [B]
    obs = moments.normalise(batch.obs, params.obs_stats)
    q = nets.q_values(critic, frozen, obs, pi).min(axis=0)  # [B]
    loss_pi = (temperature(params) * logp - q).mean()
    return loss_pi, {"loss_pi": loss_pi, "logp": logp.mean()}


def alpha_loss(params: Params, batch: Batch) -> tuple[jax.Array, Metrics]:
    r"""Return the loss that drives the entropy to its target; 0 for a fixed temperature.

    .. math::
        L = -\log \alpha \; \mathbb{E}\,[\log \pi(\tilde a|s) + \bar{\mathcal{H}}]

    The temperature falls while the entropy exceeds its target. It uses draw 1, like `actor_loss`.

    Returns:
        The loss, and `loss_alpha`, `alpha`.
    """
    spec = checks.spec_of(params)
    spec.env.check_batch(batch)
    if spec.alpha != "auto":
        return jnp.zeros(()), {"loss_alpha": jnp.zeros(()), "alpha": temperature(params)}
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

    # Step both critics towards the target.
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
