r"""PQN: Q-learning on rollouts of many environments, without replay buffer and target network.

A network learns the values of all discrete actions. Its targets are lambda-returns of the best next
values: a mean of n-step returns for all n. They are computed once for each rollout, with the
parameters that collected it. Several passes over the rollout in minibatches then fit the network to
these targets. Layer normalisation keeps the values stable where DQN needs a target network.
Exploration is epsilon-greedy.

.. math::
    G_t = r_t + \gamma (1 - d_t) \,
        [(1 - \lambda_t) \max_a Q_\phi(s_{t+1}, a) + \lambda_t G_{t+1}], \qquad
    L(\phi) = \tfrac12 \mathbb{E}\,[w \, (G_t - Q_\phi(s_t, a_t))^2]

where :math:`\lambda_t = \lambda` inside an episode. It is 0 at the end of an episode, at a time
limit, and in the last row of the rollout. w is 1. This is Peng's Q(lambda), which does not cut at
exploratory actions.

Reference: Gallici et al., 2025, https://arxiv.org/abs/2407.04811.

Differences from the authors' code: the learning rate decays after each rollout, not after each
gradient step. A time limit bootstraps from its own last observation; there it counts as a
termination. In the last row but one of a rollout, that code takes the value of a wrong state.
"""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import optax
from flax import struct

from purerl import checks, moments, mpi, nets, returns
from purerl.buffers import minibatches
from purerl.fields import network_setting, setting
from purerl.nets import categorical, policies
from purerl.schedules import OnPolicySchedule
from purerl.spaces import Discrete, EnvSpec, require_discrete
from purerl.types import Metrics, PolicyBatch, Rollout


@dataclasses.dataclass(frozen=True)
class Spec:
    """Static settings of a PQN learner: hashable and compared by value.

    `critic` is a custom network, or None for an MLP. It maps observations `[B, *obs_shape]` to
    the values `[B, n]` of all actions.
    `optimizer` replaces RAdam; `purerl.nets.optimizers` has examples.
    """

    env: EnvSpec
    critic: Any = None
    optimizer: Any = None
    hidden: tuple[int, ...] = network_setting(
        (128, 128), "units of the hidden layers", flag="--hid"
    )
    activation: str = network_setting("relu", "activation of the hidden layers", flag="--act")
    initializer: str = network_setting("torch_uniform", "initializer of all layers", rare=True)
    torso: str | None = network_setting(None, "network for images: nature_cnn", rare=True)
    layer_norm: bool = network_setting(
        True, "normalise each layer before it is activated", rare=True
    )
    gamma: float = setting(0.99, "discount factor")
    lam: float = setting(0.95, "lambda of the targets: 0 uses one-step targets, 1 full returns")
    lr: float = setting(2.5e-4, "learning rate of the critic")
    lr_decay_updates: int | None = setting(
        None, "updates until the learning rate is 0; linear decay; none: constant"
    )
    train_q_iters: int = setting(4, "passes over the rollout")
    minibatch_size: int | None = setting(128, "rows of a minibatch; none: the whole rollout")
    max_grad_norm: float | None = setting(10.0, "largest gradient norm; none: no limit", rare=True)
    eps_start: float = setting(1.0, "exploration rate before the first update", rare=True)
    eps_end: float = setting(0.05, "exploration rate after eps_decay updates")
    eps_decay: int = setting(50, "updates until the exploration rate is eps_end; linear decay")
    reward_scale: float = setting(1.0, "factor of the rewards in the targets")
    normalise_obs: bool = setting(False, "normalise observations by running statistics")

    def __post_init__(self) -> None:
        """Check every field."""
        require_discrete("pqn", self.env)
        nets.check_networks(self, optimized=("critic",))
        checks.each(self, ("gamma", "lam", "eps_start", "eps_end"), checks.real, 0.0, 1.0)
        checks.each(self, ("lr", "reward_scale"), checks.positive)
        checks.each(self, ("max_grad_norm",), checks.positive, optional=True)
        checks.each(self, ("train_q_iters", "eps_decay"), checks.integer, 1)
        checks.each(self, ("minibatch_size", "lr_decay_updates"), checks.integer, 1, optional=True)
        checks.each(self, ("layer_norm", "normalise_obs"), checks.boolean)
        checks.hashable(self)


SCHEDULE = OnPolicySchedule(steps=500_000, num_envs=32, rollout_steps=2_048, num_test_episodes=10)
NOISE_DRAWS = 0


@struct.dataclass
class Params:
    """All arrays that the loss and `act` read; only the critic receives a gradient."""

    critic: Any
    epsilon: jax.Array  # () exploration rate, written by `update`
    spec: Spec = struct.field(pytree_node=False)
    obs_stats: moments.Moments | None = None  # of observations, if they are normalised


@struct.dataclass
class State:
    """Everything that `update` carries from one call to the next."""

    params: Params
    opt_state: dict[str, optax.OptState]
    step: jax.Array  # () int32, number of updates done


def networks(spec: Spec) -> nets.Networks:
    """Return the networks of a learner: None for the policy, and the critic."""
    style = (spec.hidden, spec.activation, spec.initializer, spec.torso, spec.layer_norm)
    critic = spec.critic or nets.DiscreteQFunction(spec.env.act_dim, *style)
    return nets.Networks(None, critic)


def optimizers(spec: Spec) -> dict[str, optax.GradientTransformation]:
    """Return the optimizer of the critic; RAdam lacks its rate, which may decay."""
    clip = optax.clip_by_global_norm(spec.max_grad_norm) if spec.max_grad_norm else optax.identity()
    radam = nets.find_custom(spec, "critic", spec.lr) or optax.scale_by_radam()
    return {"critic": optax.chain(clip, radam)}


def init(key: jax.Array, spec: Spec) -> State:
    """Initialise a learner.

    Args:
        key: PRNG key used for the initial parameters.
        spec: Static settings.
    """
    checks.key("key", key)
    checks.spec(spec, Spec)
    stats = moments.init_obs_stats(spec)
    obs = moments.normalise(spec.env.example().obs, stats)
    q = nets.init_params("critic", networks(spec).critic, key, (obs,), (spec.env.act_dim,))
    params = Params(q, jnp.float32(spec.eps_start), spec, stats)
    return State(params, {"critic": optimizers(spec)["critic"].init(q)}, jnp.zeros((), jnp.int32))


@jax.jit
def act(params: Params, obs: Any, key: jax.Array) -> jax.Array:
    """Sample random actions with probability epsilon, and greedy actions otherwise.

    Args:
        params: The learner's parameters.
        obs: Observations `[..., *obs_shape]`.
        key: PRNG key used for sampling.
    """
    checks.key("key", key)
    return policies.sample(checks.spec_of(params).env, distribution(params, obs), key)


@jax.jit
def policy(params: Params, obs: Any) -> jax.Array:
    """Return the greedy actions for `obs` `[..., *obs_shape]`."""
    return policies.mode(checks.spec_of(params).env, q_value(params, obs))


def q_value(params: Params, obs: Any) -> jax.Array:
    """Return the values `[..., n]` of all actions for observations `[..., *obs_shape]`."""
    spec = checks.spec_of(params)
    spec.env.check_obs(obs)
    obs = moments.normalise(obs, params.obs_stats)
    return nets.apply_rows(networks(spec).critic, params.critic, obs, spec.env.obs_shape)


def distribution(params: Params, obs: Any) -> jax.Array:
    r"""Return the log-probabilities `[..., n]` with which `act` samples.

    .. math::
        \pi(a | s) = (1 - \epsilon) \, [a = \arg\max_b Q_\phi(s, b)] + \epsilon / n
    """
    return _explore(params.epsilon, q_value(params, obs))


def _explore(epsilon: jax.Array, q: jax.Array) -> jax.Array:
    """Return the log-probabilities of actions with the values `[..., n]`."""
    number = q.shape[-1]
    greedy = jax.nn.one_hot(q.argmax(axis=-1), number)
    return jnp.log(((1.0 - epsilon) * greedy + epsilon / number).clip(1e-30))  # finite for 0, too


@jax.jit
def prepare(params: Params, rollout: Rollout) -> PolicyBatch:
    r"""Turn transitions `[T, N, ...]` into the rows that the loss needs, `[T*N, ...]`.

    .. math::
        G_t = r_t + \gamma (1 - d_t) \,
            [(1 - \lambda_t) \max_a Q_\phi(s_{t+1}, a) + \lambda_t G_{t+1}]

    The targets are in `ret`. The loss reads neither `val`, the value of the best action, nor `adv`,
    the target minus the value of the action taken, nor `logp`.
    """
    spec = checks.spec_of(params)
    spec.env.check_rollout(rollout)
    rew = spec.reward_scale * rollout.rew
    q, next_q = q_value(params, jnp.stack([rollout.obs, rollout.next_obs]))  # [T, N, n]
    ends = (rollout.terminated, rollout.truncated)
    ret = returns.lambda_returns(rew, next_q.max(axis=-1), *ends, spec.gamma, spec.lam)
    taken = categorical.chosen(q, _count_from_zero(spec, rollout.act))
    logp = policies.log_prob(spec.env, _explore(params.epsilon, q), rollout.act)
    weight = jnp.ones_like(ret)
    rows = (rollout.obs, rollout.act, ret - taken, ret, logp, q.max(axis=-1), weight)
    return PolicyBatch(*rows).flatten()._replace(rollout=rollout)


def _count_from_zero(spec: Spec, act: Any) -> jax.Array:
    """Return actions counted from 0."""
    start = spec.env.action.start if isinstance(spec.env.action, Discrete) else 0
    return jnp.asarray(act) - start


def critic_loss(params: Params, batch: PolicyBatch) -> tuple[jax.Array, Metrics]:
    r"""Return half the mean squared error of the values of the actions taken.

    .. math::
        L = \tfrac12 \mathbb{E}\,[w \, (G - Q_\phi(s, a))^2]

    Args:
        params: The learner's parameters.
        batch: obs `[B, *obs_shape]`, act, ret and weight `[B]`, from `prepare`. An action outside
            the space makes the loss NaN.

    Returns:
        The loss, and `loss_q`, `q` (mean value of the actions taken), `target` (mean).
    """
    spec = checks.spec_of(params)
    spec.env.check_policy_batch(batch)
    q = categorical.chosen(q_value(params, batch.obs), _count_from_zero(spec, batch.act))  # [B]
    loss_q = 0.5 * (batch.weight * jnp.square(batch.ret - q)).mean()
    info = {"q": (batch.weight * q).mean(), "target": (batch.weight * batch.ret).mean()}
    return loss_q, {"loss_q": loss_q} | info


def loss(params: Params, batch: PolicyBatch) -> tuple[jax.Array, Metrics]:
    """Return the critic loss, the only loss of PQN."""
    return critic_loss(params, batch)


@jax.jit
def update(state: State, batch: PolicyBatch) -> tuple[State, Metrics]:
    """Do `train_q_iters` passes over the rollout, with one step for each minibatch.

    Args:
        state: The learner's state, which does not change.
        batch: Batch from `prepare`, with a key if there are minibatches.

    Returns:
        The new state, and the metrics of the loss before the update, its change `delta_loss_q`, and
        `epsilon`.
    """
    # Check that the batch has what the settings need.
    checks.state(state)
    params, spec = state.params, state.params.spec
    spec.env.check_policy_batch(batch)
    minibatches.check(spec.minibatch_size, batch.ret.shape[0], batch.key)

    # Decay the learning rate linearly, if the setting is on.
    decay = spec.lr_decay_updates
    rate = 1.0 if decay is None else jnp.maximum(1.0 - state.step / decay, 0.0)
    rate = rate if nets.find_custom(spec, "critic", spec.lr) else -spec.lr * rate

    # Fit the critic to the targets, which do not change during the update.
    tx, rows = optimizers(spec)["critic"], batch._replace(key=None, rollout=None)

    def fit(now: tuple[Any, Any], rows: PolicyBatch) -> tuple[tuple[Any, Any], None]:
        critic, opt = now
        fitted = dataclasses.replace(params, critic=critic)
        grads, _ = jax.grad(critic_loss, has_aux=True)(fitted, rows)
        step, opt = tx.update(mpi.pmean(grads.critic), opt, critic)
        return (optax.apply_updates(critic, jax.tree.map(lambda s: rate * s, step)), opt), None

    def run_pass(number: jax.Array, now: tuple[Any, Any]) -> tuple[Any, Any]:
        return minibatches.scan(fit, now, rows, spec.minibatch_size, batch.key, number)

    now = params.critic, state.opt_state["critic"]
    critic, opt_critic = jax.lax.fori_loop(0, spec.train_q_iters, run_pass, now)

    # Measure how the loss changed. Devices average these numbers, and XLA may crash if it averages
    # during the passes, so the numbers must depend on the result of the passes.
    before, fitted = critic_loss(params, batch)[1], dataclasses.replace(params, critic=critic)
    delta = critic_loss(fitted, batch)[0] - before["loss_q"]

    # Decay the exploration rate linearly.
    updates = state.step + 1
    fraction = jnp.minimum(updates / spec.eps_decay, 1.0)
    epsilon = jnp.float32(spec.eps_start + fraction * (spec.eps_end - spec.eps_start))

    # Update the running statistics of the observations, if the setting is on.
    stats = moments.merge_obs(params.obs_stats, batch.obs)
    info = before | {"delta_loss_q": delta, "epsilon": epsilon}
    return State(Params(critic, epsilon, spec, stats), {"critic": opt_critic}, updates), info
