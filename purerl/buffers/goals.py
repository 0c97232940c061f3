r"""Goal replay: a replay buffer that replaces goals by goals achieved later (HER).

Hindsight experience replay learns from episodes that missed their goal. It replaces the desired
goal :math:`g` of a sampled step by a goal :math:`g'` that the same episode achieved, and computes
the reward again. With probability :math:`k / (k + 1)` the sampled step t becomes

.. math::
    (s_t \Vert g', a_t, R(\bar g_{t+1}, g'), s_{t+1} \Vert g'), \qquad
    g' = \bar g_{i+1}, \quad i \sim U\{t, ..., T - 1\}

where :math:`\bar g_{t+1}` is the goal achieved by step t. The strategy `future` chooses i as above.
`final` takes the last stored step of the episode, and `episode` any stored step of it. Steps of an
episode in progress are used like all others; their last step so far counts as T - 1.

Reference: Andrychowicz et al., 2017, https://arxiv.org/abs/1707.01495.

Rows are `ExtendedTransition`s whose observations end with the desired goal, with this `extra`:

| name | contents |
|---|---|
| `achieved_goal` | goal achieved after the step, float32 `[G]` |
| `env` | index of the environment, int32 |
| `step` | position of the step in its episode, int32; 0 starts an episode |

The rows are a ring in order of arrival, as in `replay`. Two tables find the steps of an episode.
The first is a ring for each environment, with the places of its last rows. The second has the end
of each episode in that ring. All positions are modulo the length of these rings. Therefore nothing
grows, and tables that `rebuild` makes from saved rows lead to the same batches.

As in `replay`, no function is jitted, and a loop should donate the buffer to `add`.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from purerl import checks
from purerl.buffers import replay
from purerl.schedules import STRATEGIES
from purerl.spaces import EnvSpec
from purerl.types import Batch, ExtendedTransition

_GOAL_STREAM = 2  # folded into the key of a batch: `replay.sample` splits it into 0 and 1


@struct.dataclass
class GoalReplay:
    """State of a goal replay buffer, for N environments with rings of W rows each."""

    data: ExtendedTransition  # rows [capacity, ...]
    position: jax.Array  # () int32, next row to write
    stored: jax.Array  # () int32, number of rows stored
    column: jax.Array  # [capacity] int32, where the row is in its environment's ring
    episode: jax.Array  # [capacity] int32, episode of the row, modulo W
    rows: jax.Array  # [N, W] int32, rings of the latest rows of each environment
    ends: jax.Array  # [N, W] int32, column of the last row of each episode
    next_column: jax.Array  # [N] int32, where the next row of each environment goes
    last_episode: jax.Array  # [N] int32, episode of the last row of each environment
    kept: jax.Array  # [N] int32, stored rows of each environment


class Drawn(NamedTuple):
    """Sampled transitions with new goals, before rewards are computed for these goals."""

    batch: Batch  # rewards and flags as stored
    achieved_goal: jax.Array  # [B, G] after the step
    goal: jax.Array  # [B, G] desired goal, new or stored
    relabelled: jax.Array  # [B] bool, whether the goal is new


GoalFn = Callable[[Any, Any, Any], Any]  # achieved and desired goals [B, G], info -> [B]


def make_example(env: EnvSpec) -> ExtendedTransition:
    """Return a row of zeros for an environment with goals."""
    checks.integer("goal_size", env.goal_size, 1)
    goal, number = np.zeros(env.goal_size, np.float32), np.int32(0)
    extra = {"achieved_goal": goal, "env": number, "step": number}
    return ExtendedTransition(*env.example(), extra=extra)


def init(example: ExtendedTransition, capacity: int, num_envs: int) -> GoalReplay:
    """Allocate an empty goal replay buffer.

    An environment may have twice as many rows as another, as in a loop that drops steps at resets.
    If it has more, its oldest rows get their own achieved goal as their new goal.

    Args:
        example: One row, from `make_example`.
        capacity: Largest number of rows, over all environments.
        num_envs: Number of environments N.

    Raises:
        ValueError: If the rows have no goals, or do not fit into free memory.
    """
    checks.integer("num_envs", num_envs, 1)
    _check_example(example)
    ring = replay.init(example, capacity)
    return _allocate(ring.data, ring.position, ring.stored, num_envs)


def add(buffer: GoalReplay, block: ExtendedTransition, count: Any = None) -> GoalReplay:
    """Add the first `count` rows of a block. They replace the oldest rows of a full buffer.

    Args:
        buffer: Goal replay buffer.
        block: Rows `[n, ...]` with the structure and dtypes of the example. The rows of each
            environment are in order of time.
        count: Number of valid rows, as in `replay.add`.
    """
    old = replay.Replay(buffer.data, buffer.position, buffer.stored)
    ring = replay.add(old, block, count)
    env, step = (jnp.asarray(block.extra[name]) for name in ("env", "step"))
    _check_envs(block.extra["env"], count, len(buffer.rows))
    given, capacity = len(env), len(buffer.column)
    count = given if count is None else jnp.asarray(count, jnp.int32).clip(0, given)
    row = jnp.arange(given)
    valid = row < count
    written = valid & (row >= count - capacity)
    place = jnp.where(written, (buffer.position + row) % capacity, capacity + row)

    # Count the rows that each environment loses and gains.
    nowhere = len(buffer.rows)
    replaced = jnp.where(place < buffer.stored, buffer.data.extra["env"][place], nowhere)
    kept = buffer.kept.at[replaced].add(-1, mode="drop")
    kept = kept.at[jnp.where(written, env, nowhere)].add(1, mode="drop")
    buffer = dataclasses.replace(
        buffer, data=ring.data, position=ring.position, stored=ring.stored, kept=kept
    )
    return _extend_tables(buffer, env, step, place, valid)


def rebuild(data: ExtendedTransition, position: Any, stored: Any, num_envs: int) -> GoalReplay:
    """Make the tables again for saved rows, such that later batches are the same bit for bit.

    Args:
        data: Rows `[capacity, ...]` of the ring, NumPy or JAX.
        position: Next row to write.
        stored: Number of rows stored.
        num_envs: Number of environments N.
    """
    checks.integer("num_envs", num_envs, 1)
    _check_example(jax.tree.map(lambda x: x[0], data))
    position, stored = int(position), int(stored)
    data = jax.tree.map(jnp.asarray, data)
    capacity = len(data.rew)
    buffer = _allocate(data, jnp.int32(position), jnp.int32(stored), num_envs)
    row = np.arange(capacity)
    place = (position - stored + row) % capacity  # from the oldest row to the newest
    env, step = (np.asarray(data.extra[name])[place] for name in ("env", "step"))
    _check_envs(env, stored, num_envs)
    kept = np.bincount(env[:stored], minlength=num_envs)
    buffer = dataclasses.replace(buffer, kept=jnp.asarray(kept, jnp.int32))
    place = np.where(row < stored, place, capacity + row)
    env, step, place = (jnp.asarray(x, jnp.int32) for x in (env, step, place))
    return _extend_tables(buffer, env, step, place, jnp.asarray(row < stored))


def draw(
    buffer: GoalReplay,
    key: jax.Array,
    batch_size: int,
    strategy: str = "future",
    share: float = 0.8,
) -> Drawn:
    """Sample rows uniformly with replacement, and choose new goals for a share of them.

    Observation and next observation of a row get the same new goal. With a share of 0 the batch
    equals that of `replay.sample` bit for bit.

    Args:
        buffer: Goal replay buffer, with at least one row. Outside jit it must hold at least
            `batch_size` rows.
        key: PRNG key. The batch's key is the one that `replay.sample` makes.
        batch_size: Number of rows B, a static integer.
        strategy: Which goals are chosen: future, final or episode.
        share: Probability of a new goal, for each row.
    """
    checks.member("strategy", strategy, STRATEGIES)
    checks.real("share", share, 0.0, 1.0)
    ring = replay.Replay(buffer.data, buffer.position, buffer.stored)
    index, key_batch = replay.draw_indices(ring, key, batch_size)
    row = jax.tree.map(lambda x: x[index], buffer.data)
    key_share, key_goal = jax.random.split(jax.random.fold_in(key, _GOAL_STREAM))
    relabelled = jax.random.uniform(key_share, (batch_size,), jnp.float32) < share
    source = _choose_rows(buffer, index, key_goal, strategy)  # [B]
    size = buffer.data.extra["achieved_goal"].shape[1]
    new = buffer.data.extra["achieved_goal"][source]  # [B, G]

    def put(obs: jax.Array) -> jax.Array:
        goal = jnp.where(relabelled[:, None], new, obs[:, -size:])
        return jnp.concatenate([obs[:, :-size], goal], axis=1)

    obs, next_obs = put(row.obs), put(row.next_obs)
    batch = Batch(obs, row.act, row.rew, next_obs, row.terminated, row.truncated, key_batch)
    return Drawn(batch, row.extra["achieved_goal"], obs[:, -size:], relabelled)


def apply_outcome(drawn: Drawn, rewards: Any, terminated: Any = None) -> Batch:
    """Return the batch with the rewards, and the terminations, of its new goals.

    Rows with their own goal keep the stored values. Without `terminated` all rows keep the stored
    flag. This is right if reaching the goal does not end an episode. If it does, the flags must be
    computed again too: a relabelled success would bootstrap otherwise, unlike a real one.

    Args:
        drawn: Result of `draw`.
        rewards: Rewards `[B]` for the goals `drawn.goal`.
        terminated: Whether each step ends the episode with this goal, `[B]`, or None.
    """
    batch, relabelled = drawn.batch, drawn.relabelled
    rewards = jnp.asarray(rewards, batch.rew.dtype)
    checks.shape("rewards", rewards, batch.rew.shape)
    batch = batch._replace(rew=jnp.where(relabelled, rewards, batch.rew))
    if terminated is None:
        return batch
    terminated = jnp.asarray(terminated, bool)
    checks.shape("terminated", terminated, batch.rew.shape)
    return batch._replace(terminated=jnp.where(relabelled, terminated, batch.terminated))


def sample(
    buffer: GoalReplay,
    key: jax.Array,
    batch_size: int,
    reward_fn: GoalFn,
    terminated_fn: GoalFn | None = None,
    strategy: str = "future",
    k: float = 4,
) -> Batch:
    """Sample a batch in which k of k + 1 rows, on average, have a goal that their episode achieved.

    Args:
        buffer: Goal replay buffer.
        key: PRNG key.
        batch_size: Number of rows B, a static integer.
        reward_fn: Function of the goals achieved `[B, G]`, the goals desired `[B, G]` and an empty
            dictionary, which returns the rewards `[B]`.
        terminated_fn: Function like `reward_fn`, which returns whether the episode ends, or None
            if it does not end at the goal.
        strategy: Which goals are chosen: future, final or episode.
        k: Rows with a new goal for each row with its own.
    """
    checks.real("k", k, 0.0)
    drawn = draw(buffer, key, batch_size, strategy, k / (k + 1))
    goals: tuple[Any, ...] = (drawn.achieved_goal, drawn.goal, {})
    terminated = terminated_fn(*goals) if terminated_fn else None
    return apply_outcome(drawn, reward_fn(*goals), terminated)


def size(buffer: GoalReplay) -> jax.Array:
    """Return the number of rows stored."""
    return buffer.stored


def _choose_rows(buffer: GoalReplay, index: jax.Array, key: jax.Array, strategy: str) -> jax.Array:
    """Return a row of the same episode for each of the rows `index` `[B]`."""
    env, step = buffer.data.extra["env"][index], buffer.data.extra["step"][index]
    width, column = buffer.rows.shape[1], buffer.column[index]
    later = (buffer.ends[env, buffer.episode[index]] - column) % width  # rows up to the last
    if strategy == "final":
        offset = later
    else:
        newer = (buffer.next_column[env] - 1 - column) % width
        older = jnp.minimum(buffer.kept[env], width) - 1 - newer
        earlier = jnp.minimum(step, older)  # rows of the episode before this one
        first = -earlier if strategy == "episode" else 0
        offset = jax.random.randint(key, index.shape, first, later + 1)
    # A row that its environment's ring has lost is too old to find others: use its own goal.
    found = buffer.rows[env, column] == index
    return jnp.where(found, buffer.rows[env, (column + offset) % width], index)


def _extend_tables(
    buffer: GoalReplay, env: jax.Array, step: jax.Array, place: jax.Array, valid: jax.Array
) -> GoalReplay:
    """Enter rows `[n]` into the tables: only rows that are valid and have a place in the data."""
    number, width = buffer.rows.shape
    capacity = len(buffer.column)

    # Sort by environment, in order of time within each. Rows that do not count come last.
    env = jnp.where(valid, env, number)
    order = jnp.argsort(env, stable=True)
    env, step, place = env[order], step[order], place[order]
    edges = jnp.searchsorted(env, jnp.arange(number + 1))  # where each environment begins
    row = jnp.arange(len(env))

    # Give each row its column, and each episode its number. Step 0 starts an episode.
    column = (buffer.next_column[env] + row - edges[env]) % width
    starts = jnp.cumsum(jnp.concatenate([jnp.zeros(1, jnp.int32), step == 0]))
    episode = (buffer.last_episode[env] + starts[1:] - starts[edges[env]]) % width

    # Write only the newest rows of each ring, and of each episode only its last row.
    newer = edges[jnp.minimum(env + 1, number)] - 1 - row
    new = (env < number) & (newer < width) & (place < capacity)
    last = jnp.append((env[1:] != env[:-1]) | (step[1:] == 0), True)
    put_row, put_end = jnp.where(new, env, number), jnp.where(new & last, env, number)
    added = jnp.diff(edges)
    return dataclasses.replace(
        buffer,
        column=buffer.column.at[place].set(column, mode="drop"),
        episode=buffer.episode.at[place].set(episode, mode="drop"),
        rows=buffer.rows.at[put_row, column].set(place, mode="drop"),
        ends=buffer.ends.at[put_end, episode].set(column, mode="drop"),
        next_column=(buffer.next_column + added) % width,
        last_episode=(buffer.last_episode + starts[edges[1:]] - starts[edges[:-1]]) % width,
    )


def _allocate(data: Any, position: jax.Array, stored: jax.Array, num_envs: int) -> GoalReplay:
    """Return a buffer with these rows and empty tables."""
    capacity = len(data.rew)
    # Its share if it has two rows for each row of another, and some for the ends of the window.
    width = min(capacity, 2 * capacity // (num_envs + 1) + 4)
    shapes = [(capacity,)] * 2 + [(num_envs, width)] * 2 + [(num_envs,)] * 3
    return GoalReplay(data, position, stored, *(jnp.zeros(shape, jnp.int32) for shape in shapes))


def _check_example(example: Any) -> None:
    """Refuse rows that are not those of an environment with goals."""
    wanted = {"achieved_goal", "env", "step"}
    if not isinstance(example, ExtendedTransition) or set(example.extra) != wanted:
        raise ValueError(
            f"example must be an ExtendedTransition whose extra has {', '.join(sorted(wanted))}, "
            f"such as goals.make_example(spec) returns, got {example!r}."
        )
    goal, obs = np.shape(example.extra["achieved_goal"]), np.shape(example.obs)
    if len(goal) != 1 or len(obs) != 1 or not 0 < goal[0] < obs[0]:
        raise ValueError(
            f"a row must have an observation and a shorter achieved goal, both with one axis, got "
            f"shapes {obs} and {goal}."
        )


def _check_envs(env: Any, count: Any, num_envs: int) -> None:
    """Refuse an environment that the buffer does not have. Traced numbers are not checked."""
    if any(isinstance(x, jax.core.Tracer) for x in (env, count)):
        return
    found = np.asarray(env)[:count]
    if len(found) and not (found.min() >= 0 and found.max() < num_envs):
        raise ValueError(
            f"extra['env'] must be in 0 .. {num_envs - 1}, got {found.min()} .. {found.max()}."
        )
