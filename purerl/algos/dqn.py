r"""DQN: learn the value of every discrete action, and choose the action with the highest value.

A deep Q-network learns the values from transitions in the replay buffer. Its targets come from a
target network, a copy that is renewed every `target_every` updates. Exploration is epsilon-greedy:
a random action with probability epsilon, the best action otherwise.

.. math::
    y = r + \gamma (1 - d) \max_{a'} Q_{\phi'}(s', a'), \qquad
    L(\phi) = \mathbb{E}\,[\ell(Q_\phi(s, a) - y)]

where :math:`\ell` is the Huber loss, or half the square. Double Q-learning (`double=True`) chooses
the action with the online network and takes its value from the target network:
:math:`Q_{\phi'}(s', \arg\max_{a'} Q_\phi(s', a'))` replaces the maximum.

References: Mnih et al., 2015, https://doi.org/10.1038/nature14236, algorithm 1; van Hasselt et al.,
2016, https://arxiv.org/abs/1509.06461.

The defaults are for small control tasks. On CartPole-v1, seeds 0 to 4 reach 475 of 500 in two
consecutive evaluations within 25 000 steps. In trials with one seed, two settings mattered. With a
copy every 10 updates the values diverged, and with a learning rate of 2.3e-3 the network forgot
what it had learned. Double Q-learning limits overestimation at the cost of one more forward pass,
and made no difference on this task. The published Atari settings are very different: batch 32, a
copy every 10 000 updates, and one update every four actions. They use a replay buffer of 1e6
frames, decay epsilon to 0.1 over 1e6 frames, clip rewards, and use RMSProp at 2.5e-4.

Differences from the papers: the decay of epsilon counts updates, not frames. `d` is `terminated`,
not `truncated`, so a time limit never stops bootstrapping.
"""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import optax
from flax import struct

from purerl import checks, moments, mpi, nets
from purerl.fields import network_setting, setting
from purerl.schedules import OffPolicySchedule
from purerl.spaces import Discrete, EnvSpec, require_discrete
from purerl.types import Batch, Metrics


@dataclasses.dataclass(frozen=True)
class Spec:
    """Static settings of a DQN learner: hashable and compared by value.

    `critic` is a custom network, or None for an MLP. It maps observations `[B, *obs_shape]` to
    the values `[B, n]` of all actions.
    `optimizer` replaces Adam; `purerl.nets.optimizers` has examples.
    """

    env: EnvSpec
    critic: Any = None
    optimizer: Any = None
    hidden: tuple[int, ...] = network_setting(
        (256, 256), "units of the hidden layers", flag="--hid"
    )
    activation: str = network_setting("relu", "activation of the hidden layers", flag="--act")
    initializer: str = network_setting("torch_uniform", "initializer of all layers", rare=True)
    torso: str | None = network_setting(None, "network for images: nature_cnn", rare=True)
    gamma: float = setting(0.99, "discount factor")
    lr: float = setting(3e-4, "learning rate of the critic")
    target_every: int = setting(100, "updates between copies to the target network")
    double: bool = setting(True, "double Q-learning: online network chooses the target's action")
    huber: bool = setting(
        True, "Huber loss, slope 1 beyond an error of 1; no: half the square", rare=True
    )
    eps_start: float = setting(1.0, "exploration rate before the first update", rare=True)
    eps_end: float = setting(0.04, "exploration rate after eps_decay updates")
    eps_decay: int = setting(4_000, "updates until the exploration rate is eps_end; linear decay")
    clip_targets: bool = setting(
        False, "clip targets to [-1/(1-gamma), 0], for rewards of -1 and 0", rare=True
    )
    normalise_obs: bool = setting(False, "normalise observations by running statistics")

    def __post_init__(self) -> None:
        """Check every field."""
        require_discrete("dqn", self.env)
        nets.check_networks(self, optimized=("critic",))
        checks.each(self, ("gamma", "eps_start", "eps_end"), checks.real, 0.0, 1.0)
        checks.positive("lr", self.lr)
        checks.each(self, ("target_every", "eps_decay"), checks.integer, 1)
        checks.each(self, ("double", "huber", "normalise_obs"), checks.boolean)
        checks.target_clipping(self)
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
    """All arrays that the loss and `act` read; the target receives no gradient."""

    critic: Any
    target_critic: Any
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
    style = (spec.hidden, spec.activation, spec.initializer, spec.torso)
    critic = spec.critic or nets.DiscreteQFunction(spec.env.act_dim, *style)
    return nets.Networks(None, critic)


def optimizers(spec: Spec) -> dict[str, optax.GradientTransformation]:
    """Return the optimizer of each group of parameters."""
    return {"critic": nets.make_optimizer(spec, "critic", spec.lr)}


def init(key: jax.Array, spec: Spec) -> State:
    """Initialise a learner whose target is a copy of the online network.

    Args:
        key: PRNG key used for the initial parameters.
        spec: Static settings.
    """
    checks.key("key", key)
    checks.spec(spec, Spec)
    stats = moments.init_obs_stats(spec)
    obs = moments.normalise(spec.env.example().obs, stats)
    q = nets.init_params("critic", networks(spec).critic, key, (obs,), (spec.env.act_dim,))
    params = Params(q, jax.tree.map(jnp.copy, q), jnp.float32(spec.eps_start), spec, stats)
    return State(params, {"critic": optimizers(spec)["critic"].init(q)}, jnp.zeros((), jnp.int32))


@jax.jit
def act(params: Params, obs: Any, key: jax.Array) -> jax.Array:
    """Return random actions with probability epsilon, and greedy actions otherwise.

    Args:
        params: The learner's parameters.
        obs: Observations `[..., *obs_shape]`.
        key: PRNG key used for the choice and for the random actions, which are uniform.
    """
    checks.key("key", key)
    spec = checks.spec_of(params)
    greedy = _greedy(params, obs)
    key_choice, key_action = jax.random.split(key)
    explore = jax.random.uniform(key_choice, greedy.shape, jnp.float32) < params.epsilon
    random = jax.random.randint(key_action, greedy.shape, 0, spec.env.act_dim, jnp.int32)
    return _start(spec) + jnp.where(explore, random, greedy)


@jax.jit
def policy(params: Params, obs: Any) -> jax.Array:
    """Return the greedy actions for `obs` `[..., *obs_shape]`."""
    spec = checks.spec_of(params)
    return _start(spec) + _greedy(params, obs)


def q_value(params: Params, obs: Any) -> jax.Array:
    """Return the values `[..., n]` of all actions for observations `[..., *obs_shape]`."""
    spec = checks.spec_of(params)
    spec.env.check_obs(obs)
    obs = moments.normalise(obs, params.obs_stats)
    return nets.apply_rows(networks(spec).critic, params.critic, obs, spec.env.obs_shape)


def _greedy(params: Params, obs: Any) -> jax.Array:
    """Return the actions with the highest values, counted from 0."""
    return q_value(params, obs).argmax(axis=-1).astype(jnp.int32)


def _start(spec: Spec) -> int:
    """Return the smallest action."""
    return spec.env.action.start if isinstance(spec.env.action, Discrete) else 0


def critic_loss(params: Params, batch: Batch) -> tuple[jax.Array, Metrics]:
    r"""Return the mean error of the values of the actions taken: Huber loss, or half the square.

    .. math::
        y = r + \gamma (1 - d) \max_{a'} Q_{\phi'}(s', a'), \qquad
        L = \mathbb{E}\,[\ell(Q_\phi(s, a) - y)]

    With `clip_targets`, :math:`y` is clipped to :math:`[-1 / (1 - \gamma), 0]`.

    Args:
        params: The learner's parameters, online and target.
        batch: obs `[B, *obs_shape]`, act `[B]`, rew `[B]`, next_obs and terminated `[B]`. An
            action outside the space makes the loss NaN.

    Returns:
        The loss, and `loss_q`, `q` (mean value of the actions taken), `target` (mean).
    """
    spec = checks.spec_of(params)
    spec.env.check_batch(batch)
    next_obs = moments.normalise(batch.next_obs, params.obs_stats)
    next_q = nets.apply(networks(spec).critic, params.target_critic, next_obs)  # [B, n]
    chooser = q_value(params, batch.next_obs) if spec.double else next_q  # [B, n]
    next_value = nets.categorical.chosen(next_q, chooser.argmax(axis=1))  # [B]
    target = batch.rew + spec.gamma * (1.0 - batch.terminated) * next_value  # [B]
    if spec.clip_targets:  # the values of all policies if rewards are -1 and 0
        target = target.clip(-1.0 / (1.0 - spec.gamma), 0.0)
    target = jax.lax.stop_gradient(target)
    q = nets.categorical.chosen(
        q_value(params, batch.obs), jnp.asarray(batch.act) - _start(spec)
    )  # [B]
    penalty = optax.losses.huber_loss if spec.huber else optax.losses.l2_loss
    loss_q = penalty(q, target).mean()
    return loss_q, {"loss_q": loss_q, "q": q.mean(), "target": target.mean()}


def loss(params: Params, batch: Batch) -> tuple[jax.Array, Metrics]:
    """Return the critic loss, the only loss of DQN."""
    return critic_loss(params, batch)


@jax.jit
def update(state: State, batch: Batch) -> tuple[State, Metrics]:
    """Update the network, and copy it to the target every `target_every` updates.

    The first copy follows update number `target_every`. Under `vmap` the copy is a select.

    Args:
        state: The learner's state, which does not change.
        batch: Batch with the fields that `critic_loss` reads.

    Returns:
        The new state, and the metrics of the loss, with `epsilon`.
    """
    checks.state(state)
    params, spec = state.params, state.params.spec

    # Step the network towards the target.
    grads, info = jax.grad(critic_loss, has_aux=True)(params, batch)
    grad = mpi.pmean(grads.critic)
    tx = optimizers(spec)["critic"]
    step, opt_critic = tx.update(grad, state.opt_state["critic"], params.critic)
    critic = optax.apply_updates(params.critic, step)

    # Copy the network to the target if a copy is due.
    updates = state.step + 1
    target_critic = jax.lax.cond(
        updates % spec.target_every == 0, lambda: critic, lambda: params.target_critic
    )

    # Decay the exploration rate linearly.
    fraction = jnp.minimum(updates / spec.eps_decay, 1.0)
    epsilon = jnp.float32(spec.eps_start + fraction * (spec.eps_end - spec.eps_start))

    # Update the running statistics of the observations, if the setting is on.
    stats = moments.merge_obs(params.obs_stats, batch.obs)
    params = Params(critic, target_critic, epsilon, spec, stats)
    return State(params, {"critic": opt_critic}, updates), info | {"epsilon": epsilon}
