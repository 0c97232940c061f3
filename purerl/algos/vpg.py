r"""VPG: make actions more likely if they did better than a learned value function expected.

The policy gradient weights the gradients of log-probabilities with advantages, which generalised
advantage estimation (GAE) computes. Each update does one gradient step of the policy, and then many
steps of the value function towards the returns.

.. math::
    L(\theta) = -\mathbb{E}\,[w \, \log \pi_\theta(a | s) \, \hat A(s, a)], \qquad
    L(\phi) = \mathbb{E}\,[w \, (V_\phi(s) - \hat R(s))^2]

References: Sutton et al., 2000, https://papers.nips.cc/paper/1713; Schulman et al., 2016,
https://arxiv.org/abs/1506.02438.

Differences from the papers: there is one policy step per rollout, with Spinning Up's numbers.
Advantages are standardised over the rows of all ranks. The row weight w is 1. If a time limit or
the end of the rollout cuts an episode, advantages and returns bootstrap from the value of the last
state. Only `terminated` stops bootstrapping.
"""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import optax
from flax import struct

from purerl import checks, moments, mpi, nets, returns
from purerl.fields import network_setting, setting
from purerl.nets import policies
from purerl.schedules import OnPolicySchedule
from purerl.spaces import EnvSpec, require_flat
from purerl.types import Metrics, PolicyBatch, Rollout


@dataclasses.dataclass(frozen=True)
class Spec:
    """Static settings of a VPG learner: hashable and compared by value.

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
    pi_lr: float = setting(3e-4, "learning rate of the policy")
    vf_lr: float = setting(1e-3, "learning rate of the value function")
    train_v_iters: int = setting(80, "gradient steps of the value function per update")

    def __post_init__(self) -> None:
        """Check every field."""
        require_flat("vpg", self.env)
        nets.check_networks(self, optimized=("actor", "critic"))
        checks.each(self, ("gamma", "lam"), checks.real, 0.0, 1.0)
        checks.each(self, ("pi_lr", "vf_lr"), checks.positive)
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
    """Return the optimizer of each group of parameters."""
    return {
        "actor": nets.make_optimizer(spec, "actor", spec.pi_lr),
        "critic": nets.make_optimizer(spec, "critic", spec.vf_lr),
    }


def init(key: jax.Array, spec: Spec) -> State:
    """Initialise a learner; `key` is the PRNG key of its parameters."""
    checks.key("key", key)
    checks.spec(spec, Spec)
    key_actor, key_critic = jax.random.split(key)
    actor, critic = networks(spec)
    obs = (spec.env.example().obs,)
    pi = nets.init_params("actor", actor, key_actor, obs, nets.policy_shape(spec.env))
    v = nets.init_params("critic", critic, key_critic, obs, ())
    tx = optimizers(spec)
    opt_state = {"actor": tx["actor"].init(pi), "critic": tx["critic"].init(v)}
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
    r"""Return minus the advantage-weighted log-probability of the actions taken.

    .. math::
        L = -\mathbb{E}\,[w \, \log \pi_\theta(a | s) \, \hat A]

    Args:
        params: The learner's parameters.
        batch: obs `[B, *obs_shape]`, act, and adv and weight `[B]`, from `prepare`.

    Returns:
        The loss, and `loss_pi`, `entropy`.
    """
    spec = checks.spec_of(params)
    spec.env.check_policy_batch(batch)
    dist = distribution(params, batch.obs)
    logp = policies.log_prob(spec.env, dist, batch.act)  # [B]
    loss_pi = -(batch.weight * logp * batch.adv).mean()
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


@jax.jit
def update(state: State, batch: PolicyBatch) -> tuple[State, Metrics]:
    """Do one step of the policy, then `train_v_iters` steps of the value function.

    Args:
        state: The learner's state, which does not change.
        batch: Batch from `prepare`.

    Returns:
        The new state, and the metrics of the losses before the update, their changes
        `delta_loss_pi` and `delta_loss_v`, and the divergence KL(old || new) as `kl`.
    """
    checks.state(state)
    old, spec = state.params, state.params.spec
    tx = optimizers(spec)

    # Step the policy along the gradient, averaged over ranks.
    grads, _ = jax.grad(actor_loss, has_aux=True)(old, batch)
    grad = mpi.pmean(grads.actor)
    step, opt_actor = tx["actor"].update(grad, state.opt_state["actor"], old.actor)
    params = dataclasses.replace(old, actor=optax.apply_updates(old.actor, step))

    # Fit the value function to the returns.
    def fit(_: Any, carry: tuple[Params, Any]) -> tuple[Params, Any]:
        params, opt_critic = carry
        grad = jax.grad(critic_loss, has_aux=True)(params, batch)[0].critic
        step, opt_critic = tx["critic"].update(mpi.pmean(grad), opt_critic, params.critic)
        critic = optax.apply_updates(params.critic, step)
        return dataclasses.replace(params, critic=critic), opt_critic

    carry = params, state.opt_state["critic"]
    params, opt_critic = jax.lax.fori_loop(0, spec.train_v_iters, fit, carry)

    # Measure how the losses changed and how far the policy moved.
    before, after = loss(old, batch)[1], loss(params, batch)[1]
    changes = {f"delta_{name}": after[name] - before[name] for name in ("loss_pi", "loss_v")}
    kl = policies.kl(spec.env, distribution(old, batch.obs), distribution(params, batch.obs))
    info = before | changes | {"kl": (batch.weight * kl).mean()}
    return State(params, {"actor": opt_actor, "critic": opt_critic}, state.step + 1), info
