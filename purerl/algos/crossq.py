r"""CrossQ: SAC with batch renormalisation in all networks and without target networks.

Critics that are their own targets diverge. Here one pass of each critic over stored and next pairs
normalises both by the same mean and variance, which keeps values and targets comparable.

.. math::
    (q_i, q'_i) &= Q_{\phi_i}([s, s'], [a, a']), \quad a' \sim \pi_\theta(\cdot|s') \\
    y &= r + \gamma (1 - d) (\min_i q'_i - \alpha \log \pi_\theta(a'|s')) \\
    L(\phi) &= \sum_i \tfrac12 \mathbb{E}\,[(q_i - y)^2] \\
    L(\theta) &= \mathbb{E}\,[\alpha \log \pi_\theta(\tilde a|s)
        - \min_i \bar Q_{\phi_i}(s, \tilde a)] \\
    L(\alpha) &= -\alpha \; \mathbb{E}\,[\log \pi_\theta(\tilde a|s) + \bar{\mathcal{H}}]

Each layer of Q and of the policy's loss normalises by its batch. The next action, the critics
:math:`\bar Q` in the policy's loss, and all actions in environments use the running statistics.

Reference: Bhatt et al., 2024, https://arxiv.org/abs/1902.05605.

Differences from the paper: the critics have 256 units per layer, not 2048, which suits a CPU.
Updates come in bursts: 50 updates after every 50 steps. The correction of the renormalisation is
that of Ioffe (2017), where the authors' code adds epsilon twice. Densities and the target entropy
are for actions normalised to [-1, 1] per dimension, so that results do not depend on the scale of a
Box. `d` is `terminated`, not `truncated`, so a time limit never stops bootstrapping.
"""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import optax
from flax import struct

from purerl import checks, mpi, nets, rng
from purerl.fields import network_setting, setting
from purerl.nets import squashed
from purerl.schedules import OffPolicySchedule
from purerl.spaces import EnvSpec, require_box
from purerl.types import Batch, Metrics


@dataclasses.dataclass(frozen=True)
class Spec:
    """Static settings of a CrossQ learner: hashable and compared by value.

    `actor` and `critic` are custom networks, or None for an MLP. The actor maps observations
    `[B, *obs_shape]` to mean and log std `[B, A]` of the Gaussian before squashing. The critic maps
    observations and actions `[B, A]` in [-1, 1] to values `[B]`; both critics are such modules.
    Both may contain `nets.BatchRenorm`. `optimizer` replaces Adam (see `purerl.nets.optimizers`).
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
    initializer: str = network_setting("lecun_normal", "initializer of all layers", rare=True)
    torso: str | None = network_setting(None, "network for images: nature_cnn", rare=True)
    renorm_warmup: int = network_setting(
        100_000, "batches of a layer with plain batch normalisation", rare=True
    )
    gamma: float = setting(0.99, "discount factor")
    lr: float = setting(1e-3, "learning rate of all networks and of alpha")
    adam_b1: float = setting(0.5, "decay of Adam's mean gradient, for all networks", rare=True)
    policy_delay: int = setting(3, "critic updates per update of policy and alpha")
    alpha_init: float = setting(1.0, "initial weight alpha of the entropy bonus", rare=True)
    target_entropy: float | None = setting(
        None, "target entropy; none: -(action dimension)", rare=True
    )

    def __post_init__(self) -> None:
        """Check every field."""
        require_box("crossq", self.env)
        nets.check_networks(self, optimized=("actor", "critic", "log_alpha"))
        checks.each(self, ("critic_hidden",), checks.integers, 1, optional=True)
        checks.integer("renorm_warmup", self.renorm_warmup, 0)
        checks.integer("policy_delay", self.policy_delay, 1)
        checks.real("gamma", self.gamma, 0.0, 1.0)
        checks.real("adam_b1", self.adam_b1, 0.0, 0.999)
        checks.each(self, ("lr", "alpha_init"), checks.positive)
        checks.each(self, ("target_entropy",), checks.real, optional=True)
        checks.hashable(self)


SCHEDULE = OffPolicySchedule(batch_size=256)
NOISE_DRAWS = 2  # 0: next action in the target; 1: action in the policy's loss
LOG_STD = (-20.0, 2.0)  # bounds of the Gaussian's log standard deviation
DELAYED = ("loss_pi", "logp", "loss_alpha", "alpha")  # metrics of the policy's update


@struct.dataclass
class Params:
    """All arrays that the losses read; running statistics receive no gradient."""

    actor: Any
    critic: tuple[Any, ...]  # two trees of parameters
    actor_stats: Any  # running statistics of the layers; {} for a network without any
    critic_stats: tuple[Any, ...]
    log_alpha: jax.Array  # () log of the temperature
    spec: Spec = struct.field(pytree_node=False)


@struct.dataclass
class State:
    """Everything that `update` carries from one call to the next."""

    params: Params
    opt_state: dict[str, optax.OptState]
    step: jax.Array  # () int32, number of updates done


def networks(spec: Spec) -> nets.Networks:
    """Return the networks of a learner: the policy, and one module for both critics."""
    style = (spec.activation, spec.initializer, spec.torso, spec.renorm_warmup)
    wide = spec.hidden if spec.critic_hidden is None else spec.critic_hidden
    actor = spec.actor or nets.GaussianActor(spec.env.act_dim, spec.hidden, *style)
    critic = spec.critic or nets.QFunction(wide, *style)
    return nets.Networks(actor, critic)


def optimizers(spec: Spec) -> dict[str, optax.GradientTransformation]:
    """Return the optimizer of each group of parameters."""
    return {
        "actor": nets.make_optimizer(spec, "actor", spec.lr, spec.adam_b1),
        "critic": nets.make_optimizer(spec, "critic", spec.lr, spec.adam_b1),
        "log_alpha": nets.make_optimizer(spec, "log_alpha", spec.lr),
    }


def init(key: jax.Array, spec: Spec) -> State:
    """Initialise a learner with a PRNG key and static settings."""
    checks.key("key", key)
    checks.spec(spec, Spec)
    key_actor, key_critic = jax.random.split(key)
    actor, critic = networks(spec)
    row = spec.env.example()
    inputs, shapes = (row.obs, row.act), [row.act.shape] * 2
    pi = nets.init_params("actor", actor, key_actor, inputs[:1], shapes, has_statistics=True)
    q = nets.init_ensemble("critic", critic, key_critic, inputs, (), 2, has_statistics=True)
    pi, pi_stats = nets.split_statistics(actor, pi)
    q, q_stats = zip(*[nets.split_statistics(critic, one) for one in q], strict=True)
    params = Params(pi, q, pi_stats, q_stats, jnp.log(jnp.float32(spec.alpha_init)), spec)
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


def distribution(params: Params, obs: Any) -> squashed.Dist:
    """Return mean and bounded log std `[..., A]` before squashing, by running statistics."""
    spec = checks.spec_of(params)
    spec.env.check_obs(obs)
    variables = nets.join_statistics(params.actor, params.actor_stats)
    mean, log_std = nets.apply_rows(networks(spec).actor, variables, obs, spec.env.obs_shape)
    return mean, log_std.clip(*LOG_STD)


def q_value(params: Params, obs: Any, act: Any) -> jax.Array:
    """Return the values of actions under both critics with their running statistics, `[2, ...]`.

    The actions `[..., A]` are in the environment's units.
    """
    spec = checks.spec_of(params)
    spec.env.check_obs_act(obs, act)
    row = (obs, spec.env.obs_shape, spec.env.normalise(act))
    critic = networks(spec).critic
    return jnp.stack([nets.apply_rows(critic, one, *row) for one in _list_critics(params)])


def _list_critics(params: Params) -> list[Any]:
    """Return parameters and running statistics of each critic."""
    return [*map(nets.join_statistics, params.critic, params.critic_stats)]


def _sample(batch: Batch, dist: squashed.Dist, draw: int) -> tuple[jax.Array, jax.Array]:
    """Return actions `[B, A]` in (-1, 1) made from noise draw `draw`, and their log-densities."""
    noise = rng.noise(batch, NOISE_DRAWS, dist[0].shape[-1])[:, draw]  # [B, A]
    u = squashed.sample(dist, noise)
    return squashed.squash(u), squashed.log_prob(dist, u, noise)


def _sample_in_training(params: Params, batch: Batch) -> tuple[jax.Array, jax.Array, Any]:
    """Return actions and log-densities, normalised by the batch, and new running statistics."""
    variables = nets.join_statistics(params.actor, params.actor_stats)
    (mean, log_std), stats = nets.apply_train(networks(params.spec).actor, variables, batch.obs)
    return *_sample(batch, (mean, log_std.clip(*LOG_STD)), draw=1), stats


def temperature(params: Params) -> jax.Array:
    """Return the weight of the entropy bonus, without a gradient."""
    checks.spec_of(params)
    return jax.lax.stop_gradient(jnp.exp(params.log_alpha))


def critic_loss(params: Params, batch: Batch) -> tuple[jax.Array, Metrics]:
    r"""Return the soft clipped double-Q Bellman error, summed over the two critics.

    .. math::
        y = r + \gamma (1 - d) (\min_i q'_i - \alpha \log \pi(a'|s')),
        \qquad L = \sum_i \tfrac12 \mathbb{E}\,[(q_i - y)^2]

    Each critic computes :math:`q_i` for (s, a) and :math:`q'_i` for (s', a') in one pass, so they
    share mean and variance in each layer. :math:`y` is a constant. The gradient flows through
    :math:`q_i`, also through the statistics that both halves of the batch determine. Noise draw 0
    makes the next action :math:`a'`. The metrics are `loss_q`, `q1`, `q2` and `target` (means).
    """
    loss_q, (info, _) = _critic_loss(params, batch)
    return loss_q, info


def _critic_loss(params: Params, batch: Batch) -> tuple[jax.Array, tuple[Metrics, Any]]:
    """Return the critics' loss, its metrics, and the critics' new running statistics."""
    spec = checks.spec_of(params)
    spec.env.check_batch(batch)
    next_act, next_logp = _sample(batch, distribution(params, batch.next_obs), draw=0)
    obs = jnp.concatenate([batch.obs, batch.next_obs])  # [2B, *obs_shape]
    act = jnp.concatenate([spec.env.normalise(batch.act), jax.lax.stop_gradient(next_act)])
    critic = networks(spec).critic
    passes = [nets.apply_train(critic, one, obs, act) for one in _list_critics(params)]
    both, stats = zip(*passes, strict=True)
    q, next_q = jnp.split(jnp.stack(both), 2, axis=1)  # [2, B] each
    soft = next_q.min(axis=0) - temperature(params) * next_logp  # [B]
    target = batch.rew + spec.gamma * (1.0 - batch.terminated) * soft  # [B]
    target = jax.lax.stop_gradient(target)
    loss_q = 0.5 * jnp.square(q - target[None]).mean(axis=1).sum()
    info = {"loss_q": loss_q, "q1": q[0].mean(), "q2": q[1].mean(), "target": target.mean()}
    return loss_q, (info, stats)


def actor_loss(params: Params, batch: Batch) -> tuple[jax.Array, Metrics]:
    r"""Return temperature times log-density minus the smaller Q-value; the critics are held fixed.

    .. math::
        L = \mathbb{E}\,[\alpha \log \pi(\tilde a|s) - \min_i \bar Q_{\phi_i}(s, \tilde a)]

    The policy normalises by the batch, and the critics by their running statistics. Noise draw 1
    makes the action :math:`\tilde a`, and gradients flow through it. The metrics are `loss_pi` and
    `logp` (minus the entropy).
    """
    loss_pi, (info, _) = _actor_loss(params, batch)
    return loss_pi, info


def _actor_loss(params: Params, batch: Batch) -> tuple[jax.Array, tuple[Metrics, Any]]:
    """Return the policy's loss, its metrics, and the policy's new running statistics."""
    spec = checks.spec_of(params)
    spec.env.check_batch(batch)
    frozen = jax.lax.stop_gradient(_list_critics(params))
    pi, logp, stats = _sample_in_training(params, batch)  # [B, A], [B]
    q = nets.q_values(networks(spec).critic, frozen, batch.obs, pi).min(axis=0)  # [B]
    loss_pi = (temperature(params) * logp - q).mean()
    return loss_pi, ({"loss_pi": loss_pi, "logp": logp.mean()}, stats)


def alpha_loss(params: Params, batch: Batch) -> tuple[jax.Array, Metrics]:
    r"""Return the loss that drives the entropy to its target.

    .. math::
        L = -\alpha \; \mathbb{E}\,[\log \pi(\tilde a|s) + \bar{\mathcal{H}}]

    The temperature falls while the entropy exceeds its target. It uses draw 1, like `actor_loss`.
    The metrics are `loss_alpha` and `alpha`.
    """
    spec = checks.spec_of(params)
    spec.env.check_batch(batch)
    wanted = -float(spec.env.act_dim) if spec.target_entropy is None else spec.target_entropy
    _, logp, _ = _sample_in_training(params, batch)  # [B]
    loss_alpha = -jnp.exp(params.log_alpha) * (jax.lax.stop_gradient(logp) + wanted).mean()
    return loss_alpha, {"loss_alpha": loss_alpha, "alpha": temperature(params)}


def loss(params: Params, batch: Batch) -> tuple[jax.Array, Metrics]:
    """Return the sum of the three losses; their gradients do not overlap."""
    loss_q, info_q = critic_loss(params, batch)
    loss_pi, info_pi = actor_loss(params, batch)
    loss_alpha, info_alpha = alpha_loss(params, batch)
    return loss_q + loss_pi + loss_alpha, info_q | info_pi | info_alpha


@jax.jit
def update(state: State, batch: Batch) -> tuple[State, Metrics]:
    """Update the critics. Every `policy_delay` updates, also update policy and temperature.

    Running statistics change together with their networks, and are averaged over ranks. Under
    `vmap` both branches are always computed. If the policy does not move, the metrics in `DELAYED`
    and their counts are 0. The arguments do not change.
    """
    checks.state(state)
    params, opt = state.params, state.opt_state

    # Step both critics towards the target, and keep the statistics of this pass.
    grads, (info, stats) = jax.grad(_critic_loss, has_aux=True)(params, batch)
    grad, stats = mpi.pmean((grads.critic, stats))
    tx = optimizers(params.spec)["critic"]
    step, opt_critic = tx.update(grad, opt["critic"], params.critic)
    critic = optax.apply_updates(params.critic, step)
    params = dataclasses.replace(params, critic=critic, critic_stats=stats)

    # If it is due, step policy and temperature against the new critics.
    updates = state.step + 1
    due = updates % params.spec.policy_delay == 0
    rest = {name: opt[name] for name in ("actor", "log_alpha")}
    params, rest, info_pi = jax.lax.cond(due, _step_policy, _skip_policy, params, rest, batch)

    # Report whether the policy moved, and count the update.
    counts = {f"{name}_count": due.astype(jnp.float32) for name in DELAYED}
    return State(params, {"critic": opt_critic} | rest, updates), info | info_pi | counts


def _step_policy(params: Params, opt: Any, batch: Batch) -> tuple[Params, Any, Metrics]:
    """Step the policy and the temperature, both with gradients at the old policy."""
    tx = optimizers(params.spec)
    grads_pi, (info_pi, stats) = jax.grad(_actor_loss, has_aux=True)(params, batch)
    grads_alpha, info_alpha = jax.grad(alpha_loss, has_aux=True)(params, batch)
    grad_pi, grad_alpha, stats = mpi.pmean((grads_pi.actor, grads_alpha.log_alpha, stats))
    step_pi, opt_actor = tx["actor"].update(grad_pi, opt["actor"], params.actor)
    step_alpha, opt_alpha = tx["log_alpha"].update(grad_alpha, opt["log_alpha"], params.log_alpha)
    params = dataclasses.replace(
        params,
        actor=optax.apply_updates(params.actor, step_pi),
        actor_stats=stats,
        log_alpha=optax.apply_updates(params.log_alpha, step_alpha),
    )
    return params, {"actor": opt_actor, "log_alpha": opt_alpha}, info_pi | info_alpha


def _skip_policy(params: Params, opt: Any, _: Batch) -> tuple[Params, Any, Metrics]:
    return params, opt, {name: jnp.zeros(()) for name in DELAYED}
