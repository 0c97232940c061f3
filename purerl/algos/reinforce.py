r"""REINFORCE: the policy gradient with the returns of whole episodes, and nothing else.

.. math::
    L(\theta) = -\mathbb{E}\,[w \, \log \pi_\theta(a | s) \, R], \qquad
    R = \sum_{t' \ge t} \gamma^{t' - t} r_{t'} \quad \text{or} \quad \sum_{t'} \gamma^{t'} r_{t'}

Reference: Williams, 1992, https://doi.org/10.1007/BF00992696.

The reward-to-go on the left leaves out rewards that came before the action, whose expected
contribution is zero; `reward_to_go=False` gives the whole episode's return on the right, as in the
first of Spinning Up's two example scripts (with `gamma=1.0, standardise=False`).

Where this differs from the paper: returns are standardised over the rows of all ranks, which stands
in for a baseline. There is no value function to bootstrap from, so the steps of an episode that the
rollout's end cuts off have weight w = 0 and are not learned from (all others share the weight they
lose), and a time limit counts as an end: both are biases, the price of having no value function.
By default every rollout starts with new episodes: of one that began before, only the late steps
would be learned from, which on CartPole-v1 made policies that had learned to balance forget it.
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
    """Static settings of a REINFORCE learner: hashable and compared by value.

    `actor` is a Flax module of your own, or None for an MLP: `actor(obs [B, *obs_shape])` ->
    logits `[B, n]`, or mean and log standard deviation `[B, A]` in units of [-1, 1].
    """

    env: EnvSpec
    actor: Any = None
    hidden: tuple[int, ...] = setting(
        (64, 64), "units of the hidden layers", flag="--hid", group="Network"
    )
    activation: str = setting("tanh", "of the hidden layers", flag="--act", group="Network")
    initializer: str = setting("torch_uniform", "of all layers", group="Network", rare=True)
    log_std_init: float = setting(
        -0.5, "first log std of Box actions, action range is [-1, 1]", group="Network", rare=True
    )
    gamma: float = setting(0.99, "discount factor")
    reward_to_go: bool = setting(
        True, "rewards after the action only; --no-...: the whole episode's"
    )
    standardise: bool = setting(True, "shift and scale returns to mean 0 and deviation 1")
    pi_lr: float = setting(1e-2, "learning rate of the policy")

    def __post_init__(self) -> None:
        """Check every field."""
        require_flat("reinforce", self.env)
        nets.check_style(self)
        checks.real("gamma", self.gamma, 0.0, 1.0)
        checks.real("log_std_init", self.log_std_init, -20.0, 2.0)
        checks.boolean("reward_to_go", self.reward_to_go)
        checks.boolean("standardise", self.standardise)
        checks.positive("pi_lr", self.pi_lr)
        nets.check_module("actor", self.actor, self.env)
        checks.hashable(self)


SCHEDULE = OnPolicySchedule(continue_episodes=False)
NOISE_DRAWS = 0


@struct.dataclass
class Params:
    """Every array the loss reads."""

    actor: Any
    spec: Spec = struct.field(pytree_node=False)


@struct.dataclass
class State:
    """What `update` carries from one call to the next."""

    params: Params
    opt_state: dict[str, optax.OptState]
    step: jax.Array  # () int32, number of updates done


def init(key: jax.Array, spec: Spec) -> State:
    """Make a fresh learner.

    Args:
        key: typed key of all initial parameters.
        spec: static settings.
    """
    checks.key("key", key)
    checks.spec(spec, Spec)
    obs = (spec.env.example().obs,)
    actor = nets.policy_network(spec)
    pi = nets.init_params("actor", actor, key, obs, nets.policy_shape(spec.env))
    opt_state = {"actor": optax.adam(spec.pi_lr).init(pi)}
    return State(Params(pi, spec), opt_state, jnp.zeros((), jnp.int32))


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
    return nets.apply_rows(nets.policy_network(spec), params.actor, obs, spec.env.obs_shape)


@jax.jit
def prepare(params: Params, rollout: Rollout) -> PolicyBatch:
    r"""Turn transitions `[T, N, ...]` into what the loss needs, `[T*N, ...]`.

    The returns stand in `ret`, and in `adv` as the loss takes them, standardised or not. Rows of
    an episode that does not end inside the rollout have weight 0; the others' mean is one over all
    ranks.
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
    logp = policies.log_prob(spec.env, _dist(params, rollout.obs), rollout.act)
    batch = PolicyBatch(rollout.obs, rollout.act, adv, ret, logp, none, weight)
    return batch.flatten()._replace(rollout=rollout)


def actor_loss(params: Params, batch: PolicyBatch) -> tuple[jax.Array, Metrics]:
    r"""Minus the return-weighted log-probability of the actions taken.

    .. math::
        L = -\mathbb{E}\,[w \, \log \pi_\theta(a | s) \, R]

    Args:
        params: of the learner, with the static spec.
        batch: obs `[B, *obs_shape]`, act, adv `[B]` (the returns) and weight `[B]`, as `prepare`
            gives them.

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


def loss(params: Params, batch: PolicyBatch) -> tuple[jax.Array, Metrics]:
    """Return the actor loss: there is no other."""
    return actor_loss(params, batch)


@jax.jit
def update(state: State, batch: PolicyBatch) -> tuple[State, Metrics]:
    """Do one step of the policy, or none if no row counts: Adam would move on by itself.

    Args:
        state: of the learner; unchanged and still usable afterwards.
        batch: as `prepare` gives it.

    Returns:
        The new state; the metrics of the loss before it, its change `delta_loss_pi`, and `kl`,
        the divergence KL(old || new); none of them is counted if no row counts.
    """
    checks.state(state)
    old, spec = state.params, state.params.spec
    grads, info = jax.grad(actor_loss, has_aux=True)(old, batch)
    tx = optax.adam(spec.pi_lr)
    step, opt_actor = tx.update(mpi.pmean(grads.actor), state.opt_state["actor"])
    moved = (optax.apply_updates(old.actor, step), opt_actor)
    counted = mpi.psum(batch.weight.sum()) > 0
    actor, opt_actor = jax.tree.map(
        lambda new, kept: jnp.where(counted, new, kept),
        moved,
        (old.actor, state.opt_state["actor"]),
    )
    params = dataclasses.replace(old, actor=actor)
    before, after = (_dist(p, batch.obs) for p in (old, params))
    info["kl"] = (batch.weight * policies.kl(spec.env, before, after)).mean()
    info["delta_loss_pi"] = actor_loss(params, batch)[0] - info["loss_pi"]
    info |= {f"{name}_count": counted.astype(jnp.float32) for name in info}
    return State(params, {"actor": opt_actor}, state.step + 1), info
