r"""Return replay: a replay buffer whose batches have n-step returns and scaled rewards.

**n-step returns.** The target of a step looks n steps ahead instead of one:

.. math::
    y_t = \sum_{i=0}^{k-1} \gamma^i r_{t+i} + \gamma^k (1 - d_{t+k-1}) V(s_{t+k}), \qquad k \le n

k is smaller than n if the episode ends, or if its later steps are not stored yet. Losses compute
:math:`r + \gamma (1 - d) V(s')`. So the batch gets the sum as reward and :math:`s_{t+k}` as next
observation. `terminated` becomes the number :math:`1 - \gamma^{k-1} (1 - d_{t+k-1})`, because a
discount is a chance of ending. No loss needs to know n. A custom loss must multiply by
`1.0 - batch.terminated` and must not use it as a condition.

**Scaled rewards.** Rewards are divided by :math:`\sqrt{\mathrm{Var}(G) + 10^{-8}}` when they are
sampled. G is the running discounted return of each environment:

.. math::
    G_t = r_t + \gamma (1 - e_{t-1}) G_{t-1}

where e is 1 if the step ended an episode, by termination or truncation. The variance is over all
steps so far. After a million steps, the oldest ones lose their weight.

References: Sutton, 1988 (n-step returns); Palenicek et al., 2026 (XQC, scaled rewards).

The rows are a ring in order of arrival, as in `replay`. The rows of N environments alternate, so
the next step of an environment is N rows later. As in `replay`, no function is jitted, and a loop
should donate the buffer to `add`. Plain replay buffers pass through all functions unchanged.
"""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from purerl import checks, mpi
from purerl.buffers import replay

EPSILON = 1e-8  # added to the variance of the returns
MOST_STEPS = 1_000_000.0  # steps after which the variance forgets


@struct.dataclass
class ReturnReplay(replay.Replay):
    """State of a return replay buffer for N environments, whose rows alternate."""

    ret: jax.Array  # [N] float32, discounted return of each environment's episode so far
    moments: jax.Array  # [3] float32, mean and variance of all such returns, and their number
    gamma: float = struct.field(pytree_node=False)
    n_step: int = struct.field(pytree_node=False)
    scale_rewards: bool = struct.field(pytree_node=False)


def init(
    example: Any,
    capacity: int,
    gamma: float,
    num_envs: int,
    n_step: int = 1,
    scale_rewards: bool = False,
) -> ReturnReplay:
    """Allocate an empty return replay buffer.

    Args:
        example: One `Transition` or `ExtendedTransition`, such as `EnvSpec.example()`.
        capacity: Largest number of rows, over all environments.
        gamma: Discount factor of the losses.
        num_envs: Number of environments N.
        n_step: Most steps of a return.
        scale_rewards: Whether to divide rewards by the standard deviation of returns.
    """
    checks.integer("num_envs", num_envs, 1)
    checks.integer("n_step", n_step, 1, 2**30 // num_envs)
    checks.real("gamma", gamma, 0.0, 1.0)
    checks.boolean("scale_rewards", scale_rewards)
    ring = replay.init(example, capacity)
    moments = jnp.array([0.0, 1.0, 0.0], jnp.float32)
    ret = jnp.zeros(num_envs, jnp.float32)
    rows = (ring.data, ring.position, ring.stored)
    return ReturnReplay(*rows, ret, moments, gamma, n_step, scale_rewards)


def add(buffer: Any, block: Any, count: Any = None) -> Any:
    """Add the first `count` rows of a block. They replace the oldest rows of a full buffer.

    Args:
        buffer: Replay buffer.
        block: Rows `[T*N, ...]`: a row of each environment, then the next row of each.
        count: Number of valid rows, a multiple of N, or None for all of them.
    """
    return track_returns(replay.add(buffer, block, count), block, count)


def track_returns(buffer: Any, block: Any, count: Any = None) -> Any:
    """Continue the returns of all environments by the rows of a block, and update their variance.

    The arguments are those of `add`, which calls this function.
    """
    if not (isinstance(buffer, ReturnReplay) and buffer.scale_rewards):
        return buffer
    number, given = len(buffer.ret), len(block.rew)
    if given % number:
        raise ValueError(
            f"a block must have a row of each of the {number} environments per step, got {given} "
            f"rows. Make num_envs of the buffer that of the loop."
        )
    ended = jnp.asarray(block.terminated) | jnp.asarray(block.truncated)
    valid = jnp.arange(given) < (given if count is None else count)
    steps = [x.reshape(-1, number) for x in (jnp.asarray(block.rew), ended, valid)]

    def step(ret: jax.Array, row: Any) -> tuple[jax.Array, jax.Array]:
        rew, ended, valid = row
        total = rew + buffer.gamma * ret
        return jnp.where(valid, jnp.where(ended, 0.0, total), ret), total

    ret, returns = jax.lax.scan(step, buffer.ret, steps)  # [T, N]
    moments = _merge(buffer.moments, returns, steps[2])
    return dataclasses.replace(buffer, ret=ret, moments=moments)


def sample(buffer: replay.Replay, key: jax.Array, batch_size: int) -> Any:
    """Sample rows as `replay.sample` does, with n-step returns and scaled rewards."""
    return take(buffer, *replay.draw_indices(buffer, key, batch_size))


def take(buffer: replay.Replay, index: jax.Array, key: jax.Array) -> Any:
    """Return the batch of the rows at the indices `[B]`.

    Values of `info` and `act` are those of the first step of each return.
    """
    batch = replay.take(buffer, index, key)
    if not isinstance(buffer, ReturnReplay):
        return batch
    if buffer.n_step > 1:
        batch = _look_ahead(buffer, index, batch)
    if buffer.scale_rewards:
        batch = batch._replace(rew=batch.rew / read_scale(buffer))
    return batch


def read_scale(buffer: Any) -> jax.Array | None:
    """Return the number by which rewards are divided; None if they are not scaled."""
    if not (isinstance(buffer, ReturnReplay) and buffer.scale_rewards):
        return None
    return jnp.sqrt(buffer.moments[1] + EPSILON)


def merge_ranks(buffer: Any) -> Any:
    """Return a buffer to sample from, whose variance is over the environments of all ranks.

    Each rank continues with its own buffer. All ranks must have added equally many rows.
    """
    if read_scale(buffer) is None:
        return buffer
    mean, var, rows = buffer.moments
    whole = mpi.pmean(mean)
    var = mpi.pmean(var + jnp.square(mean - whole))
    return dataclasses.replace(buffer, moments=jnp.stack([whole, var, rows]))


def cut_episodes(buffer: Any, envs: Any) -> Any:
    """Truncate the stored episodes in progress of some environments, which start new ones.

    Args:
        buffer: Replay buffer whose last rows are one of each environment.
        envs: Indices of the environments.
    """
    if not isinstance(buffer, ReturnReplay):
        return buffer
    envs = jnp.asarray(envs, jnp.int32)
    last = (buffer.position - len(buffer.ret) + envs) % len(buffer.data.rew)
    truncated = buffer.data.truncated.at[last].set(True)
    data = buffer.data._replace(truncated=truncated)
    return dataclasses.replace(buffer, data=data, ret=buffer.ret.at[envs].set(0.0))


def _look_ahead(buffer: ReturnReplay, index: jax.Array, batch: Any) -> Any:
    """Return a batch with the rewards of up to n steps, and what follows the last of them."""
    data, capacity, n = buffer.data, len(buffer.data.rew), buffer.n_step
    ahead = len(buffer.ret) * np.arange(n, dtype=np.int32)  # rows from the first step to each
    place = (index[:, None] + ahead[None]) % capacity  # [B, n]
    age = (index - buffer.position + buffer.stored) % capacity  # rows older than the first step
    is_stored = age[:, None] + ahead[None] < buffer.stored
    goes_on = ~(data.terminated | data.truncated)[place]
    follows = is_stored[:, 1:] & goes_on[:, :-1]
    used = jnp.concatenate([is_stored[:, :1], follows], axis=1).cumprod(axis=1)
    discount = jnp.asarray(buffer.gamma ** np.arange(n), jnp.float32)  # 1, gamma, gamma**2, ...
    final = used.sum(axis=1) - 1  # [B], number of the last step used
    last = jnp.take_along_axis(place, final[:, None], axis=1)[:, 0]
    return batch._replace(
        rew=jnp.where(used > 0, discount[None] * data.rew[place], 0.0).sum(axis=1),
        next_obs=data.next_obs[last],
        terminated=1.0 - discount[final] * (1.0 - data.terminated[last]),
        truncated=data.truncated[last],
    )


def _merge(moments: jax.Array, returns: jax.Array, valid: jax.Array) -> jax.Array:
    """Update mean, variance and number by the valid returns (Chan et al., 1979)."""
    mean, var, rows = moments
    new = valid.sum(dtype=jnp.float32)
    new_mean = jnp.where(valid, returns, 0.0).sum() / jnp.maximum(new, 1.0)
    new_var = jnp.where(valid, jnp.square(returns - new_mean), 0.0).sum() / jnp.maximum(new, 1.0)
    rows = jnp.minimum(rows + new, MOST_STEPS)
    part = jnp.minimum(new / jnp.maximum(rows, 1.0), 1.0)
    apart = new_mean - mean
    var = (1.0 - part) * var + part * new_var + part * (1.0 - part) * jnp.square(apart)
    return jnp.stack([mean + part * apart, var, rows])
