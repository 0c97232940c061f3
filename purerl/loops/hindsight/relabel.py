"""Draw batches with replaced goals, and rewards in JAX or from the environment on the host."""

import functools
from typing import Any

import jax
import numpy as np

from purerl import rng
from purerl.buffers import goals, replay, return_replay
from purerl.compiler import jit_fast
from purerl.loops import faults
from purerl.loops.devices import map_program, unreplicate
from purerl.loops.hindsight.rewards import Relabelling, has_clipped_targets
from purerl.types import Batch

Buffer = replay.Replay | goals.GoalReplay


def add_rows(buffer: Buffer, block: Any, count: Any) -> Buffer:
    """Add the first `count` rows of a block to a buffer of any kind."""
    if isinstance(buffer, goals.GoalReplay):
        return goals.add(buffer, block, count)
    return return_replay.add(buffer, block, count)


def sample(
    buffer: goals.GoalReplay,
    key: jax.Array,
    batch_size: int,
    relabelling: Relabelling | None,
    spec: Any,
) -> Batch:
    """Draw one batch with other goals, and their rewards.

    In a compiled program the rewards must be functions in JAX. Without `relabelling` all rewards
    are those of the stored goals.
    """
    if relabelling is None:
        return goals.draw(buffer, key, batch_size, share=0.0).batch
    how: Any = (relabelling.strategy, relabelling.k)
    if relabelling.in_jax:
        functions = (relabelling.reward, relabelling.terminated)
        return goals.sample(buffer, key, batch_size, *functions, *how)
    drawn = goals.draw(buffer, key, batch_size, how[0], how[1] / (how[1] + 1))
    return goals.apply_outcome(drawn, *compute_outcome(relabelling, drawn, spec))


def draw_batches(
    updates: int, batch_size: int, devices: int, relabelling: Relabelling, *args: Any
) -> tuple[goals.GoalReplay, goals.Drawn]:
    """Add a block to the buffer, and draw the batches of a burst, without their rewards.

    Args:
        updates, batch_size, devices, relabelling: As in `offpolicy.run_burst`.
        *args: Buffer (which is donated), block, count and words, as in `offpolicy.run_burst`.
    """
    how = (relabelling.strategy, relabelling.k / (relabelling.k + 1))
    drawn: tuple[goals.GoalReplay, goals.Drawn]
    drawn = _compiled_draw()(updates, batch_size, devices, *how, *args)
    return drawn


def compute_outcome(
    relabelling: Relabelling, drawn: goals.Drawn, spec: Any
) -> tuple[np.ndarray, np.ndarray | None]:
    """Compute the rewards and terminations `[...]` of drawn rows on the host."""
    arrays = unreplicate((drawn.achieved_goal, drawn.goal, drawn.relabelled))
    achieved, goal, changed = map(np.asarray, arrays)
    rewards, terminated = relabelling.compute(achieved, goal, changed)
    if has_clipped_targets(spec):
        faults.check_sparse(rewards[changed])
    return rewards, terminated


def split_key(words: jax.Array, updates: int) -> jax.Array:
    """Return the keys of the batches of a burst."""
    return jax.random.split(rng.stream(words[0], words[1], "sample", words[2:]), updates)


@functools.cache
def _compiled_draw() -> Any:
    return jit_fast(_draw_batches, static_argnums=(0, 1, 2, 3, 4), donate_argnums=5)


def _draw_batches(
    updates: int, batch_size: int, devices: int, strategy: str, share: float, *args: Any
) -> Any:
    def body(buffer: goals.GoalReplay, block: Any, count: Any, words: jax.Array) -> Any:
        buffer = goals.add(buffer, block, count)
        draw = functools.partial(goals.draw, buffer, batch_size=batch_size)
        keys = split_key(words, updates)
        return buffer, jax.vmap(lambda key: draw(key=key, strategy=strategy, share=share))(keys)

    return map_program(body, devices, args[-1].ndim > 1, shared=2)(*args)
