r"""Discrete SAC: a soft actor-critic with exact expectations over actions.

Two critics return the values of all actions, and the policy their probabilities. Expectations over
actions are therefore exact sums: no action is sampled in a loss, and no noise is needed. The weight
of the entropy bonus is the temperature alpha, learned or fixed.

.. math::
    V_\psi(s) &= \sum_a \pi_\theta(a|s) \, \bar Q_\psi(s, a) + \alpha \mathcal{H}(\pi_\theta(s)) \\
    y &= r + \gamma (1 - d) V_{\phi'}(s') \\
    L(\phi) &= \sum_i \mathbb{E}\,[(Q_{\phi_i}(s, a) - y)^2] \\
    L(\theta) &= -\mathbb{E}\,[V_\phi(s)] \\
    L(\alpha) &= \log \alpha \; \mathbb{E}\,[\mathcal{H}(\pi_\theta(s)) - \bar{\mathcal{H}}]

:math:`\bar Q` is the minimum of the two critics, or with `average_critics` their mean. Without
`soft_critic`, targets have no entropy bonus.

References: Christodoulou, 2019, https://arxiv.org/abs/1910.07207. Mean of the critics: Zhou et al.,
2022, https://arxiv.org/abs/2209.10081. Targets without the bonus: Asad et al., 2025,
https://arxiv.org/abs/2509.09838.

The defaults are for small control tasks. Differences from the paper: the target entropy is 0.3 of
the largest, not 0.98. With 0.89, as in CleanRL, alpha grows without end on CartPole-v1. Targets
move by 2 % at every update, where the paper copies the critics now and then. Updates come in
bursts: 50 updates after every 50 steps. `d` is `terminated`, not `truncated`, so a time limit never
stops bootstrapping.
"""

import dataclasses
import math
from typing import Any

import jax
import jax.numpy as jnp
import optax
from flax import struct

from purerl import checks, moments, mpi, nets
from purerl.fields import network_setting, setting
from purerl.nets import categorical, policies
from purerl.schedules import OffPolicySchedule
from purerl.spaces import Discrete, EnvSpec, require_discrete
from purerl.types import Batch, Metrics


@dataclasses.dataclass(frozen=True)
class Spec:
    """Static settings of a discrete SAC learner: hashable and compared by value.

    `actor` and `critic` are custom networks, or None for an MLP. The actor maps observations
    `[B, *obs_shape]` to logits `[B, n]`, the critic to the values `[B, n]` of all actions; both
    critics are such modules. `optimizer` replaces Adam; `purerl.nets.optimizers` has examples.
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
    gamma: float = setting(0.99, "discount factor")
    polyak: float = setting(0.98, "weight of the old target in a target update")
    lr: float = setting(1e-3, "learning rate of all networks and of alpha")
    alpha: float | str = setting("auto", "weight of the entropy bonus; auto: learned")
    alpha_init: float = setting(1.0, "initial value of a learned alpha", rare=True)
    target_entropy_scale: float = setting(0.3, "target entropy, as a fraction of the largest")
    average_critics: bool = setting(False, "mean of the critics, not their minimum", rare=True)
    soft_critic: bool = setting(True, "entropy bonus in the critics' targets", rare=True)
    normalise_obs: bool = setting(False, "normalise observations by running statistics")

    def __post_init__(self) -> None:
        """Check every field."""
        require_discrete("sac_discrete", self.env)
        nets.check_networks(self, optimized=("actor", "critic", "log_alpha"))
        checks.each(self, ("gamma", "polyak", "target_entropy_scale"), checks.real, 0.0, 1.0)
        checks.each(self, ("lr", "alpha_init"), checks.positive)
        if not isinstance(self.alpha, str):
            checks.real("alpha", self.alpha, 0.0)
            for name in ("alpha_init", "target_entropy_scale"):
                if getattr(self, name) != getattr(Spec, name):
                    raise ValueError(
                        f"{name} needs a learned temperature, but alpha is fixed at {self.alpha}. "
                        f"Set alpha='auto', or leave {name} out."
                    )
        elif self.alpha != "auto":
            raise ValueError(f"alpha must be a number or 'auto', got {self.alpha!r}.")
        checks.each(self, ("average_critics", "soft_critic", "normalise_obs"), checks.boolean)
        checks.hashable(self)


SCHEDULE = OffPolicySchedule(
    steps=50_000,
    start_steps=1_000,
    update_after=1_000,
    batch_size=64,
    replay_size=100_000,
)
NOISE_DRAWS = 0


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
    style = (spec.hidden, spec.activation, spec.initializer)
    actor = spec.actor or nets.CategoricalPolicy(spec.env.act_dim, *style, torso=spec.torso)
    critic = spec.critic or nets.DiscreteQFunction(spec.env.act_dim, *style, spec.torso)
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
    stats, shape = moments.init_obs_stats(spec), (spec.env.act_dim,)
    inputs = (moments.normalise(spec.env.example().obs, stats),)
    pi = nets.init_params("actor", actor, key_actor, inputs, shape)
    q = nets.init_ensemble("critic", critic, key_critic, inputs, shape, 2)
    first = spec.alpha_init if spec.alpha == "auto" else 1.0
    params = Params(pi, q, jax.tree.map(jnp.copy, q), jnp.log(jnp.float32(first)), spec, stats)
    opt_state = {name: tx.init(getattr(params, name)) for name, tx in optimizers(spec).items()}
    return State(params, opt_state, jnp.zeros((), jnp.int32))


@jax.jit
def act(params: Params, obs: Any, key: jax.Array) -> jax.Array:
    """Sample actions from the policy.

    Args:
        params: The learner's parameters.
        obs: Observations `[..., *obs_shape]`.
        key: PRNG key used for sampling.
    """
    checks.key("key", key)
    return policies.sample(checks.spec_of(params).env, distribution(params, obs), key)


@jax.jit
def policy(params: Params, obs: Any) -> jax.Array:
    """Return the most likely actions for `obs` `[..., *obs_shape]`."""
    return policies.mode(checks.spec_of(params).env, distribution(params, obs))


def distribution(params: Params, obs: Any) -> jax.Array:
    """Return the logits `[..., n]` of the policy for observations `[..., *obs_shape]`."""
    spec = checks.spec_of(params)
    spec.env.check_obs(obs)
    obs = moments.normalise(obs, params.obs_stats)
    return nets.apply_rows(networks(spec).actor, params.actor, obs, spec.env.obs_shape)


def q_value(params: Params, obs: Any) -> jax.Array:
    """Return the values `[2, ..., n]` of all actions under both online critics."""
    return _q_values(params, params.critic, obs)


def _q_values(params: Params, critics: tuple[Any, ...], obs: Any) -> jax.Array:
    spec = checks.spec_of(params)
    spec.env.check_obs(obs)
    row = (moments.normalise(obs, params.obs_stats), spec.env.obs_shape)
    critic = networks(spec).critic
    return jnp.stack([nets.apply_rows(critic, tree, *row) for tree in critics])


def _expect(params: Params, critics: tuple[Any, ...], obs: Any) -> tuple[jax.Array, jax.Array]:
    """Return the policy's expected value of fixed critics `[B]`, and its entropy `[B]`."""
    q = jax.lax.stop_gradient(_q_values(params, critics, obs))  # [2, B, n]
    q = q.mean(axis=0) if params.spec.average_critics else q.min(axis=0)
    logits = distribution(params, obs)  # [B, n]
    return (jax.nn.softmax(logits) * q).sum(axis=-1), categorical.entropy(logits)


def temperature(params: Params) -> jax.Array:
    """Return the weight of the entropy bonus, fixed or learned, without a gradient."""
    spec = checks.spec_of(params)
    if spec.alpha == "auto":
        return jax.lax.stop_gradient(jnp.exp(params.log_alpha))
    return jnp.float32(spec.alpha)


def critic_loss(params: Params, batch: Batch) -> tuple[jax.Array, Metrics]:
    r"""Return the Bellman error of the actions taken, summed over the two critics.

    .. math::
        y = r + \gamma (1 - d) \Big( \sum_{a'} \pi(a'|s') \bar Q_{\phi'}(s', a')
            + \alpha \mathcal{H}(\pi(s')) \Big), \qquad
        L = \sum_i \mathbb{E}\,[(Q_{\phi_i}(s, a) - y)^2]

    Without `soft_critic`, :math:`y` has no entropy bonus.

    Args:
        params: The learner's parameters, online and target.
        batch: obs `[B, *obs_shape]`, act `[B]`, rew `[B]`, next_obs and terminated `[B]`. An
            action outside the space makes the loss NaN.

    Returns:
        The loss, and `loss_q`, `q1`, `q2` (mean value of the actions taken under each critic),
        `target` (mean).
    """
    spec = checks.spec_of(params)
    spec.env.check_batch(batch)
    next_value, entropy = _expect(params, params.target_critic, batch.next_obs)  # [B], [B]
    if spec.soft_critic:
        next_value = next_value + temperature(params) * entropy
    target = batch.rew + spec.gamma * (1.0 - batch.terminated) * next_value  # [B]
    target = jax.lax.stop_gradient(target)
    first = spec.env.action.start if isinstance(spec.env.action, Discrete) else 0
    taken = jnp.broadcast_to(jnp.asarray(batch.act) - first, (2, *target.shape))  # [2, B]
    q = categorical.chosen(q_value(params, batch.obs), taken)  # [2, B]
    loss_q = jnp.square(q - target[None]).mean(axis=1).sum()
    return loss_q, {"loss_q": loss_q, "q1": q[0].mean(), "q2": q[1].mean(), "target": target.mean()}


def actor_loss(params: Params, batch: Batch) -> tuple[jax.Array, Metrics]:
    r"""Return minus the expected value and the entropy bonus; the critics are held fixed.

    .. math::
        L = -\mathbb{E}\Big[\sum_a \pi(a|s) \bar Q_\phi(s, a) + \alpha \mathcal{H}(\pi(s))\Big]

    Returns:
        The loss, and `loss_pi`, `entropy`.
    """
    checks.spec_of(params).env.check_batch(batch)
    value, entropy = _expect(params, params.critic, batch.obs)  # [B], [B]
    loss_pi = -(value + temperature(params) * entropy).mean()
    return loss_pi, {"loss_pi": loss_pi, "entropy": entropy.mean()}


def alpha_loss(params: Params, batch: Batch) -> tuple[jax.Array, Metrics]:
    r"""Return the loss that drives the entropy to its target; 0 for a fixed temperature.

    .. math::
        L = \log \alpha \; \mathbb{E}\,[\mathcal{H}(\pi(s)) - \bar{\mathcal{H}}]

    The temperature falls while the entropy exceeds its target, `target_entropy_scale` times log n.

    Returns:
        The loss, and `loss_alpha`, `alpha`.
    """
    spec = checks.spec_of(params)
    spec.env.check_batch(batch)
    if spec.alpha != "auto":
        return jnp.zeros(()), {"loss_alpha": jnp.zeros(()), "alpha": temperature(params)}
    wanted = spec.target_entropy_scale * math.log(spec.env.act_dim)
    entropy = categorical.entropy(distribution(params, batch.obs))  # [B]
    loss_alpha = params.log_alpha * (jax.lax.stop_gradient(entropy) - wanted).mean()
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
