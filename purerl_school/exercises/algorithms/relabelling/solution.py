"""Solution of exercise 3.6: relabelling with goals in hindsight."""

from collections.abc import Callable

import jax
import jax.numpy as jnp

from purerl.types import Batch, ExtendedTransition

GoalFn = Callable[[jax.Array, jax.Array], jax.Array]  # achieved, desired goals [B, G] -> [B]


def relabel(
    data: ExtendedTransition,
    index: jax.Array,
    future: jax.Array,
    relabelled: jax.Array,
    reward_fn: GoalFn,
    terminated_fn: GoalFn,
) -> Batch:
    """Return the sampled steps, some of them with a goal that was achieved later.

    Args:
        data: Stored steps `[T, ...]`. Observations end with the desired goal `[G]`; `extra` has
            `achieved_goal` (before the step) and `next_achieved_goal` (after it), `[T, G]`.
        index: Rows `[B]` of the sampled steps.
        future: Rows `[B]` of the steps whose next achieved goal is the new goal.
        relabelled: Booleans `[B]`, whether a row gets the new goal.
        reward_fn: Function that computes rewards.
        terminated_fn: Function that computes whether steps end the episode.

    Returns:
        A batch of B rows.
    """
    row = jax.tree.map(lambda x: x[index], data)
    achieved = row.extra["next_achieved_goal"]  # [B, G]
    new = data.extra["next_achieved_goal"][future]  # [B, G]
    size = new.shape[1]
    goal = jnp.where(relabelled[:, None], new, row.obs[:, -size:])  # [B, G]
    return Batch(
        obs=jnp.concatenate([row.obs[:, :-size], goal], axis=1),
        act=row.act,
        rew=jnp.where(relabelled, reward_fn(achieved, goal), row.rew),
        next_obs=jnp.concatenate([row.next_obs[:, :-size], goal], axis=1),
        terminated=jnp.where(relabelled, terminated_fn(achieved, goal), row.terminated),
        truncated=row.truncated,
    )
