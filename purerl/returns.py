r"""Returns and advantages: pure functions on arrays `[T]` or `[T, N]`.

Time is the first axis. A step with `terminated` has no next value. A step with `truncated` cuts
its episode, and so does the last row. `next_val` contains the value of each step's true successor,
so a cut bootstraps from the state in which it happened. `gamma` is one number, or an array with one
number for each reward. Most functions are a linear recursion backwards in time,

.. math::
    x_t = b_t + w_t \, x_{t+1}, \qquad x_T = 0,

with weights :math:`w_t` that are zero where an episode ends.
"""

from typing import Any

import jax
import jax.numpy as jnp

from purerl import checks


def reward_to_go(rew: Any, next_val: Any, terminated: Any, truncated: Any, gamma: Any) -> jax.Array:
    r"""Return the discounted sum of the rewards from each step on, bootstrapped at cuts.

    .. math::
        R_t = r_t + \gamma \begin{cases} 0 & \text{terminated} \\
            V(s_{t+1}) & \text{cut} \\ R_{t+1} & \text{otherwise} \end{cases}

    Example:
        >>> no, yes = jnp.zeros(3), jnp.array([0.0, 0.0, 1.0])
        >>> reward_to_go(jnp.array([1.0, 2.0, 3.0]), no, yes, no, 0.9).round(2).tolist()
        [5.230000019073486, 4.699999809265137, 3.0]
    """
    return lambda_returns(rew, next_val, terminated, truncated, gamma, 1.0)


def lambda_returns(
    rew: Any, next_val: Any, terminated: Any, truncated: Any, gamma: Any, lam: float
) -> jax.Array:
    r"""Return lambda-returns: an exponentially weighted mean of n-step returns for all n.

    .. math::
        G_t = r_t + \gamma (1 - d_t) \, [(1 - \lambda_t) V(s_{t+1}) + \lambda_t G_{t+1}],

    with :math:`\lambda_t = \lambda` inside an episode and 0 where it is cut.
    """
    _check(rew=rew, next_val=next_val, terminated=terminated, truncated=truncated, gamma=gamma)
    discount = gamma * (1.0 - terminated)
    mix = lam * _continues(terminated, truncated)
    return _backward(rew + discount * (1.0 - mix) * next_val, discount * mix)


def gae(
    rew: Any, val: Any, next_val: Any, terminated: Any, truncated: Any, gamma: Any, lam: float
) -> jax.Array:
    r"""Return generalised advantage estimates (GAE).

    .. math::
        \delta_t = r_t + \gamma (1 - d_t) V(s_{t+1}) - V(s_t), \qquad
        A_t = \delta_t + \gamma \lambda A_{t+1},

    where the recursion restarts at the end of each episode. Reference: Schulman et al., 2016,
    https://arxiv.org/abs/1506.02438.
    """
    _check(
        rew=rew, val=val, next_val=next_val, terminated=terminated, truncated=truncated, gamma=gamma
    )
    delta = rew + gamma * (1.0 - terminated) * next_val - val
    return _backward(delta, gamma * lam * _continues(terminated, truncated))


def n_step_returns(
    rew: Any, next_val: Any, terminated: Any, truncated: Any, gamma: Any, n: int
) -> jax.Array:
    r"""Return n-step returns: the sum of `n` rewards and the value of the state after them.

    .. math::
        G_t = \sum_{k < m} \gamma^k r_{t+k} + \gamma^m (1 - d_{t+m-1}) V(s_{t+m}),

    where m is n, or less if the episode or the rollout ends earlier.
    """
    checks.integer("n", n, 1)
    _check(rew=rew, next_val=next_val, terminated=terminated, truncated=truncated, gamma=gamma)
    discount = gamma * (1.0 - terminated)
    continues = _continues(terminated, truncated)
    ret = one = rew + discount * next_val
    for _ in range(n - 1):
        later = jnp.concatenate([ret[1:], ret[-1:]])  # return of the next step; the last is unused
        ret = jnp.where(continues, rew + discount * later, one)
    return ret


def episode_return(rew: Any, terminated: Any, truncated: Any, gamma: Any) -> jax.Array:
    """Return, at each step, the discounted return of its whole episode within the rows.

    Example:
        >>> end = jnp.array([0.0, 1.0, 0.0])
        >>> episode_return(jnp.array([1.0, 2.0, 4.0]), end, 0 * end, 0.5).tolist()
        [2.0, 2.0, 4.0]
    """
    _check(rew=rew, terminated=terminated, truncated=truncated, gamma=gamma)
    to_go = reward_to_go(rew, jnp.zeros_like(rew), terminated, truncated, gamma)
    first = jnp.concatenate([jnp.ones_like(to_go[:1]), _ends(terminated, truncated)[:-1]])

    def hold(held: jax.Array, row: Any) -> tuple[jax.Array, jax.Array]:
        held = jnp.where(row[0], row[1], held)
        return held, held

    return jax.lax.scan(hold, jnp.zeros_like(to_go[0]), (first, to_go))[1]


def vtrace(
    rew: Any,
    val: Any,
    next_val: Any,
    terminated: Any,
    truncated: Any,
    rho: Any,
    gamma: Any,
    lam: float = 1.0,
    clip_rho: float = 1.0,
    clip_c: float = 1.0,
) -> tuple[jax.Array, jax.Array]:
    r"""Return V-trace targets and advantages for off-policy data.

    .. math::
        \delta_t = \bar\rho_t (r_t + \gamma (1 - d_t) V(s_{t+1}) - V(s_t)), \qquad
        v_t = V(s_t) + \delta_t + \gamma c_t (v_{t+1} - V(s_{t+1})),

    with :math:`\bar\rho_t = \min(\bar\rho, \rho_t)` and :math:`c_t = \lambda \min(\bar c, \rho_t)`.
    Reference: Espeholt et al., 2018, https://arxiv.org/abs/1802.01561.

    Args:
        rew: Rewards.
        val: Values of the states.
        next_val: Values of the successors.
        terminated: Flags of steps without a next value.
        truncated: Flags of steps that cut their episode.
        rho: Probability ratios of the actions, policy over behaviour.
        gamma: Discount factor.
        lam: Decay of the traces.
        clip_rho: Upper limit of the ratios in the errors, which sets the policy that is evaluated.
        clip_c: Upper limit of the ratios in the traces, which limits how far errors travel.

    Returns:
        The targets, and the advantages :math:`\bar\rho_t (r_t + \gamma v_{t+1} - V(s_t))`.
    """
    _check(
        rew=rew,
        val=val,
        next_val=next_val,
        rho=rho,
        terminated=terminated,
        truncated=truncated,
        gamma=gamma,
    )
    discount, continues = gamma * (1.0 - terminated), _continues(terminated, truncated)
    bounded = jnp.minimum(clip_rho, rho)
    delta = bounded * (rew + discount * next_val - val)
    error = _backward(delta, discount * continues * lam * jnp.minimum(clip_c, rho))
    later = next_val + continues * jnp.concatenate([error[1:], error[-1:]])
    return val + error, bounded * (rew + discount * later - val)


def retrace(
    rew: Any,
    q: Any,
    next_val: Any,
    terminated: Any,
    truncated: Any,
    rho: Any,
    gamma: Any,
    lam: float = 1.0,
) -> jax.Array:
    r"""Return Retrace targets for action values.

    .. math::
        Q^{ret}_t = r_t + \gamma (1 - d_t) \,
            [V(s_{t+1}) + \lambda \min(1, \rho_{t+1}) (Q^{ret}_{t+1} - Q(s_{t+1}, a_{t+1}))],

    without the last term at a cut of the episode. Reference: Munos et al., 2016,
    https://arxiv.org/abs/1606.02647.

    Args:
        rew: Rewards.
        q: Values of the actions taken.
        next_val: Expected values of the successors under the policy.
        terminated: Flags of steps without a next value.
        truncated: Flags of steps that cut their episode.
        rho: Probability ratios of the actions, policy over behaviour.
        gamma: Discount factor.
        lam: Decay of the traces.
    """
    _check(
        rew=rew,
        q=q,
        next_val=next_val,
        rho=rho,
        terminated=terminated,
        truncated=truncated,
        gamma=gamma,
    )
    trace = lam * jnp.minimum(1.0, rho)
    trace = jnp.concatenate([trace[1:], trace[-1:]]) * _continues(terminated, truncated)
    later = jnp.concatenate([jnp.asarray(q)[1:], jnp.asarray(q)[-1:]])
    discount = gamma * (1.0 - terminated)
    return _backward(rew + discount * (next_val - trace * later), discount * trace)


def forward_sum(rew: Any, terminated: Any, truncated: Any, gamma: Any) -> jax.Array:
    r"""Return the discounted sum of the rewards of an episode up to each of its steps.

    The sum starts at the first row, so earlier steps of the same episode do not count.

    .. math::
        S_t = r_t + \gamma \, (1 - e_{t-1}) \, S_{t-1}
    """
    _check(rew=rew, terminated=terminated, truncated=truncated, gamma=gamma)
    before = jnp.concatenate([jnp.ones_like(rew[:1]), _ends(terminated, truncated)[:-1]])
    weight = gamma * (1.0 - before)
    return _backward(jnp.asarray(rew)[::-1], weight[::-1])[::-1]


def _backward(bias: jax.Array, weight: Any) -> jax.Array:
    """Solve x_t = bias_t + weight_t x_{t+1} for all t, in about log T vectorised steps."""

    def join(late: Any, early: Any) -> Any:
        return early[0] + early[1] * late[0], early[1] * late[1]

    pair = (bias.astype(jnp.float32), jnp.broadcast_to(weight, bias.shape).astype(jnp.float32))
    return jax.lax.associative_scan(join, pair, reverse=True)[0]


def _ends(terminated: Any, truncated: Any) -> jax.Array:
    """Return 1 where an episode ends, else 0."""
    return jnp.logical_or(terminated, truncated).astype(jnp.float32)


def _continues(terminated: Any, truncated: Any) -> jax.Array:
    """Return 1 where the next row is the next step of the same episode, else 0."""
    return (1.0 - _ends(terminated, truncated)).at[-1].set(0.0)


def _check(**arrays: Any) -> None:
    """Refuse arrays of different shapes, because they would broadcast without an error."""
    gamma = jnp.shape(arrays.pop("gamma", 0.0))
    for name, array in arrays.items():
        if not hasattr(array, "shape"):
            raise ValueError(f"{name} must be an array [T] or [T, N], got {type(array)}.")
    shape = arrays["rew"].shape
    if len(shape) not in (1, 2) or not shape[0]:
        raise ValueError(f"rew must have shape [T] or [T, N] with T of at least 1, got {shape}.")
    if gamma not in ((), shape):
        raise ValueError(f"gamma must be a number or have the shape of rew, {shape}, got {gamma}.")
    for name, array in arrays.items():
        if jnp.shape(array) != shape:
            got = jnp.shape(array)
            raise ValueError(f"{name} must have the same shape as rew, {shape}, got {got}.")
