r"""XQC: CrossQ with batch and weight normalisation, categorical critics and slow target critics.

Columns of kernels have norm 1 after each step, so that no gradient step becomes small beside grown
weights. A critic learns the distribution of returns by cross-entropy, whose gradient is bounded.

.. math::
    \ell_i &= Q_{\phi_i}([s, s'], [a, a'])_{s, a}, \quad
        \ell'_i = Q_{\bar\phi_i}([s, s'], [a, a'])_{s', a'}, \quad a' \sim \pi_\theta(\cdot|s') \\
    p &= \mathrm{softmax}(\ell'_j), \quad j = \arg\min_i \mathrm{softmax}(\ell'_i) \cdot z \\
    m &= \mathrm{project}(r + \gamma (1 - d) (z - \alpha \log \pi_\theta(a'|s')), \; p) \\
    L(\phi) &= -\sum_i \mathbb{E}\,[m \cdot \log \mathrm{softmax}(\ell_i)] \\
    L(\theta) &= \mathbb{E}\,[\alpha \log \pi_\theta(\tilde a|s) - \min_i \bar q_i(s, \tilde a)] \\
    L(\alpha) &= -\alpha \; \mathbb{E}\,[\log \pi_\theta(\tilde a|s) + \bar{\mathcal{H}}]

z are the atoms, from -v_max to v_max, and :math:`\bar q_i` is the mean return by the running
statistics. The batch normalises in both passes over [s, s'] and in the policy's pass over s.

Reference: Palenicek et al., 2026, https://arxiv.org/abs/2509.25174.

Differences from the paper: the critics have 256 units per layer, not 512, which suits a CPU. The
learning rate is constant. The policy's running statistics move only with the policy. Updates come
in bursts: 100 updates after every 50 steps. Densities and the target entropy are for actions
normalised to [-1, 1] per dimension. `d` is `terminated`, not `truncated`.
"""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import optax
from flax import struct

from purerl import checks, mpi, nets, rng
from purerl.fields import network_setting, setting
from purerl.nets import atoms, squashed
from purerl.schedules import OffPolicySchedule
from purerl.spaces import EnvSpec, require_box
from purerl.types import Batch, Metrics


@dataclasses.dataclass(frozen=True)
class Spec:
    """Static settings of an XQC learner: hashable and compared by value.

    `actor` and `critic` are custom networks, or None for an MLP. The actor maps observations
    `[B, *obs_shape]` to mean and log std `[B, A]` before squashing. The critic maps observations
    and actions `[B, A]` in [-1, 1] to logits `[B, atoms]`. Both may contain `nets.BatchRenorm`.
    `optimizer` replaces Adam (see `purerl.nets.optimizers`).
    """

    env: EnvSpec
    actor: Any = None
    critic: Any = None
    optimizer: Any = None
    hidden: tuple[int, ...] = network_setting((256,) * 4, "units of hidden layers", flag="--hid")
    critic_hidden: tuple[int, ...] | None = network_setting(None, "units of critics; none: hidden")
    activation: str = network_setting("relu", "activation of the hidden layers", flag="--act")
    initializer: str = network_setting("orthogonal", "initializer of all layers", rare=True)
    torso: str | None = network_setting(None, "network for images: nature_cnn", rare=True)
    atoms: int = network_setting(101, "returns that a critic distinguishes", rare=True)
    v_max: float = setting(5.0, "largest atom, in units of scaled rewards; the smallest is -v_max")
    gamma: float = setting(0.99, "discount factor")
    polyak: float = setting(0.995, "weight of the old target in a target update")
    lr: float = setting(3e-4, "learning rate of all networks and of alpha")
    policy_delay: int = setting(3, "critic updates per update of policy and alpha")
    alpha_init: float = setting(0.01, "initial weight alpha of the entropy bonus", rare=True)
    target_entropy: float | None = setting(None, "target entropy; none: -dimension / 2", rare=True)

    def __post_init__(self) -> None:
        """Check every field."""
        require_box("xqc", self.env)
        nets.check_networks(self, optimized=("actor", "critic", "log_alpha"))
        checks.each(self, ("critic_hidden",), checks.integers, 1, optional=True)
        checks.integer("atoms", self.atoms, 2)
        checks.each(self, ("gamma", "polyak"), checks.real, 0.0, 1.0)
        checks.integer("policy_delay", self.policy_delay, 1)
        checks.each(self, ("v_max", "lr", "alpha_init"), checks.positive)
        checks.each(self, ("target_entropy",), checks.real, optional=True)
        checks.hashable(self)


SCHEDULE = OffPolicySchedule(batch_size=256, updates_per_burst=100, scale_rewards=True)
NOISE_DRAWS = 2  # 0: next action in the target; 1: action in the policy's loss
LOG_STD = (-10.0, 2.0)  # bounds of the Gaussian's log standard deviation
DELAYED = ("loss_pi", "logp", "loss_alpha", "alpha")  # metrics of the policy's update


@struct.dataclass
class Params:
    """All arrays that the losses read; targets and running statistics receive no gradient."""

    actor: Any
    critic: tuple[Any, ...]  # two trees of parameters
    target_critic: tuple[Any, ...]
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
    style = (spec.activation, spec.initializer, spec.torso)
    wide = spec.hidden if spec.critic_hidden is None else spec.critic_hidden
    actor = nets.GaussianActor(spec.env.act_dim, spec.hidden, *style, batch_norm=True)
    critic = nets.CategoricalQFunction(spec.atoms, wide, *style, batch_norm=True)
    return nets.Networks(spec.actor or actor, spec.critic or critic)


def optimizers(spec: Spec) -> dict[str, optax.GradientTransformation]:
    """Return the optimizer of each group of parameters."""
    return {k: nets.make_optimizer(spec, k, spec.lr) for k in ("actor", "critic", "log_alpha")}


def init(key: jax.Array, spec: Spec) -> State:
    """Initialise a learner with a PRNG key and static settings."""
    checks.key("key", key)
    checks.spec(spec, Spec)
    key_actor, key_critic = jax.random.split(key)
    actor, critic = networks(spec)
    row = spec.env.example()
    inputs, shapes, logits = (row.obs, row.act), [row.act.shape] * 2, (spec.atoms,)
    pi = nets.init_params("actor", actor, key_actor, inputs[:1], shapes, has_statistics=True)
    q = nets.init_ensemble("critic", critic, key_critic, inputs, logits, 2, has_statistics=True)
    pi, pi_stats = nets.split_statistics(actor, pi)
    q, q_stats = zip(*[nets.split_statistics(critic, one) for one in q], strict=True)
    pi, q = nets.normalise_kernels((pi, q))
    rest = (jax.tree.map(jnp.copy, q), pi_stats, q_stats, jnp.log(jnp.float32(spec.alpha_init)))
    params = Params(pi, q, *rest, spec)
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
    """Return the mean scaled returns of actions under both critics, by running statistics.

    The actions `[..., A]` are in the environment's units; the result is `[2, ...]`.
    """
    spec = checks.spec_of(params)
    spec.env.check_obs_act(obs, act)
    row = (obs, spec.env.obs_shape, spec.env.normalise(act))
    critics = _add_statistics(params, params.critic)
    logits = [nets.apply_rows(networks(spec).critic, one, *row) for one in critics]
    return atoms.mean(jax.nn.softmax(jnp.stack(logits)), spec.v_max)


def _add_statistics(params: Params, critic: tuple[Any, ...]) -> list[Any]:
    """Return parameters and running statistics of each critic."""
    return [*map(nets.join_statistics, critic, params.critic_stats)]


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
    r"""Return the cross-entropy of both critics with the target distribution, summed.

    .. math::
        m = \mathrm{project}(r + \gamma (1 - d) (z - \alpha \log \pi(a'|s')), \; p), \qquad
        L = -\sum_i \mathbb{E}\,[m \cdot \log \mathrm{softmax}(\ell_i)]

    p is of the target critic with the smaller mean, for each row. All passes are over (s, a) and
    (s', a') together. m is a constant. Noise draw 0 makes :math:`a'`. The metrics are `loss_q`,
    `q1`, `q2`, `target` (means), and `clipped`, the probability of targets beyond the atoms.
    """
    loss_q, (info, _) = _critic_loss(params, batch)
    return loss_q, info


def _critic_loss(params: Params, batch: Batch) -> tuple[jax.Array, tuple[Metrics, Any]]:
    """Return the critics' loss, its metrics, and the critics' new running statistics."""
    spec = checks.spec_of(params)
    spec.env.check_batch(batch)
    next_act, next_logp = _sample(batch, distribution(params, batch.next_obs), draw=0)
    obs = jnp.concatenate([batch.obs, batch.next_obs])  # [2B, *obs_shape]
    act = jnp.concatenate([spec.env.normalise(batch.act), next_act])
    act, targets = jax.lax.stop_gradient((act, _add_statistics(params, params.target_critic)))
    critic, number = networks(spec).critic, len(batch.rew)
    # Shift the atoms of the target critic with the smaller mean, and project them back.
    passes = [nets.apply_train(critic, one, obs, act)[0] for one in targets]
    prob = jax.nn.softmax(jnp.stack(passes)[:, number:])  # [2, B, K]
    smaller = atoms.mean(prob, spec.v_max).argmin(axis=0)  # [B]
    prob = jnp.take_along_axis(prob, smaller[None, :, None], axis=0)[0]  # [B, K]
    z = atoms.make_atoms(spec.atoms, spec.v_max)[None]
    soft = z - temperature(params) * next_logp[:, None]  # [B, K]
    shifted = batch.rew[:, None] + spec.gamma * (1.0 - batch.terminated)[:, None] * soft
    target = jax.lax.stop_gradient(atoms.project(shifted, prob, spec.v_max))
    clipped = jnp.where(jnp.abs(shifted) > spec.v_max, prob, 0.0).sum(axis=-1).mean()
    # Compare with the first half of the critics' own pass.
    critics = _add_statistics(params, params.critic)
    both, stats = zip(*[nets.apply_train(critic, one, obs, act) for one in critics], strict=True)
    logits = jnp.stack(both)[:, :number]  # [2, B, K]
    loss_q = -(target[None] * jax.nn.log_softmax(logits)).sum(axis=-1).mean(axis=1).sum()
    q = atoms.mean(jax.nn.softmax(logits), spec.v_max).mean(axis=1)  # [2]
    info = {"loss_q": loss_q, "q1": q[0], "q2": q[1], "clipped": clipped}
    return loss_q, (info | {"target": atoms.mean(target, spec.v_max).mean()}, stats)


def actor_loss(params: Params, batch: Batch) -> tuple[jax.Array, Metrics]:
    r"""Return temperature times log-density minus the smaller mean return; critics are held fixed.

    .. math::
        L = \mathbb{E}\,[\alpha \log \pi(\tilde a|s) - \min_i \bar q_i(s, \tilde a)]

    The policy normalises by the batch, and the critics by their running statistics. Noise draw 1
    makes :math:`\tilde a`. The metrics are `loss_pi` and `logp` (minus the entropy).
    """
    loss_pi, (info, _) = _actor_loss(params, batch)
    return loss_pi, info


def _actor_loss(params: Params, batch: Batch) -> tuple[jax.Array, tuple[Metrics, Any]]:
    """Return the policy's loss, its metrics, and the policy's new running statistics."""
    spec = checks.spec_of(params)
    spec.env.check_batch(batch)
    frozen = jax.lax.stop_gradient(_add_statistics(params, params.critic))
    pi, logp, stats = _sample_in_training(params, batch)  # [B, A], [B]
    logits = nets.q_values(networks(spec).critic, frozen, batch.obs, pi)  # [2, B, K]
    q = atoms.mean(jax.nn.softmax(logits), spec.v_max).min(axis=0)  # [B]
    loss_pi = (temperature(params) * logp - q).mean()
    return loss_pi, ({"loss_pi": loss_pi, "logp": logp.mean()}, stats)


def alpha_loss(params: Params, batch: Batch) -> tuple[jax.Array, Metrics]:
    r"""Return the loss that drives the entropy to its target.

    .. math::
        L = -\alpha \; \mathbb{E}\,[\log \pi(\tilde a|s) + \bar{\mathcal{H}}]

    It uses draw 1, like `actor_loss`. The metrics are `loss_alpha` and `alpha`.
    """
    spec = checks.spec_of(params)
    spec.env.check_batch(batch)
    wanted = -0.5 * spec.env.act_dim if spec.target_entropy is None else spec.target_entropy
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
    """Update critics and targets. Every `policy_delay` updates, also update policy and temperature.

    Running statistics change together with their networks, and are averaged over ranks. Under
    `vmap` both branches are always computed. If the policy does not move, the metrics in `DELAYED`
    and their counts are 0. The arguments do not change.
    """
    checks.state(state)
    params, opt, spec = state.params, state.opt_state, state.params.spec

    # Step and normalise both critics, keep the statistics of this pass, and move the targets.
    grads, (info, stats) = jax.grad(_critic_loss, has_aux=True)(params, batch)
    grad, stats = mpi.pmean((grads.critic, stats))
    step, opt_critic = optimizers(spec)["critic"].update(grad, opt["critic"], params.critic)
    critic = nets.normalise_kernels(optax.apply_updates(params.critic, step))
    target = optax.incremental_update(critic, params.target_critic, 1.0 - spec.polyak)
    params = dataclasses.replace(params, critic=critic, critic_stats=stats, target_critic=target)

    # If it is due, step policy and temperature against the new critics.
    updates = state.step + 1
    due = updates % spec.policy_delay == 0
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
        actor=nets.normalise_kernels(optax.apply_updates(params.actor, step_pi)),
        actor_stats=stats,
        log_alpha=optax.apply_updates(params.log_alpha, step_alpha),
    )
    return params, {"actor": opt_actor, "log_alpha": opt_alpha}, info_pi | info_alpha


def _skip_policy(params: Params, opt: Any, _: Batch) -> tuple[Params, Any, Metrics]:
    return params, opt, dict.fromkeys(DELAYED, jnp.zeros(()))
