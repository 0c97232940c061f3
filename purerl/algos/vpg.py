r"""VPG: the policy gradient with generalized advantage estimates and a learned value function.

One step of the policy along the gradient of its log-probabilities weighted by advantages, then
many steps of the value function towards the returns.

.. math::
    L(\theta) = -\mathbb{E}\,[w \, \log \pi_\theta(a | s) \, \hat A(s, a)], \qquad
    L(\phi) = \mathbb{E}\,[w \, (V_\phi(s) - \hat R(s))^2]

References: Sutton et al., 2000, https://papers.nips.cc/paper/1713; Schulman et al., 2016,
https://arxiv.org/abs/1506.02438.

Where this differs from the papers: one gradient step per rollout and Spinning Up's numbers;
advantages are standardised over the rows of all ranks. The row weight w is 1 everywhere. Where an
episode is cut, by a time limit or by the end of the rollout, advantages and returns bootstrap from
the value of the state it was cut in; `terminated` alone stops that.
"""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import optax
from flax import struct

from purerl import checks, moments, mpi, nets, returns
from purerl.fields import setting
from purerl.nets import policies
from purerl.schedules import OnPolicySchedule
from purerl.spaces import EnvSpec, require_flat
from purerl.types import Metrics, PolicyBatch, Rollout


@dataclasses.dataclass(frozen=True)
class Spec:
    """Static settings of a VPG learner: hashable and compared by value.

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
    pi_lr: float = setting(3e-4, "learning rate of the policy")
    vf_lr: float = setting(1e-3, "learning rate of the value function")
    train_v_iters: int = setting(80, "steps of the value function per update")

    def __post_init__(self) -> None:
        """Check every field."""
        require_flat("vpg", self.env)
        nets.check_style(self)
        for name in ("gamma", "lam"):
            checks.real(name, getattr(self, name), 0.0, 1.0)
        checks.real("log_std_init", self.log_std_init, -20.0, 2.0)
        for name in ("pi_lr", "vf_lr"):
            checks.positive(name, getattr(self, name))
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


def _optimizers(spec: Spec) -> dict[str, optax.GradientTransformation]:
    return {"actor": optax.adam(spec.pi_lr), "critic": optax.adam(spec.vf_lr)}


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
    tx = _optimizers(spec)
    opt_state = {"actor": tx["actor"].init(pi), "critic": tx["critic"].init(v)}
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
    r"""Minus the advantage-weighted log-probability of the actions taken.

    .. math::
        L = -\mathbb{E}\,[w \, \log \pi_\theta(a | s) \, \hat A]

    Args:
        params: of the learner, with the static spec.
        batch: obs `[B, *obs_shape]`, act, adv `[B]` and weight `[B]`, as `prepare` gives them.

    Returns:
        The loss, and `loss_pi`, `entropy`.
    """
    spec = checks.spec_of(params)
    spec.env.check_policy_batch(batch)
    dist = _dist(params, batch.obs)
    logp = policies.log_prob(spec.env, dist, batch.act)  # [B]
    value = -(batch.weight * logp * batch.adv).mean()
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


@jax.jit
def update(state: State, batch: PolicyBatch) -> tuple[State, Metrics]:
    """Do one step of the policy, then `train_v_iters` of the value function.

    Args:
        state: of the learner; unchanged and still usable afterwards.
        batch: as `prepare` gives it.

    Returns:
        The new state; the metrics of the losses before it, their changes `delta_loss_pi` and
        `delta_loss_v`, and `kl`, the divergence KL(old || new).
    """
    checks.state(state)
    old, spec = state.params, state.params.spec
    tx = _optimizers(spec)
    grads, _ = jax.grad(actor_loss, has_aux=True)(old, batch)
    step, opt_actor = tx["actor"].update(mpi.pmean(grads.actor), state.opt_state["actor"])
    params = dataclasses.replace(old, actor=optax.apply_updates(old.actor, step))

    def fit(_: Any, carry: tuple[Params, Any]) -> tuple[Params, Any]:
        params, opt_critic = carry
        grad = jax.grad(critic_loss, has_aux=True)(params, batch)[0].critic
        step, opt_critic = tx["critic"].update(mpi.pmean(grad), opt_critic)
        return dataclasses.replace(
            params, critic=optax.apply_updates(params.critic, step)
        ), opt_critic

    carry = params, state.opt_state["critic"]
    params, opt_critic = jax.lax.fori_loop(0, spec.train_v_iters, fit, carry)
    before, after = loss(old, batch)[1], loss(params, batch)[1]
    changes = {f"delta_{name}": after[name] - before[name] for name in ("loss_pi", "loss_v")}
    kl = policies.kl(spec.env, _dist(old, batch.obs), _dist(params, batch.obs))
    info = before | changes | {"kl": (batch.weight * kl).mean()}
    return State(params, {"actor": opt_actor, "critic": opt_critic}, state.step + 1), info
