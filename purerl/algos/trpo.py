r"""TRPO: the largest natural-gradient step that keeps the policy close to the old one; and NPG.

The step direction solves a linear system in the Fisher matrix by conjugate gradients; its length
is what a quadratic model of the divergence allows, and a line search shortens it until divergence
and surrogate loss are as wanted. NPG takes the full step without asking.

.. math::
    \min_\theta \; L(\theta) = -\mathbb{E}\Big[w \,
        \frac{\pi_\theta(a | s)}{\pi_{old}(a | s)} \hat A\Big]
    \quad \text{with} \quad \mathbb{E}\,[KL(\pi_{old} \| \pi_\theta)] \le \delta

.. math::
    x = (F + c I)^{-1} g, \qquad
    \theta = \theta_{old} - \beta^j \sqrt{\frac{2 \delta}{x^T (F + c I) x}} \, x

References: Schulman et al., 2015, https://arxiv.org/abs/1502.05477; Kakade, 2001,
https://papers.nips.cc/paper/2073 (NPG).

Where this differs from the paper: Spinning Up's numbers; advantages from a value function (GAE)
and standardised over the rows of all ranks; the damping c counts in the step's length too. The row
weight w is 1 everywhere. Both kinds of policy use KL(old || new), whose Hessian at the old policy
is F. Without an acceptable step the policy stays as it was, bit for bit.
"""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import optax
from flax import struct
from jax.flatten_util import ravel_pytree

from purerl import checks, moments, mpi, nets, returns
from purerl.fields import setting
from purerl.nets import policies
from purerl.schedules import OnPolicySchedule
from purerl.spaces import EnvSpec, require_flat
from purerl.types import Metrics, PolicyBatch, Rollout


@dataclasses.dataclass(frozen=True)
class Spec:
    """Static settings of a TRPO or NPG learner: hashable and compared by value.

    `actor` and `critic` are Flax modules of your own, or None for an MLP:
    `actor(obs [B, *obs_shape])` -> logits `[B, n]`, or mean and log standard deviation `[B, A]`
    in units of [-1, 1], and `critic(obs [B, *obs_shape]) -> [B]`.
    """

    env: EnvSpec
    actor: Any = None
    critic: Any = None
    hidden: tuple[int, ...] = setting(
        (64, 64), "units of the hidden layers", flag="--hid", group="Network"
    )
    activation: str = setting("tanh", "of the hidden layers", flag="--act", group="Network")
    initializer: str = setting("torch_uniform", "of all layers", group="Network", rare=True)
    log_std_init: float = setting(
        -0.5, "first log std of Box actions, action range is [-1, 1]", group="Network", rare=True
    )
    gamma: float = setting(0.99, "discount factor")
    lam: float = setting(0.97, "of the advantage estimates: 0 trusts the values, 1 the rewards")
    value_target: str = setting(
        "mc", "mc: bootstrapped reward-to-go, lambda: advantage plus value", rare=True
    )
    method: str = setting("trpo", "trpo, or npg: the full step, no line search")
    delta: float = setting(0.01, "bound of the mean KL(old || new) of one update")
    damping_coeff: float = setting(0.1, "added to the diagonal of the Fisher matrix")
    cg_iters: int = setting(10, "steps of the conjugate gradient")
    backtrack_iters: int = setting(10, "lengths tried by the line search")
    backtrack_coeff: float = setting(0.8, "each of them as long as the one before times this")
    vf_lr: float = setting(1e-3, "learning rate of the value function")
    train_v_iters: int = setting(80, "steps of the value function per update")

    def __post_init__(self) -> None:
        """Check every field."""
        require_flat("trpo", self.env)
        nets.check_style(self)
        for name in ("gamma", "lam"):
            checks.real(name, getattr(self, name), 0.0, 1.0)
        checks.real("log_std_init", self.log_std_init, -20.0, 2.0)
        for name in ("delta", "vf_lr"):
            checks.positive(name, getattr(self, name))
        checks.member("method", self.method, ("trpo", "npg"))
        checks.real("damping_coeff", self.damping_coeff, 0.0)
        checks.integer("cg_iters", self.cg_iters, 1)
        checks.integer("backtrack_iters", self.backtrack_iters, 1)
        checks.real("backtrack_coeff", self.backtrack_coeff, 1e-3, 0.999)
        checks.member("value_target", self.value_target, ("mc", "lambda"))
        checks.integer("train_v_iters", self.train_v_iters, 0)
        nets.check_module("actor", self.actor, self.env)
        nets.check_module("critic", self.critic, self.env)
        checks.hashable(self)


SCHEDULE = OnPolicySchedule()
NOISE_DRAWS = 0


@struct.dataclass
class Params:
    """Every array the losses read."""

    actor: Any
    critic: Any
    spec: Spec = struct.field(pytree_node=False)


@struct.dataclass
class State:
    """What `update` carries from one call to the next."""

    params: Params
    opt_state: dict[str, optax.OptState]
    step: jax.Array  # () int32, number of updates done


def _networks(spec: Spec) -> tuple[Any, Any]:
    critic = spec.critic or nets.ValueFunction(spec.hidden, spec.activation, spec.initializer)
    return nets.policy_network(spec), critic


def init(key: jax.Array, spec: Spec) -> State:
    """Make a fresh learner.

    Args:
        key: typed key of all initial parameters.
        spec: static settings.
    """
    checks.key("key", key)
    checks.spec(spec, Spec)
    key_actor, key_critic = jax.random.split(key)
    actor, critic = _networks(spec)
    obs = (spec.env.example().obs,)
    pi = nets.init_params("actor", actor, key_actor, obs, nets.policy_shape(spec.env))
    v = nets.init_params("critic", critic, key_critic, obs, ())
    opt_state = {"critic": optax.adam(spec.vf_lr).init(v)}
    return State(Params(pi, v, spec), opt_state, jnp.zeros((), jnp.int32))


@jax.jit
def act(params: Params, obs: Any, key: jax.Array) -> jax.Array:
    """Return actions drawn from the policy; those of a Box may leave it.

    Args:
        params: of the learner.
        obs: `[..., *obs_shape]`.
        key: of the draw.
    """
    checks.key("key", key)
    return policies.sample(checks.spec_of(params).env, _dist(params, obs), key)


@jax.jit
def policy(params: Params, obs: Any) -> jax.Array:
    """Return the most likely actions for `obs` `[..., *obs_shape]`."""
    return policies.mode(checks.spec_of(params).env, _dist(params, obs))


def _dist(params: Params, obs: Any) -> Any:
    spec = params.spec
    spec.env.check_obs(obs)
    return nets.apply_rows(_networks(spec)[0], params.actor, obs, spec.env.obs_shape)


@jax.jit
def prepare(params: Params, rollout: Rollout) -> PolicyBatch:
    r"""Turn transitions `[T, N, ...]` into what the losses need, `[T*N, ...]`.

    .. math::
        \delta_t = r_t + \gamma (1 - d_t) V(s_{t+1}) - V(s_t), \qquad
        \hat A_t = \sum_l (\gamma \lambda)^l \delta_{t+l}

    Advantages are standardised; values and log-probabilities are those of `params`.
    """
    spec = checks.spec_of(params)
    spec.env.check_rollout(rollout)
    _, critic = _networks(spec)
    both = jnp.stack([rollout.obs, rollout.next_obs])
    val, next_val = nets.apply_rows(critic, params.critic, both, spec.env.obs_shape)  # [T, N]
    ends = (rollout.terminated, rollout.truncated)
    adv = returns.gae(rollout.rew, val, next_val, *ends, spec.gamma, spec.lam)
    ret = adv + val
    if spec.value_target == "mc":
        ret = returns.reward_to_go(rollout.rew, next_val, *ends, spec.gamma)
    weight = jnp.ones_like(adv)
    adv = moments.standardise(adv, weight)
    logp = policies.log_prob(spec.env, _dist(params, rollout.obs), rollout.act)
    batch = PolicyBatch(rollout.obs, rollout.act, adv, ret, logp, val, weight)
    return batch.flatten()._replace(rollout=rollout)


def actor_loss(params: Params, batch: PolicyBatch) -> tuple[jax.Array, Metrics]:
    r"""Surrogate loss: minus the advantage of the new policy over the old one, as seen by the old.

    .. math::
        L = -\mathbb{E}\,[w \, e^{\log \pi_\theta(a | s) - \log \pi_{old}(a | s)} \, \hat A]

    Args:
        params: of the learner, with the static spec.
        batch: obs `[B, *obs_shape]`, act, adv `[B]`, logp `[B]` and weight `[B]`, as `prepare`
            gives them.

    Returns:
        The loss, and `loss_pi`, `entropy`.
    """
    spec = checks.spec_of(params)
    spec.env.check_policy_batch(batch)
    dist = _dist(params, batch.obs)
    ratio = jnp.exp(policies.log_prob(spec.env, dist, batch.act) - batch.logp)  # [B]
    value = -(batch.weight * ratio * batch.adv).mean()
    entropy = (batch.weight * policies.entropy(spec.env, dist)).mean()
    return value, {"loss_pi": value, "entropy": entropy}


def critic_loss(params: Params, batch: PolicyBatch) -> tuple[jax.Array, Metrics]:
    r"""Squared error of the values.

    .. math::
        L = \mathbb{E}\,[w \, (V_\phi(s) - \hat R)^2]

    Returns:
        The loss, and `loss_v`, `val` (mean of the values).
    """
    checks.spec_of(params).env.check_policy_batch(batch)
    _, critic = _networks(params.spec)
    v = nets.apply(critic, params.critic, batch.obs)  # [B]
    value = (batch.weight * jnp.square(v - batch.ret)).mean()
    return value, {"loss_v": value, "val": v.mean()}


def loss(params: Params, batch: PolicyBatch) -> tuple[jax.Array, Metrics]:
    """Return the sum of the actor and critic losses; their gradients do not overlap."""
    value_pi, info_pi = actor_loss(params, batch)
    value_v, info_v = critic_loss(params, batch)
    return value_pi + value_v, info_pi | info_v


def divergence(params: Params, old: Params, batch: PolicyBatch) -> jax.Array:
    r"""Return the mean of :math:`w \, KL(\pi_{old} \| \pi_\theta)` over the rows, a scalar."""
    before, after = (_dist(p, batch.obs) for p in (old, params))
    return (batch.weight * policies.kl(params.spec.env, before, after)).mean()


def conjugate_gradient(product: Any, b: jax.Array, iters: int) -> jax.Array:
    """Solve `product(x) = b` for a symmetric positive definite `product`, starting at 0.

    Once nothing is left to solve the iterate stays where it is.
    """

    def step(_: Any, carry: Any) -> Any:
        x, r, p, rr = carry
        q = product(p)
        alpha = rr / jnp.maximum(p @ q, 1e-20)
        x, r = x + alpha * p, r - alpha * q
        new = r @ r
        return x, r, r + new / jnp.maximum(rr, 1e-20) * p, new

    return jax.lax.fori_loop(0, iters, step, (jnp.zeros_like(b), b, b, b @ b))[0]


def natural_step(params: Params, batch: PolicyBatch, grad: Any) -> Any:
    r"""Return the full step of the policy's parameters, a tree to be subtracted.

    .. math::
        x = (F + c I)^{-1} g, \qquad \sqrt{2 \delta / (x^T (F + c I) x)} \; x

    F is the Hessian of the divergence at `params`, averaged over ranks; products with it are
    linear in the vector, so the rest of the differentiation is done once.
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

    Accepted is what has a divergence of at most delta and a surrogate loss not above the old one,
    both averaged over ranks. If nothing is, the parameters are returned as they came.

    Returns:
        The parameters, and `backtrack_iters` (shortenings done) and `accepted` (1 or 0).
    """
    spec = checks.spec_of(params)
    old_loss = mpi.pmean(actor_loss(params, batch)[0])

    def shortened(j: jax.Array) -> Params:
        part = jnp.float32(spec.backtrack_coeff) ** j
        move = jax.tree.map(lambda s: -part * s, step)
        return dataclasses.replace(params, actor=optax.apply_updates(params.actor, move))

    def going_on(carry: tuple[jax.Array, jax.Array]) -> jax.Array:
        j, accepted = carry
        return ~accepted & (j < spec.backtrack_iters)

    def attempt(carry: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        j, _ = carry
        new = shortened(j)
        loss, kl = mpi.pmean((actor_loss(new, batch)[0], divergence(new, params, batch)))
        accepted = (kl <= spec.delta) & (loss <= old_loss)
        return jnp.where(accepted, j, j + 1), accepted

    j, accepted = jax.lax.while_loop(going_on, attempt, (jnp.int32(0), jnp.bool_(False)))
    actor = jax.tree.map(
        lambda new, old: jnp.where(accepted, new, old), shortened(j).actor, params.actor
    )
    info = {"backtrack_iters": j.astype(jnp.float32), "accepted": accepted.astype(jnp.float32)}
    return dataclasses.replace(params, actor=actor), info


@jax.jit
def update(state: State, batch: PolicyBatch) -> tuple[State, Metrics]:
    """Do one natural step of the policy, then `train_v_iters` of the value function.

    Args:
        state: of the learner; unchanged and still usable afterwards.
        batch: as `prepare` gives it.

    Returns:
        The new state; the metrics of the losses before it, their changes `delta_loss_pi` and
        `delta_loss_v`, the divergence KL(old || new) as `kl`, and for TRPO those of the line
        search.
    """
    checks.state(state)
    old, spec = state.params, state.params.spec
    grads, _ = jax.grad(actor_loss, has_aux=True)(old, batch)
    step = natural_step(old, batch, mpi.pmean(grads.actor))
    if spec.method == "trpo":
        params, searched = line_search(old, batch, step)
    else:
        move = jax.tree.map(jnp.negative, step)
        params = dataclasses.replace(old, actor=optax.apply_updates(old.actor, move))
        searched = {}
    tx = optax.adam(spec.vf_lr)

    def fit(_: Any, carry: tuple[Params, Any]) -> tuple[Params, Any]:
        params, opt_critic = carry
        grad = jax.grad(critic_loss, has_aux=True)(params, batch)[0].critic
        step, opt_critic = tx.update(mpi.pmean(grad), opt_critic)
        return dataclasses.replace(
            params, critic=optax.apply_updates(params.critic, step)
        ), opt_critic

    carry = params, state.opt_state["critic"]
    params, opt_critic = jax.lax.fori_loop(0, spec.train_v_iters, fit, carry)
    before, after = loss(old, batch)[1], loss(params, batch)[1]
    changes = {f"delta_{name}": after[name] - before[name] for name in ("loss_pi", "loss_v")}
    info = before | changes | searched | {"kl": divergence(params, old, batch)}
    return State(params, {"critic": opt_critic}, state.step + 1), info
