r"""DQN: deep Q-network, with a target network and, as an option, double Q-learning.

A network learns the values of all discrete actions from replayed transitions. Its targets come from
a copy that is replaced every `target_every` updates; acting is greedy but for a part epsilon.

.. math::
    y = r + \gamma (1 - d) \max_{a'} Q_{\phi'}(s', a'), \qquad
    L(\phi) = \mathbb{E}\,[\ell(Q_\phi(s, a) - y)]

with :math:`\ell` the Huber loss, or half the square. With `double=True` the online network chooses
the action that the target network values: :math:`Q_{\phi'}(s', \arg\max_{a'} Q_\phi(s', a'))`.

References: Mnih et al., 2015, https://doi.org/10.1038/nature14236, algorithm 1; van Hasselt et al.,
2016, https://arxiv.org/abs/1509.06461.

The defaults are for small control tasks, measured on CartPole-v1: seeds 0 to 4 hold the pole in two
evaluations in a row (475 of 500) within 25 000 steps. In trials with one seed a target that lags
and a small learning rate mattered: copied every 10 updates, values diverged; with 2.3e-3 the
network forgot what it had learned. Double Q-learning, which bounds overestimation for one more
forward pass, made no difference on this task. The published Atari settings are another world: batch
32, a copy every 10 000 updates, 1e6 frames of replay and of decay to 0.1, one update every four
actions, clipped rewards, RMSProp at 2.5e-4.

Where this differs from the papers: the decay of epsilon counts updates, not frames; `d` is
`terminated` alone, so a time limit never stops bootstrapping.
"""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import optax
from flax import struct

from purerl import checks, mpi, nets
from purerl.fields import setting
from purerl.schedules import OffPolicySchedule
from purerl.spaces import Discrete, EnvSpec, require_discrete
from purerl.types import Batch, Metrics


@dataclasses.dataclass(frozen=True)
class Spec:
    """Static settings of a DQN learner: hashable and compared by value.

    `critic` is a Flax module of your own, or None for an MLP:
    `critic(obs [B, *obs_shape]) -> [B, n]`, the values of all actions.
    """

    env: EnvSpec
    critic: Any = None
    hidden: tuple[int, ...] = setting(
        (256, 256), "units of the hidden layers", flag="--hid", group="Network"
    )
    activation: str = setting("relu", "of the hidden layers", flag="--act", group="Network")
    initializer: str = setting("torch_uniform", "of all layers", group="Network", rare=True)
    gamma: float = setting(0.99, "discount factor")
    lr: float = setting(3e-4, "learning rate")
    target_every: int = setting(100, "updates between two copies into the target network")
    double: bool = setting(True, "let the online network choose the action of the target")
    huber: bool = setting(
        True, "Huber loss of slope 1 beyond an error of 1; else half the square", rare=True
    )
    eps_start: float = setting(1.0, "part of random actions before the first update", rare=True)
    eps_end: float = setting(0.04, "part of random actions after eps_decay updates")
    eps_decay: int = setting(4_000, "updates over which it falls linearly")

    def __post_init__(self) -> None:
        """Check every field."""
        require_discrete("dqn", self.env)
        nets.check_style(self)
        for name in ("gamma", "eps_start", "eps_end"):
            checks.real(name, getattr(self, name), 0.0, 1.0)
        checks.positive("lr", self.lr)
        for name in ("target_every", "eps_decay"):
            checks.integer(name, getattr(self, name), 1)
        for name in ("double", "huber"):
            checks.boolean(name, getattr(self, name))
        nets.check_module("critic", self.critic, self.env)
        checks.hashable(self)


SCHEDULE = OffPolicySchedule(
    steps=50_000,
    steps_per_epoch=1_000,
    start_steps=1_000,
    update_after=1_000,
    batch_size=64,
    replay_size=100_000,
)
NOISE_DRAWS = 0


@struct.dataclass
class Params:
    """Every array the losses and acting read; the target receives no gradient."""

    critic: Any
    target_critic: Any
    epsilon: jax.Array  # () part of random actions, written by `update`
    spec: Spec = struct.field(pytree_node=False)


@struct.dataclass
class State:
    """What `update` carries from one call to the next."""

    params: Params
    opt_state: dict[str, optax.OptState]
    step: jax.Array  # () int32, number of updates done


def _network(spec: Spec) -> Any:
    style = (spec.hidden, spec.activation, spec.initializer)
    return spec.critic or nets.DiscreteQFunction(spec.env.act_dim, *style)


def _optimizer(spec: Spec) -> optax.GradientTransformation:
    return optax.adam(spec.lr)


def init(key: jax.Array, spec: Spec) -> State:
    """Make a fresh learner; the target is a copy of the online network.

    Args:
        key: typed key of all initial parameters.
        spec: static settings.
    """
    checks.key("key", key)
    checks.spec(spec, Spec)
    obs = spec.env.example().obs
    q = nets.init_params("critic", _network(spec), key, (obs,), (spec.env.act_dim,))
    params = Params(q, jax.tree.map(jnp.copy, q), jnp.float32(spec.eps_start), spec)
    return State(params, {"critic": _optimizer(spec).init(q)}, jnp.zeros((), jnp.int32))


@jax.jit
def act(params: Params, obs: Any, key: jax.Array) -> jax.Array:
    """Return uniform actions with probability epsilon, greedy ones otherwise.

    Args:
        params: of the learner.
        obs: `[..., *obs_shape]`.
        key: of the choice and of the random actions.
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


def _greedy(params: Params, obs: Any) -> jax.Array:
    spec = params.spec
    spec.env.check_obs(obs)
    q = nets.apply_rows(_network(spec), params.critic, obs, spec.env.obs_shape)  # [..., n]
    return q.argmax(axis=-1).astype(jnp.int32)


def _start(spec: Spec) -> int:
    """Return the number of the first action."""
    assert isinstance(spec.env.action, Discrete)
    return spec.env.action.start


def critic_loss(params: Params, batch: Batch) -> tuple[jax.Array, Metrics]:
    r"""Mean Huber loss, or half the squared error, of the values of the actions taken.

    .. math::
        y = r + \gamma (1 - d) \max_{a'} Q_{\phi'}(s', a'), \qquad
        L = \mathbb{E}\,[\ell(Q_\phi(s, a) - y)]

    Args:
        params: online and target parameters, with the static spec.
        batch: obs `[B, *obs_shape]`, act `[B]`, rew `[B]`, next_obs, terminated `[B]`. An action
            that the space does not have makes the loss NaN.

    Returns:
        The loss, and `loss_q`, `q` (mean of the values of the actions taken), `target`.
    """
    spec = checks.spec_of(params)
    spec.env.check_batch(batch)
    critic = _network(spec)
    next_q = nets.apply(critic, params.target_critic, batch.next_obs)  # [B, n]
    chooser = nets.apply(critic, params.critic, batch.next_obs) if spec.double else next_q  # [B, n]
    next_value = nets.categorical.chosen(next_q, chooser.argmax(axis=1))  # [B]
    target = batch.rew + spec.gamma * (1.0 - batch.terminated) * next_value  # [B]
    target = jax.lax.stop_gradient(target)
    values = nets.apply(critic, params.critic, batch.obs)  # [B, n]
    q = nets.categorical.chosen(values, jnp.asarray(batch.act) - _start(spec))  # [B]
    penalty = optax.losses.huber_loss if spec.huber else optax.losses.l2_loss
    value = penalty(q, target).mean()
    return value, {"loss_q": value, "q": q.mean(), "target": target.mean()}


def loss(params: Params, batch: Batch) -> tuple[jax.Array, Metrics]:
    """Return the critic's loss: there is no other."""
    return critic_loss(params, batch)


@jax.jit
def update(state: State, batch: Batch) -> tuple[State, Metrics]:
    """Do one step of the network; copy it into the target every `target_every` updates.

    The first copy follows update number `target_every`. Under `vmap` the copy becomes a select.

    Args:
        state: of the learner; unchanged and still usable afterwards.
        batch: as `critic_loss` takes it.

    Returns:
        The new state, and the metrics of the loss with `epsilon`.
    """
    checks.state(state)
    params, spec = state.params, state.params.spec
    grads, info = jax.grad(critic_loss, has_aux=True)(params, batch)
    grad = mpi.pmean(grads.critic)
    step, opt_critic = _optimizer(spec).update(grad, state.opt_state["critic"], params.critic)
    critic = optax.apply_updates(params.critic, step)
    updates = state.step + 1
    target_critic = jax.lax.cond(
        updates % spec.target_every == 0, lambda: critic, lambda: params.target_critic
    )
    part = jnp.minimum(updates / spec.eps_decay, 1.0)
    epsilon = jnp.float32(spec.eps_start + part * (spec.eps_end - spec.eps_start))
    params = Params(critic, target_critic, epsilon, spec)
    return State(params, {"critic": opt_critic}, updates), info | {"epsilon": epsilon}
