r"""REINFORCE: make actions that led to high returns more likely, without a value function.

It follows the policy gradient, estimated from the returns of sampled episodes.

.. math::
    L(\theta) = -\mathbb{E}\,[w \, \log \pi_\theta(a | s) \, R], \qquad
    R = \sum_{t' \ge t} \gamma^{t' - t} r_{t'} \quad \text{or} \quad \sum_{t'} \gamma^{t'} r_{t'}

Reference: Williams, 1992, https://doi.org/10.1007/BF00992696.

The first form of R is the reward-to-go. It omits the rewards before the action, because their
expected contribution is zero. The second form is the return of the whole episode, which
`reward_to_go=False` selects. The first of Spinning Up's two example scripts uses it, with
`gamma=1.0, standardise=False`.

Differences from the paper: returns are standardised over the rows of all ranks, which replaces a
baseline. Without a value function, the return of an episode that the rollout cuts off is unknown.
Its steps have weight w = 0, and the weights of the other steps are scaled up to mean 1. A time
limit counts as the end of an episode. Both rules bias the gradient. By default every rollout starts
new episodes. If an episode continued from the rollout before, only its late steps would count. On
CartPole-v1, policies that could balance the pole forgot it that way.
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
    """Static settings of a REINFORCE learner: hashable and compared by value.

    `actor` is a custom network, or None for an MLP. It maps observations `[B, *obs_shape]` to
    logits `[B, n]`, or to mean and log std `[B, A]` in normalised units.
    `optimizer` replaces Adam; `purerl.nets.optimizers` has examples.
    """

    env: EnvSpec
    actor: Any = None
    optimizer: Any = None
    hidden: tuple[int, ...] = network_setting((64, 64), "units of the hidden layers", flag="--hid")
    activation: str = network_setting("tanh", "activation of the hidden layers", flag="--act")
    initializer: str = network_setting("torch_uniform", "initializer of all layers", rare=True)
    torso: str | None = network_setting(None, "network for images: nature_cnn", rare=True)
    log_std_init: float = network_setting(-0.5, "initial log std (actions in [-1, 1])", rare=True)
    gamma: float = setting(0.99, "discount factor")
    reward_to_go: bool = setting(True, "use the reward-to-go; no: the return of the whole episode")
    standardise: bool = setting(True, "scale returns to mean 0 and std 1")
    pi_lr: float = setting(1e-2, "learning rate of the policy")

    def __post_init__(self) -> None:
        """Check every field."""
        require_flat("reinforce", self.env)
        nets.check_networks(self, optimized=("actor",))
        checks.real("gamma", self.gamma, 0.0, 1.0)
        checks.boolean("reward_to_go", self.reward_to_go)
        checks.boolean("standardise", self.standardise)
        checks.positive("pi_lr", self.pi_lr)
        checks.hashable(self)


SCHEDULE = OnPolicySchedule(continue_episodes=False)
NOISE_DRAWS = 0


@struct.dataclass
class Params:
    """All arrays that the loss reads."""

    actor: Any
    spec: Spec = struct.field(pytree_node=False)


@struct.dataclass
class State:
    """Everything that `update` carries from one call to the next."""

    params: Params
    opt_state: dict[str, optax.OptState]
    step: jax.Array  # () int32, number of updates done


def networks(spec: Spec) -> nets.Networks:
    """Return the networks of a learner: the policy, and None for the critic."""
    return nets.Networks(nets.policy_network(spec), None)


def optimizers(spec: Spec) -> dict[str, optax.GradientTransformation]:
    """Return the optimizer of each group of parameters."""
    return {"actor": nets.make_optimizer(spec, "actor", spec.pi_lr)}


def init(key: jax.Array, spec: Spec) -> State:
    """Initialise a learner; `key` is the PRNG key of its parameters."""
    checks.key("key", key)
    checks.spec(spec, Spec)
    obs = (spec.env.example().obs,)
    actor = networks(spec).actor
    pi = nets.init_params("actor", actor, key, obs, nets.policy_shape(spec.env))
    opt_state = {"actor": optimizers(spec)["actor"].init(pi)}
    return State(Params(pi, spec), opt_state, jnp.zeros((), jnp.int32))


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


@jax.jit
def prepare(params: Params, rollout: Rollout) -> PolicyBatch:
    """Turn transitions `[T, N, ...]` into the rows that the loss needs, `[T*N, ...]`.

    `ret` contains the returns. `adv` contains the same returns, standardised if the setting
    `standardise` is true, and the loss uses it. Rows of an episode that does not end inside the
    rollout have weight 0. The weights have mean 1 over the rows of all ranks.
    """
    spec = checks.spec_of(params)
    spec.env.check_rollout(rollout)
    ends = (rollout.terminated, rollout.truncated)
    none = jnp.zeros_like(rollout.rew)
    if spec.reward_to_go:
        ret = returns.reward_to_go(rollout.rew, none, *ends, spec.gamma)
    else:
        ret = returns.episode_return(rollout.rew, *ends, spec.gamma)
    ended = jnp.logical_or(*ends)[::-1].cumsum(axis=0)[::-1] > 0  # here or at a later row
    weight = moments.scale_to_mean_one(ended.astype(jnp.float32))
    adv = moments.standardise(ret, weight) if spec.standardise else ret
    logp = policies.log_prob(spec.env, distribution(params, rollout.obs), rollout.act)
    batch = PolicyBatch(rollout.obs, rollout.act, adv, ret, logp, none, weight)
    return batch.flatten()._replace(rollout=rollout)


def actor_loss(params: Params, batch: PolicyBatch) -> tuple[jax.Array, Metrics]:
    r"""Return minus the return-weighted log-probability of the actions taken.

    .. math::
        L = -\mathbb{E}\,[w \, \log \pi_\theta(a | s) \, R]

    Args:
        params: The learner's parameters.
        batch: obs `[B, *obs_shape]`, act, and adv (the returns) and weight `[B]`, from `prepare`.

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


def loss(params: Params, batch: PolicyBatch) -> tuple[jax.Array, Metrics]:
    """Return the actor loss, the only loss of REINFORCE."""
    return actor_loss(params, batch)


@jax.jit
def update(state: State, batch: PolicyBatch) -> tuple[State, Metrics]:
    """Update the policy. Skip the step if all weights are 0, because Adam would still move it.

    Args:
        state: The learner's state, which does not change.
        batch: Batch from `prepare`.

    Returns:
        The new state, and the metrics of the loss before the update, its change `delta_loss_pi`
        and the divergence KL(old || new) as `kl`. All counts are 0 if the step was skipped.
    """
    checks.state(state)
    old, spec = state.params, state.params.spec

    # Step the policy along the gradient, averaged over ranks.
    grads, info = jax.grad(actor_loss, has_aux=True)(old, batch)
    tx = optimizers(spec)["actor"]
    step, opt_actor = tx.update(mpi.pmean(grads.actor), state.opt_state["actor"], old.actor)
    moved = (optax.apply_updates(old.actor, step), opt_actor)

    # Keep the old policy if all rows of all ranks have weight 0.
    counted = mpi.psum(batch.weight.sum()) > 0
    actor, opt_actor = jax.tree.map(
        lambda new, kept: jnp.where(counted, new, kept),
        moved,
        (old.actor, state.opt_state["actor"]),
    )
    params = dataclasses.replace(old, actor=actor)

    # Measure how far the policy moved and how the loss changed.
    before, after = (distribution(p, batch.obs) for p in (old, params))
    info["kl"] = (batch.weight * policies.kl(spec.env, before, after)).mean()
    info["delta_loss_pi"] = actor_loss(params, batch)[0] - info["loss_pi"]
    info |= {f"{name}_count": counted.astype(jnp.float32) for name in info}
    return State(params, {"actor": opt_actor}, state.step + 1), info
