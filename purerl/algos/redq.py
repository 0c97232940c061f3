r"""REDQ: SAC with an ensemble of critics and many updates per step; also DroQ.

Many updates on the same transitions bias the critics. Targets use the minimum over a random subset
of an ensemble, which keeps the bias near zero. The policy follows the mean of all critics. DroQ
replaces the large ensemble by two critics with dropout and layer normalisation.

.. math::
    y &= r + \gamma (1 - d) (\min_{i \in \mathcal{M}} Q_{\phi'_i}(s', a')
        - \alpha \log \pi_\theta(a'|s')), \quad a' \sim \pi_\theta, \; |\mathcal{M}| = M \\
    L(\phi) &= \sum_{i=1}^N \mathbb{E}\,[(Q_{\phi_i}(s, a) - y)^2] \\
    L(\theta) &= \mathbb{E}\,[\alpha \log \pi_\theta(\tilde a|s)
        - \tfrac1N \sum_i Q_{\phi_i}(s, \tilde a)] \\
    L(\alpha) &= -\log \alpha \; \mathbb{E}\,[\log \pi_\theta(\tilde a|s) + \bar{\mathcal{H}}]

References: Chen et al., 2021, https://arxiv.org/abs/2101.05982 (REDQ), and Hiraoka et al., 2022,
https://arxiv.org/abs/2110.02034 (DroQ: `ensemble=2, dropout=0.01, layer_norm=True`).

Differences from the papers: each row of a batch has a subset of its own, so that devices can split
batches. The target entropy is minus the action dimension, for actions normalised to [-1, 1] per
dimension; the papers tune it for each task. `d` is `terminated`, not `truncated`, so a time limit
never stops bootstrapping.
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
    """Static settings of a REDQ learner: hashable and compared by value.

    `actor` and `critic` are custom networks, or None for an MLP. The actor maps observations
    `[B, *obs_shape]` to mean and log std `[B, A]` of the Gaussian before squashing. The critic maps
    observations and actions `[B, A]` in [-1, 1] to values `[B]`; all critics are such modules.
    `optimizer` replaces Adam (see `purerl.nets.optimizers`).
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
    layer_norm: bool = network_setting(False, "normalise the critics' hidden layers")
    dropout: float = network_setting(0.0, "share of hidden units that critics drop; DroQ: 0.01")
    ensemble: int = setting(10, "number of critics; DroQ: 2")
    subset: int = setting(2, "number of critics whose minimum is the target")
    gamma: float = setting(0.99, "discount factor")
    polyak: float = setting(0.995, "weight of the old target in a target update")
    lr: float = setting(3e-4, "learning rate of all networks and of alpha")
    policy_delay: int = setting(20, "critic updates per update of policy and alpha")
    alpha_init: float = setting(1.0, "initial weight alpha of the entropy bonus", rare=True)
    target_entropy: float | None = setting(
        None, "target entropy; none: -(action dimension)", rare=True
    )
    normalise_obs: bool = setting(False, "normalise observations by running statistics")

    def __post_init__(self) -> None:
        """Check every field."""
        require_box("redq", self.env)
        nets.check_networks(self, optimized=("actor", "critic", "log_alpha"))
        checks.each(self, ("ensemble", "subset", "policy_delay"), checks.integer, 1)
        if self.subset > self.ensemble:
            raise ValueError(
                f"subset must be at most ensemble, the number of critics, got {self.subset} > "
                f"{self.ensemble}. Lower subset, or raise ensemble."
            )
        checks.real("dropout", self.dropout, 0.0, 0.99)
        if self.dropout and self.critic is not None:
            raise ValueError(
                "dropout must be 0 with a custom critic, because only the default critic has it. "
                f"Got {self.dropout}. Set dropout=0, or leave critic out."
            )
        checks.each(self, ("gamma", "polyak"), checks.real, 0.0, 1.0)
        checks.each(self, ("lr", "alpha_init"), checks.positive)
        checks.each(self, ("target_entropy",), checks.real, optional=True)
        checks.each(self, ("layer_norm", "normalise_obs"), checks.boolean)
        checks.hashable(self)


SCHEDULE = OffPolicySchedule(batch_size=256, update_every=1, updates_per_burst=20)
NOISE_DRAWS = 3  # 0: next action in the target; 1: action in the policy's loss; 2: seeds of rows
LOG_STD = (-20.0, 2.0)  # bounds of the Gaussian's log standard deviation
DELAYED = ("loss_pi", "logp", "loss_alpha", "alpha")  # metrics of the policy's update
USES = ("subset", "next", "stored", "policy")  # of a row's seed: its subset, and three dropouts


@struct.dataclass
class Params:
    """All arrays that the losses read; targets receive no gradient."""

    actor: Any
    critic: Any  # one tree of parameters, whose arrays have a leading axis of critics
    target_critic: Any
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
    style = (spec.hidden, spec.activation, spec.initializer, spec.torso)
    actor = spec.actor or nets.GaussianActor(spec.env.act_dim, *style)
    default = nets.QFunction(*style, layer_norm=spec.layer_norm, dropout=spec.dropout)
    return nets.Networks(actor, spec.critic or default)


def optimizers(spec: Spec) -> dict[str, optax.GradientTransformation]:
    """Return the optimizer of each group of parameters."""
    groups = ("actor", "critic", "log_alpha")
    return {name: nets.make_optimizer(spec, name, spec.lr) for name in groups}


def init(key: jax.Array, spec: Spec) -> State:
    """Initialise a learner with a PRNG key; its targets are copies of the online critics."""
    checks.key("key", key)
    checks.spec(spec, Spec)
    key_actor, key_critic = jax.random.split(key)
    actor, critic = networks(spec)
    row, stats = spec.env.example(), moments.init_obs_stats(spec)
    obs = moments.normalise(row.obs, stats)
    pi = nets.init_params("actor", actor, key_actor, (obs,), [row.act.shape] * 2)
    q = nets.init_stack("critic", critic, key_critic, (obs, row.act), (), spec.ensemble)
    copy, log_alpha = jax.tree.map(jnp.copy, q), jnp.log(jnp.float32(spec.alpha_init))
    params = Params(pi, q, copy, log_alpha, spec, stats)
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
    """Return mean and bounded log std `[..., A]` of the Gaussian before squashing."""
    spec = checks.spec_of(params)
    spec.env.check_obs(obs)
    obs = moments.normalise(obs, params.obs_stats)
    mean, log_std = nets.apply_rows(networks(spec).actor, params.actor, obs, spec.env.obs_shape)
    return mean, log_std.clip(*LOG_STD)


def q_value(params: Params, obs: Any, act: Any) -> jax.Array:
    """Return the values of actions under all online critics, without dropout, `[N, ...]`.

    The actions `[..., A]` are in the environment's units.
    """
    spec = checks.spec_of(params)
    spec.env.check_obs_act(obs, act)
    obs = moments.normalise(obs, params.obs_stats)
    row, critic = (obs, spec.env.obs_shape, spec.env.normalise(act)), networks(spec).critic
    return jax.vmap(lambda tree: nets.apply_rows(critic, tree, *row))(params.critic)


def _sample(params: Params, batch: Batch, obs: Any, draw: int) -> tuple[jax.Array, jax.Array]:
    """Return actions `[B, A]` in (-1, 1) made from noise draw `draw`, and their log-densities."""
    dist = distribution(params, obs)
    noise = rng.noise(batch, NOISE_DRAWS, params.spec.env.act_dim)[:, draw]  # [B, A]
    u = squashed.sample(dist, noise)
    return squashed.squash(u), squashed.log_prob(dist, u, noise)


def _derive_keys(params: Params, batch: Batch, use: str) -> jax.Array:
    """Derive one key for each row `[B]` from the bits of its noise draw 2."""
    noise = rng.noise(batch, NOISE_DRAWS, params.spec.env.act_dim)[:, 2, 0]  # [B]
    seeds = jax.lax.bitcast_convert_type(noise.astype(jnp.float32), jnp.uint32)
    number = USES.index(use)
    return jax.vmap(lambda seed: jax.random.fold_in(jax.random.key(seed), number))(seeds)


def _evaluate(batch: Batch, use: str, params: Params, critics: Any, obs: Any, act: Any) -> Any:
    """Return the values `[N, B]` of an ensemble; dropout draws other units for each use."""
    spec, keys, obs = params.spec, None, moments.normalise(obs, params.obs_stats)
    if spec.dropout:
        split = jax.vmap(lambda key: jax.random.split(key, spec.ensemble), out_axes=1)
        keys = split(_derive_keys(params, batch, use))  # [N, B]
    return nets.stacked_q_values(networks(spec).critic, critics, obs, act, keys)


def choose(params: Params, batch: Batch) -> jax.Array:
    """Choose a random subset of the target critics for each row: different indices `[B, M]`."""
    number, size = checks.spec_of(params).ensemble, (params.spec.subset,)
    params.spec.env.check_batch(batch)
    keys = _derive_keys(params, batch, "subset")
    return jax.vmap(lambda key: jax.random.choice(key, number, size, replace=False))(keys)


def target(params: Params, batch: Batch, chosen: jax.Array) -> jax.Array:
    """Return the target `[B]` of all critics, by subsets `[B, M]` and without a gradient."""
    spec = checks.spec_of(params)
    spec.env.check_batch(batch)
    next_act, next_logp = _sample(params, batch, batch.next_obs, draw=0)  # [B, A], [B]
    next_q = _evaluate(batch, "next", params, params.target_critic, batch.next_obs, next_act)
    next_q = jnp.take_along_axis(next_q, chosen.T, axis=0).min(axis=0)  # [B]
    soft = next_q - temperature(params) * next_logp  # [B]
    return jax.lax.stop_gradient(batch.rew + spec.gamma * (1.0 - batch.terminated) * soft)


def temperature(params: Params) -> jax.Array:
    """Return the weight of the entropy bonus, without a gradient."""
    checks.spec_of(params)
    return jax.lax.stop_gradient(jnp.exp(params.log_alpha))


def critic_loss(params: Params, batch: Batch) -> tuple[jax.Array, Metrics]:
    r"""Return the soft Bellman error of a shared target, summed over all critics.

    .. math::
        y = r + \gamma (1 - d) (\min_{i \in \mathcal{M}} Q_{\phi'_i}(s', a')
            - \alpha \log \pi(a'|s')), \quad L = \sum_{i=1}^N \mathbb{E}\,[(Q_{\phi_i}(s, a) - y)^2]

    Noise draw 0 makes the next action :math:`a'`. The bits of draw 2 are seeds, one for each row,
    of the subset :math:`\mathcal{M}` and of dropout. The metrics are `loss_q`, `q` (mean over
    critics), `q_spread` (standard deviation over critics) and `target`, each a mean over rows.
    """
    y = target(params, batch, choose(params, batch))  # [B]
    act = params.spec.env.normalise(batch.act)
    q = _evaluate(batch, "stored", params, params.critic, batch.obs, act)  # [N, B]
    loss_q = jnp.square(q - y[None]).mean(axis=1).sum()
    spread = jax.lax.stop_gradient(q).std(axis=0).mean()
    return loss_q, {"loss_q": loss_q, "q": q.mean(), "q_spread": spread, "target": y.mean()}


def actor_loss(params: Params, batch: Batch) -> tuple[jax.Array, Metrics]:
    r"""Return temperature times log-density minus the mean Q-value; the critics are held fixed.

    .. math::
        L = \mathbb{E}\,[\alpha \log \pi(\tilde a|s) - \tfrac1N \sum_i Q_{\phi_i}(s, \tilde a)]

    Noise draw 1 makes the action :math:`\tilde a`, and gradients flow through it.
    """
    checks.spec_of(params).env.check_batch(batch)
    frozen = jax.lax.stop_gradient(params.critic)
    pi, logp = _sample(params, batch, batch.obs, draw=1)  # [B, A], [B]
    q = _evaluate(batch, "policy", params, frozen, batch.obs, pi).mean(axis=0)  # [B]
    loss_pi = (temperature(params) * logp - q).mean()
    return loss_pi, {"loss_pi": loss_pi, "logp": logp.mean()}


def alpha_loss(params: Params, batch: Batch) -> tuple[jax.Array, Metrics]:
    r"""Return the loss that drives the entropy to its target.

    .. math::
        L = -\log \alpha \; \mathbb{E}\,[\log \pi(\tilde a|s) + \bar{\mathcal{H}}]

    The temperature falls while the entropy exceeds its target. Noise draw 1 makes the actions.
    """
    spec = checks.spec_of(params)
    spec.env.check_batch(batch)
    wanted = -float(spec.env.act_dim) if spec.target_entropy is None else spec.target_entropy
    _, logp = _sample(params, batch, batch.obs, draw=1)  # [B]
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
    """Update critics and targets. Every `policy_delay` updates, also update policy and temperature.

    Under `vmap` both branches are computed. Metrics in `DELAYED` are 0 if the policy does not move.
    """
    checks.state(state)
    params, opt = state.params, state.opt_state

    # Step all critics towards the target, and move the targets towards the new critics.
    grads, info = jax.grad(critic_loss, has_aux=True)(params, batch)
    tx = optimizers(params.spec)["critic"]
    step, opt_critic = tx.update(mpi.pmean(grads.critic), opt["critic"], params.critic)
    critic, fraction = optax.apply_updates(params.critic, step), 1.0 - params.spec.polyak
    targets = optax.incremental_update(critic, params.target_critic, fraction)
    params = dataclasses.replace(params, critic=critic, target_critic=targets)

    # If it is due, step policy and temperature against the new critics.
    updates = state.step + 1
    due = updates % params.spec.policy_delay == 0
    rest = {name: opt[name] for name in ("actor", "log_alpha")}
    params, rest, info_pi = jax.lax.cond(due, _step_policy, _skip_policy, params, rest, batch)

    # Update the running statistics, report whether the policy moved, and count the update.
    stats = moments.merge_obs(params.obs_stats, batch.obs)
    params = dataclasses.replace(params, obs_stats=stats)
    counts = {f"{name}_count": due.astype(jnp.float32) for name in DELAYED}
    return State(params, {"critic": opt_critic} | rest, updates), info | info_pi | counts


def _step_policy(params: Params, opt: Any, batch: Batch) -> tuple[Params, Any, Metrics]:
    """Step the policy and the temperature, both with gradients at the old policy."""
    tx = optimizers(params.spec)
    grads_pi, info_pi = jax.grad(actor_loss, has_aux=True)(params, batch)
    grads_alpha, info_alpha = jax.grad(alpha_loss, has_aux=True)(params, batch)
    grad_pi, grad_alpha = mpi.pmean((grads_pi.actor, grads_alpha.log_alpha))
    step_pi, opt_actor = tx["actor"].update(grad_pi, opt["actor"], params.actor)
    step_alpha, opt_alpha = tx["log_alpha"].update(grad_alpha, opt["log_alpha"], params.log_alpha)
    params = dataclasses.replace(
        params,
        actor=optax.apply_updates(params.actor, step_pi),
        log_alpha=optax.apply_updates(params.log_alpha, step_alpha),
    )
    return params, {"actor": opt_actor, "log_alpha": opt_alpha}, info_pi | info_alpha


def _skip_policy(params: Params, opt: Any, _: Batch) -> tuple[Params, Any, Metrics]:
    return params, opt, {name: jnp.zeros(()) for name in DELAYED}
