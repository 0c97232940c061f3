r"""TRPO: improve the policy, with a limit on its change in one update; also NPG.

Conjugate gradients find the direction of the step, and a quadratic model of the KL divergence gives
its length. A line search shortens it until KL and loss are acceptable. NPG has no line search.

.. math::
    \min_\theta \; L(\theta) = -\mathbb{E}\,[w \frac{\pi_\theta(a | s)}{\pi_{old}(a | s)} \hat A]
    \quad \text{with} \quad \mathbb{E}\,[KL(\pi_{old} \| \pi_\theta)] \le \delta, \qquad
    x = (F + c I)^{-1} g, \qquad
    \theta = \theta_{old} - \beta^j \sqrt{\frac{2 \delta}{x^T (F + c I) x}} \, x

References: Schulman et al., 2015, https://arxiv.org/abs/1502.05477; Kakade, 2001,
https://papers.nips.cc/paper/2073 (NPG).

Differences from the paper: Spinning Up's numbers are the defaults. Advantages come from GAE and are
standardised over the rows of all ranks. The damping c also enters the step length. The row weight w
is 1. F is the Hessian of KL(old || new) at the old policy, for both kinds of actions.
"""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import optax
from flax import struct
from jax.flatten_util import ravel_pytree

from purerl import checks, moments, mpi, nets, returns
from purerl.fields import network_setting, setting
from purerl.nets import policies
from purerl.schedules import OnPolicySchedule
from purerl.spaces import EnvSpec, require_flat
from purerl.types import Metrics, PolicyBatch, Rollout


@dataclasses.dataclass(frozen=True)
class Spec:
    """Static settings of a TRPO or NPG learner: hashable and compared by value.

    `actor` and `critic` are custom networks, or None for an MLP. The actor maps observations
    `[B, *obs_shape]` to logits `[B, n]`, or to mean and log std `[B, A]` in normalised units. The
    critic maps observations to values `[B]`. `optimizer` replaces Adam (`purerl.nets.optimizers`).
    """

    env: EnvSpec
    actor: Any = None
    critic: Any = None
    optimizer: Any = None
    hidden: tuple[int, ...] = network_setting((64, 64), "units of the hidden layers", flag="--hid")
    activation: str = network_setting("tanh", "activation of the hidden layers", flag="--act")
    initializer: str = network_setting("torch_uniform", "initializer of all layers", rare=True)
    torso: str | None = network_setting(None, "network for images: nature_cnn", rare=True)
    log_std_init: float = network_setting(-0.5, "initial log std (actions in [-1, 1])", rare=True)
    gamma: float = setting(0.99, "discount factor")
    lam: float = setting(0.97, "GAE lambda: 0 uses one-step errors, 1 full returns")
    value_target: str = setting("mc", "value target: mc (reward-to-go) or lambda (GAE)", rare=True)
    method: str = setting("trpo", "trpo, or npg: the full step without a line search")
    delta: float = setting(0.01, "largest mean KL(old || new) of an update")
    damping_coeff: float = setting(0.1, "damping on the diagonal of the Fisher matrix")
    cg_iters: int = setting(10, "conjugate gradient iterations")
    backtrack_iters: int = setting(10, "maximum number of line search steps")
    backtrack_coeff: float = setting(0.8, "step length factor of each line search step")
    vf_lr: float = setting(1e-3, "learning rate of the value function")
    train_v_iters: int = setting(80, "gradient steps of the value function per update")

    def __post_init__(self) -> None:
        """Check every field."""
        require_flat("trpo", self.env)
        nets.check_networks(self, optimized=("critic",))
        checks.each(self, ("gamma", "lam"), checks.real, 0.0, 1.0)
        checks.each(self, ("delta", "vf_lr"), checks.positive)
        checks.member("method", self.method, ("trpo", "npg"))
        checks.real("damping_coeff", self.damping_coeff, 0.0)
        checks.each(self, ("cg_iters", "backtrack_iters"), checks.integer, 1)
        checks.real("backtrack_coeff", self.backtrack_coeff, 1e-3, 0.999)
        checks.member("value_target", self.value_target, ("mc", "lambda"))
        checks.integer("train_v_iters", self.train_v_iters, 0)
        checks.hashable(self)


SCHEDULE = OnPolicySchedule()
NOISE_DRAWS = 0


@struct.dataclass
class Params:
    """All arrays that the losses read."""

    actor: Any
    critic: Any
    spec: Spec = struct.field(pytree_node=False)


@struct.dataclass
class State:
    """Everything that `update` carries from one call to the next."""

    params: Params
    opt_state: dict[str, optax.OptState]
    step: jax.Array  # () int32, number of updates done


def networks(spec: Spec) -> nets.Networks:
    """Return the networks of a learner: the policy and the value function."""
    return nets.Networks(nets.policy_network(spec), nets.value_network(spec))


def optimizers(spec: Spec) -> dict[str, optax.GradientTransformation]:
    """Return the optimizer of each group of parameters; the policy has none."""
    return {"critic": nets.make_optimizer(spec, "critic", spec.vf_lr)}


def init(key: jax.Array, spec: Spec) -> State:
    """Initialise a learner; `key` is the PRNG key of its parameters."""
    checks.key("key", key)
    checks.spec(spec, Spec)
    key_actor, key_critic = jax.random.split(key)
    actor, critic = networks(spec)
    obs = (spec.env.example().obs,)
    pi = nets.init_params("actor", actor, key_actor, obs, nets.policy_shape(spec.env))
    v = nets.init_params("critic", critic, key_critic, obs, ())
    opt_state = {"critic": optimizers(spec)["critic"].init(v)}
    return State(Params(pi, v, spec), opt_state, jnp.zeros((), jnp.int32))


@jax.jit
def act(params: Params, obs: Any, key: jax.Array) -> jax.Array:
    """Sample actions from the policy; actions in a Box may lie outside its bounds.

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


def distribution(params: Params, obs: Any) -> Any:
    """Return logits `[..., n]`, or mean and log std `[..., A]` in normalised units."""
    spec = checks.spec_of(params)
    spec.env.check_obs(obs)
    return nets.apply_rows(networks(spec).actor, params.actor, obs, spec.env.obs_shape)


def value(params: Params, obs: Any) -> jax.Array:
    """Return the values `[...]` of observations `[..., *obs_shape]`."""
    spec = checks.spec_of(params)
    spec.env.check_obs(obs)
    return nets.apply_rows(networks(spec).critic, params.critic, obs, spec.env.obs_shape)


@jax.jit
def prepare(params: Params, rollout: Rollout) -> PolicyBatch:
    r"""Turn transitions `[T, N, ...]` into the rows that the losses need, `[T*N, ...]`.

    .. math::
        \delta_t = r_t + \gamma (1 - d_t) V(s_{t+1}) - V(s_t), \qquad
        \hat A_t = \sum_l (\gamma \lambda)^l \delta_{t+l}

    Advantages are standardised. Values and log-probabilities are those of `params`.
    """
    spec = checks.spec_of(params)
    spec.env.check_rollout(rollout)
    val, next_val = value(params, jnp.stack([rollout.obs, rollout.next_obs]))  # [T, N]
    ends = (rollout.terminated, rollout.truncated)
    adv = returns.gae(rollout.rew, val, next_val, *ends, spec.gamma, spec.lam)
    ret = adv + val
    if spec.value_target == "mc":
        ret = returns.reward_to_go(rollout.rew, next_val, *ends, spec.gamma)
    weight = jnp.ones_like(adv)
    adv = moments.standardise(adv, weight)
    logp = policies.log_prob(spec.env, distribution(params, rollout.obs), rollout.act)
    batch = PolicyBatch(rollout.obs, rollout.act, adv, ret, logp, val, weight)
    return batch.flatten()._replace(rollout=rollout)


def actor_loss(params: Params, batch: PolicyBatch) -> tuple[jax.Array, Metrics]:
    r"""Return the surrogate loss: minus the mean advantage, weighted by the probability ratio.

    .. math::
        L = -\mathbb{E}\,[w \, e^{\log \pi_\theta(a | s) - \log \pi_{old}(a | s)} \, \hat A]

    Args:
        params: The learner's parameters.
        batch: obs `[B, *obs_shape]`, act, and adv, logp and weight `[B]`, from `prepare`.

    Returns:
        The loss, and `loss_pi`, `entropy`.
    """
    spec = checks.spec_of(params)
    spec.env.check_policy_batch(batch)
    dist = distribution(params, batch.obs)
    ratio = jnp.exp(policies.log_prob(spec.env, dist, batch.act) - batch.logp)  # [B]
    loss_pi = -(batch.weight * ratio * batch.adv).mean()
    entropy = (batch.weight * policies.entropy(spec.env, dist)).mean()
    return loss_pi, {"loss_pi": loss_pi, "entropy": entropy}


def critic_loss(params: Params, batch: PolicyBatch) -> tuple[jax.Array, Metrics]:
    r"""Return the squared error of the values.

    .. math::
        L = \mathbb{E}\,[w \, (V_\phi(s) - \hat R)^2]

    Returns:
        The loss, and `loss_v`, `val` (mean value).
    """
    checks.spec_of(params).env.check_policy_batch(batch)
    v = value(params, batch.obs)  # [B]
    loss_v = (batch.weight * jnp.square(v - batch.ret)).mean()
    return loss_v, {"loss_v": loss_v, "val": v.mean()}


def loss(params: Params, batch: PolicyBatch) -> tuple[jax.Array, Metrics]:
    """Return the sum of the actor and critic losses; their gradients do not overlap."""
    loss_pi, info_pi = actor_loss(params, batch)
    loss_v, info_v = critic_loss(params, batch)
    return loss_pi + loss_v, info_pi | info_v


def divergence(params: Params, old: Params, batch: PolicyBatch) -> jax.Array:
    r"""Return the mean of :math:`w \, KL(\pi_{old} \| \pi_\theta)` over the rows, a scalar."""
    before, after = (distribution(p, batch.obs) for p in (old, params))
    return (batch.weight * policies.kl(params.spec.env, before, after)).mean()


def conjugate_gradient(product: Any, b: jax.Array, iters: int) -> jax.Array:
    """Solve `product(x) = b` for a symmetric positive definite `product`, starting at 0."""

    def step(_: Any, carry: Any) -> Any:
        x, r, p, rr = carry
        q = product(p)
        alpha = rr / jnp.maximum(p @ q, 1e-20)
        x, r = x + alpha * p, r - alpha * q
        new = r @ r
        return x, r, r + new / jnp.maximum(rr, 1e-20) * p, new

    return jax.lax.fori_loop(0, iters, step, (jnp.zeros_like(b), b, b, b @ b))[0]


def natural_step(params: Params, batch: PolicyBatch, grad: Any) -> Any:
    r"""Return the full natural-gradient step, a tree to subtract from the policy's parameters.

    .. math::
        x = (F + c I)^{-1} g, \qquad \sqrt{2 \delta / (x^T (F + c I) x)} \; x

    F is the Hessian of the divergence at `params`, averaged over ranks and linearised once.
    """
    spec = checks.spec_of(params)
    g, unravel = ravel_pytree(grad)

    def kl(actor: Any) -> jax.Array:
        return divergence(dataclasses.replace(params, actor=actor), params, batch)

    _, hessian = jax.linearize(jax.grad(kl), params.actor)

    def product(x: jax.Array) -> jax.Array:
        return mpi.pmean(ravel_pytree(hessian(unravel(x)))[0]) + spec.damping_coeff * x

    x = conjugate_gradient(product, g, spec.cg_iters)
    return unravel(jnp.sqrt(2.0 * spec.delta / (x @ product(x) + 1e-8)) * x)


def line_search(params: Params, batch: PolicyBatch, step: Any) -> tuple[Params, Metrics]:
    r"""Try :math:`\theta_{old} - \beta^j \, step` for j = 0, 1, ...; return the first accepted.

    Accept a step if the divergence is at most `delta` and the surrogate loss has not risen, both
    averaged over ranks. If no step is accepted, the parameters do not change.

    Returns:
        The parameters, and `backtrack_iters` (rejected steps) and `accepted` (1 or 0).
    """
    spec = checks.spec_of(params)
    old_loss = mpi.pmean(actor_loss(params, batch)[0])

    def shorten(j: jax.Array) -> Params:
        scale = jnp.float32(spec.backtrack_coeff) ** j
        move = jax.tree.map(lambda s: -scale * s, step)
        return dataclasses.replace(params, actor=optax.apply_updates(params.actor, move))

    def keep_searching(carry: tuple[jax.Array, jax.Array]) -> jax.Array:
        j, accepted = carry
        return ~accepted & (j < spec.backtrack_iters)

    def attempt(carry: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        j, _ = carry
        new = shorten(j)
        loss, kl = mpi.pmean((actor_loss(new, batch)[0], divergence(new, params, batch)))
        accepted = (kl <= spec.delta) & (loss <= old_loss)
        return jnp.where(accepted, j, j + 1), accepted

    j, accepted = jax.lax.while_loop(keep_searching, attempt, (jnp.int32(0), jnp.bool_(False)))
    moved = shorten(j).actor
    actor = jax.tree.map(lambda new, old: jnp.where(accepted, new, old), moved, params.actor)
    info = {"backtrack_iters": j.astype(jnp.float32), "accepted": accepted.astype(jnp.float32)}
    return dataclasses.replace(params, actor=actor), info


@jax.jit
def update(state: State, batch: PolicyBatch) -> tuple[State, Metrics]:
    """Do one natural step of the policy, then `train_v_iters` steps of the value function.

    Args:
        state: The learner's state, which does not change.
        batch: Batch from `prepare`.

    Returns:
        The new state, and the metrics of the losses before the update, their changes
        `delta_loss_pi` and `delta_loss_v`, KL(old || new) as `kl`, and the line search metrics.
    """
    checks.state(state)
    old, spec = state.params, state.params.spec

    # Compute the natural-gradient step.
    grads, _ = jax.grad(actor_loss, has_aux=True)(old, batch)
    step = natural_step(old, batch, mpi.pmean(grads.actor))

    # Take the step, shortened by the line search (TRPO) or in full (NPG).
    if spec.method == "trpo":
        params, searched = line_search(old, batch, step)
    else:
        move = jax.tree.map(jnp.negative, step)
        params, searched = dataclasses.replace(old, actor=optax.apply_updates(old.actor, move)), {}

    # Fit the value function to the returns.
    tx = optimizers(spec)["critic"]

    def fit(_: Any, carry: tuple[Params, Any]) -> tuple[Params, Any]:
        params, opt_critic = carry
        grad = jax.grad(critic_loss, has_aux=True)(params, batch)[0].critic
        step, opt_critic = tx.update(mpi.pmean(grad), opt_critic, params.critic)
        critic = optax.apply_updates(params.critic, step)
        return dataclasses.replace(params, critic=critic), opt_critic

    carry = params, state.opt_state["critic"]
    params, opt_critic = jax.lax.fori_loop(0, spec.train_v_iters, fit, carry)

    # Measure how the losses changed and how far the policy moved.
    before, after = loss(old, batch)[1], loss(params, batch)[1]
    changes = {f"delta_{name}": after[name] - before[name] for name in ("loss_pi", "loss_v")}
    info = before | changes | searched | {"kl": divergence(params, old, batch)}
    return State(params, {"critic": opt_critic}, state.step + 1), info
