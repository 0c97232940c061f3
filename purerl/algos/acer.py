r"""ACER: an actor-critic that also learns from the sequences of a replay buffer.

The critic learns the values of all actions; the value of a state is their mean under the policy,
:math:`V(s) = \sum_a \pi(a|s) Q(s, a)`. Its targets come from Retrace, which corrects for the policy
:math:`\mu` that acted. The policy gradient weighs rows by the ratio :math:`\rho = \pi / \mu`, and
limits this weight to c. A second term corrects the bias of the limit, with values of the critic:

.. math::
    g = \nabla \Big[ \min(c, \rho(a_t)) \log \pi(a_t) \, (Q^{ret}_t - V(s_t))
      + \sum_a \Big(1 - \frac{c}{\rho(a)}\Big)_+ \pi(a) \log \pi(a) \, (Q(s_t, a) - V(s_t))
      + \beta H(\pi) \Big]

Only :math:`\log \pi` and the entropy H have a gradient. A trust region limits how fast the policy
may leave the average policy network :math:`\bar\pi`, which follows it slowly:

.. math::
    k = \nabla KL(\bar\pi \| \pi) = \pi - \bar\pi, \qquad
    z = g - \max\Big(0, \frac{k \cdot g - \delta}{k \cdot k}\Big) k

References: Wang et al., 2017, https://arxiv.org/abs/1611.01224; Munos et al., 2016,
https://arxiv.org/abs/1606.02647.

Differences from the paper: the trust region limits the gradient with respect to the logits. In
OpenAI's Baselines it is the gradient with respect to the probabilities, whose sum is fixed. There
the limit can act although both policies are equal, and can miss a policy that moves away. The
entropy is inside of the trust region, as in Baselines. Policy and critic share no layers, and the
learning rate is constant (`purerl.nets.optimizers` shows how to decay it). Only `terminated` stops
bootstrapping. RMSProp's average of squared gradients starts at 1, as in Baselines. From 0, the
first steps would be hundreds of times as large.
"""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import optax
from flax import struct

from purerl import checks, mpi, nets, returns
from purerl.fields import network_setting, setting
from purerl.nets import categorical, policies
from purerl.schedules import SequenceSchedule
from purerl.spaces import Discrete, EnvSpec, require_discrete
from purerl.types import Metrics, Rollout, SequenceBatch


@dataclasses.dataclass(frozen=True)
class Spec:
    """Static settings of an ACER learner: hashable and compared by value.

    `actor` and `critic` are custom networks, or None for an MLP. The actor maps observations
    `[B, *obs_shape]` to logits `[B, n]`, and the critic maps them to the values `[B, n]` of all
    actions. `optimizer` replaces RMSProp (`purerl.nets.optimizers`).
    """

    env: EnvSpec
    actor: Any = None
    critic: Any = None
    optimizer: Any = None
    hidden: tuple[int, ...] = network_setting((64, 64), "units of the hidden layers", flag="--hid")
    activation: str = network_setting("tanh", "activation of the hidden layers", flag="--act")
    initializer: str = network_setting("torch_uniform", "initializer of all layers", rare=True)
    head_scale: float = network_setting(0.01, "scale of the policy's last layer", rare=True)
    torso: str | None = network_setting(None, "network for images: nature_cnn", rare=True)
    gamma: float = setting(0.99, "discount factor")
    lr: float = setting(7e-4, "learning rate of policy and critic")
    q_coef: float = setting(0.5, "weight of the critic's loss, half the squared error", rare=True)
    ent_coef: float = setting(0.0, "weight of the entropy bonus")
    max_ratio: float = setting(10.0, "limit c of the importance weights; the rest is corrected")
    delta: float = setting(1.0, "trust region: limit of the gradient along that of the divergence")
    polyak: float = setting(0.99, "weight of the old average policy in an update")
    max_grad_norm: float | None = setting(10.0, "largest gradient norm; none: no limit", rare=True)
    rms_decay: float = setting(0.99, "decay of RMSProp's average of squared gradients", rare=True)
    rms_init: float = setting(1.0, "first value of RMSProp's average", rare=True)
    rms_eps: float = setting(1e-5, "number added to RMSProp's average", rare=True)

    def __post_init__(self) -> None:
        """Check every field."""
        require_discrete("acer", self.env)
        nets.check_networks(self, optimized=("actor", "critic"))
        checks.each(self, ("gamma", "polyak", "rms_decay"), checks.real, 0.0, 1.0)
        checks.each(self, ("lr", "delta", "rms_eps"), checks.positive)
        checks.each(self, ("q_coef", "ent_coef", "max_ratio", "rms_init"), checks.real, 0.0)
        checks.each(self, ("max_grad_norm",), checks.positive, optional=True)
        checks.hashable(self)


SCHEDULE = SequenceSchedule(steps=300_000, num_envs=8)
NOISE_DRAWS = 0


@struct.dataclass
class Params:
    """All arrays that the losses read; the average policy receives no gradient."""

    actor: Any
    critic: Any
    average: Any  # average policy network
    spec: Spec = struct.field(pytree_node=False)


@struct.dataclass
class State:
    """Everything that `update` carries from one call to the next."""

    params: Params
    opt_state: dict[str, optax.OptState]
    step: jax.Array  # () int32, number of updates done


def networks(spec: Spec) -> nets.Networks:
    """Return the networks of a learner: the policy, and the values of all actions."""
    style = (spec.hidden, spec.activation, spec.initializer, spec.torso)
    critic = spec.critic or nets.DiscreteQFunction(spec.env.act_dim, *style)
    return nets.Networks(nets.policy_network(spec, spec.head_scale), critic)


def optimizers(spec: Spec) -> dict[str, optax.GradientTransformation]:
    """Return the optimizer of each group of parameters."""
    rms = optax.rmsprop(spec.lr, spec.rms_decay, spec.rms_eps, spec.rms_init)
    return {name: nets.find_custom(spec, name, spec.lr) or rms for name in ("actor", "critic")}


def init(key: jax.Array, spec: Spec) -> State:
    """Initialise a learner with `key`; its average policy is a copy of the policy."""
    checks.key("key", key)
    checks.spec(spec, Spec)
    key_actor, key_critic = jax.random.split(key)
    actor, critic = networks(spec)
    obs, shape = (spec.env.example().obs,), (spec.env.act_dim,)
    pi = nets.init_params("actor", actor, key_actor, obs, shape)
    q = nets.init_params("critic", critic, key_critic, obs, shape)
    tx = optimizers(spec)
    opt_state = {"actor": tx["actor"].init(pi), "critic": tx["critic"].init(q)}
    params = Params(pi, q, jax.tree.map(jnp.copy, pi), spec)
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
    return nets.apply_rows(networks(spec).actor, params.actor, obs, spec.env.obs_shape)


def q_value(params: Params, obs: Any) -> jax.Array:
    """Return the values `[..., n]` of all actions for observations `[..., *obs_shape]`."""
    spec = checks.spec_of(params)
    spec.env.check_obs(obs)
    return nets.apply_rows(networks(spec).critic, params.critic, obs, spec.env.obs_shape)


def value(params: Params, obs: Any) -> jax.Array:
    """Return the values `[...]` of observations: the mean of the actions' under the policy."""
    return _mean(distribution(params, obs), q_value(params, obs))


def _mean(logits: jax.Array, q: jax.Array) -> jax.Array:
    """Return the mean `[...]` of values `[..., n]` under the policy."""
    return (jax.nn.softmax(logits) * q).sum(axis=-1)


@jax.jit
def prepare(params: Params, rollout: Rollout) -> SequenceBatch:
    """Turn transitions `[T, N, ...]` into sequences `[N, T, ...]` with the logits that acted."""
    spec = checks.spec_of(params)
    spec.env.check_rollout(rollout)
    batch = SequenceBatch(*rollout, behaviour=distribution(params, rollout.obs))
    return jax.tree.map(lambda x: jnp.swapaxes(x, 0, 1), batch)


def ratio(logits: jax.Array, behaviour: jax.Array, act: Any) -> jax.Array:
    r"""Return the ratios :math:`\rho = \pi(a) / \mu(a)` `[...]` of actions `[...]`."""
    return jnp.exp(categorical.log_prob(logits, act) - categorical.log_prob(behaviour, act))


def targets(params: Params, batch: SequenceBatch) -> jax.Array:
    r"""Return the Retrace targets `[B, T]` of the actions taken.

    .. math::
        Q^{ret}_t = r_t + \gamma (1 - d_t) \,
            [V(s_{t+1}) + \min(1, \rho_{t+1}) (Q^{ret}_{t+1} - Q(s_{t+1}, a_{t+1}))]

    The second term is 0 at the end of the sequence or of an episode. The target bootstraps there
    from the value of the step's own `next_obs`.
    """
    spec, act = _check(params, batch)
    q = categorical.chosen(q_value(params, batch.obs), act)
    rho = ratio(distribution(params, batch.obs), batch.behaviour, act)
    next_val = value(params, batch.next_obs)
    steps = (batch.rew, q, next_val, batch.terminated, batch.truncated, rho)  # all [B, T]
    rew, q, next_val, terminated, truncated, rho = (jnp.swapaxes(x, 0, 1) for x in steps)
    ret = returns.retrace(rew, q, next_val, terminated, truncated, rho, spec.gamma)  # [T, B]
    return jax.lax.stop_gradient(ret.swapaxes(0, 1))


def policy_gain(
    logits: jax.Array, behaviour: jax.Array, act: Any, q: jax.Array, ret: jax.Array, c: float
) -> jax.Array:
    r"""Return the gain `[...]` of the policy, whose gradient ACER follows.

    .. math::
        \min(c, \rho(a_t)) \log \pi(a_t) \, (Q^{ret}_t - V)
        + \sum_a \Big(1 - \frac{c}{\rho(a)}\Big)_+ \pi(a) \log \pi(a) \, (Q(a) - V)

    `logits` and `behaviour` are those of the policy and of the one that acted, and `act` counts
    from 0. `q` are the values of all actions, `ret` the targets of those taken.
    """
    fixed = jax.lax.stop_gradient(logits)
    v = _mean(fixed, q)
    rho = ratio(fixed, behaviour, act)
    logp = jnp.where(rho > 0.0, categorical.log_prob(logits, act), 0.0)
    taken = jnp.minimum(c, rho) * (ret - v) * logp
    # (1 - c / rho)_+ pi is (pi - c mu)_+, which needs no division by a probability of 0.
    beyond = jax.nn.softmax(fixed) - c * jax.nn.softmax(behaviour)
    lost = beyond * (q - v[..., None]) * jax.nn.log_softmax(logits)
    return taken + jnp.where(beyond > 0.0, lost, 0.0).sum(axis=-1)


def project(g: jax.Array, k: jax.Array, delta: float) -> jax.Array:
    r"""Return the direction `[..., n]` nearest to g with :math:`k \cdot z \le \delta`.

    .. math::
        z = g - \max\Big(0, \frac{k \cdot g - \delta}{k \cdot k}\Big) k

    `g` and `k` are the gradients of gain and divergence with respect to the logits.
    """
    size = jnp.square(k).sum(axis=-1, keepdims=True)
    excess = jnp.maximum(0.0, (k * g).sum(axis=-1, keepdims=True) - delta)
    return g - excess / jnp.where(size > 0.0, size, 1.0) * k


def actor_loss(params: Params, batch: SequenceBatch) -> tuple[jax.Array, Metrics]:
    r"""Return a number whose gradient is minus the limited gradient z, pulled to the parameters.

    .. math::
        L = -\mathbb{E}\,[z \cdot \mathrm{logits}_\theta(s)], \qquad
        g = \nabla_{\mathrm{logits}} [\mathrm{gain} + \beta H(\pi)]

    The value of this loss has no meaning, because z is a constant in it. `batch` has sequences
    `[B, T, ...]`, from `prepare` or from the replay buffer.

    Returns:
        The loss, and `gain`, `entropy`, `kl` (KL(average || policy)) and `limited` (share of the
        steps where the trust region changes the gradient).
    """
    spec, act = _check(params, batch)
    logits = distribution(params, batch.obs)  # [B, T, n]
    q, ret = q_value(params, batch.obs), targets(params, batch)

    def total(logits: jax.Array) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
        gain = policy_gain(logits, batch.behaviour, act, q, ret, spec.max_ratio)  # [B, T]
        entropy = categorical.entropy(logits)  # [B, T]
        return (gain + spec.ent_coef * entropy).sum(), (gain, entropy)

    g, (gain, entropy) = jax.grad(total, has_aux=True)(jax.lax.stop_gradient(logits))
    average = distribution(dataclasses.replace(params, actor=params.average), batch.obs)
    k = jax.nn.softmax(logits) - jax.nn.softmax(average)  # gradient of KL(average || policy)
    z = jax.lax.stop_gradient(project(g, k, spec.delta))
    masked = jnp.where(z == 0.0, 0.0, z * logits)  # 0 where a network masks an action by -inf
    loss_pi = -masked.sum(axis=-1).mean()
    kl = categorical.kl(average, logits)
    info = {"gain": gain, "entropy": entropy, "kl": kl, "limited": (z != g).any(axis=-1)}
    return loss_pi, {name: x.mean() for name, x in info.items()}


def critic_loss(params: Params, batch: SequenceBatch) -> tuple[jax.Array, Metrics]:
    r"""Return the weighted error of the values of the actions taken.

    .. math::
        L = c_q \, \mathbb{E}\,[\tfrac12 (Q^{ret}_t - Q_\phi(s_t, a_t))^2]

    Returns:
        The loss, and `loss_q` (without the weight), `q` (mean value of the actions taken).
    """
    spec, act = _check(params, batch)
    q = categorical.chosen(q_value(params, batch.obs), act)  # [B, T]
    loss_q = 0.5 * jnp.square(targets(params, batch) - q).mean()
    return spec.q_coef * loss_q, {"loss_q": loss_q, "q": q.mean()}


def loss(params: Params, batch: SequenceBatch) -> tuple[jax.Array, Metrics]:
    """Return the sum of the actor and critic losses; their gradients do not overlap."""
    loss_pi, info_pi = actor_loss(params, batch)
    loss_q, info_q = critic_loss(params, batch)
    return loss_pi + loss_q, info_pi | info_q


@jax.jit
def update(state: State, batch: SequenceBatch) -> tuple[State, Metrics]:
    """Do one step of policy and critic, and move the average policy.

    Args:
        state: The learner's state, which does not change.
        batch: Sequences `[B, T, ...]`, from `prepare` or from the replay buffer.

    Returns:
        The new state, and the metrics of the losses.
    """
    checks.state(state)
    params, spec, tx = state.params, state.params.spec, optimizers(state.params.spec)

    # Average the gradient over ranks, and limit its norm over both networks.
    grads, info = jax.grad(loss, has_aux=True)(params, batch)
    grad = mpi.pmean({"actor": grads.actor, "critic": grads.critic})
    if spec.max_grad_norm:
        clip = optax.clip_by_global_norm(spec.max_grad_norm)
        grad, _ = clip.update(grad, clip.init(grad))

    # Step both networks.
    step_pi, opt_pi = tx["actor"].update(grad["actor"], state.opt_state["actor"], params.actor)
    step_q, opt_q = tx["critic"].update(grad["critic"], state.opt_state["critic"], params.critic)
    actor = optax.apply_updates(params.actor, step_pi)
    critic = optax.apply_updates(params.critic, step_q)

    # Move the average policy a fraction 1 - polyak of the way to the policy.
    average = optax.incremental_update(actor, params.average, 1.0 - spec.polyak)
    params = Params(actor, critic, average, spec)
    return State(params, {"actor": opt_pi, "critic": opt_q}, state.step + 1), info


def _check(params: Params, batch: SequenceBatch) -> tuple[Spec, jax.Array]:
    """Refuse fields of the wrong shape; return the settings, and the actions counted from 0."""
    spec = checks.spec_of(params)
    spec.env.check_sequences(batch)
    checks.shape("batch.behaviour", batch.behaviour, (*batch.rew.shape, spec.env.act_dim))
    start = spec.env.action.start if isinstance(spec.env.action, Discrete) else 0
    return spec, jnp.asarray(batch.act) - start
