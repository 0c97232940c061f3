"""Replay a run that diverged from its last good checkpoint, and find the first bad update.

    finding = diagnose(run)     # None if it does not diverge again

The burst that diverged is repeated update by update. The batch and the parameters of the first
update with a number that is not finite are saved.
"""

import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from purerl import rng
from purerl.buffers import replay as memory
from purerl.errors import Diverged, NonFiniteError
from purerl.loops import devices, offpolicy, onpolicy
from purerl.loops import gym as loop
from purerl.loops.carry import Carry, OffPolicyCarry, OnPolicyCarry
from purerl.runs.record import checkpoint, checkpoint_folders, files
from purerl.runs.record.arrays import pack_named_arrays
from purerl.runs.settings import environments
from purerl.runs.settings.config import Config
from purerl.runs.training import train
from purerl.runs.training.saving import describe_run


class Finding(NamedTuple):
    """The first thing that went wrong."""

    update: int  # number of the update, from 1; 0 if an environment returned the number
    step: int  # environment steps after it
    bad: tuple[str, ...]  # names of parts that are not finite: batch, metrics, gradients, new state
    largest: tuple[str, float]  # parameter before the update with the largest absolute value
    line: str  # source line of the first NaN, or nothing
    saved: Path | None  # file with the batch and the parameters before it
    message: str  # error of the run


def diagnose(
    run: Path,
    env_fn: train.EnvFn | None = None,
    spec: Any = None,
    at: int | None = None,
    say: Callable[[str], None] = lambda line: None,
) -> Finding | None:
    """Continue from a checkpoint until the run diverges, and examine the update that did it.

    Args:
        run: folder of the run.
        env_fn: as in `train.resume`.
        spec: as in `train.resume`.
        at: step of the checkpoint; None for the newest.
        say: function that takes a line about the progress.
    """
    config = train.read_config(run, env_fn, spec)
    env_fn = env_fn or environments.make_env_fn(config.env)
    carry = _restore(run, config, env_fn, at)
    say(f"replaying from step {carry.steps:,}")
    try:
        before, message = _advance_until_divergence(carry)
    except NonFiniteError as error:  # from an environment
        return Finding(0, carry.steps, (), ("", 0.0), "", None, str(error))
    if before is None:
        return None
    say(message)
    carry = _restore(run, config, env_fn, at)
    try:
        while carry.steps < before:
            carry, _ = loop.advance(carry)
        if isinstance(carry, OffPolicyCarry):
            step, batches = _collect_burst(carry)
        else:
            step, batches = _collect_rollout(carry)
        return _find_bad_update(run, carry, step, batches, message)
    finally:
        carry.envs.close()


def _restore(run: Path, config: Config, env_fn: train.EnvFn, at: int | None) -> Carry:
    """Return the carry of a checkpoint, or the first carry if there is none."""
    if not checkpoint_folders.list_steps(run):
        return train.start_carry(config, env_fn)
    loaded = checkpoint.load(run, describe_run(config), 0, at)
    return train.restore_carry(config, env_fn, loaded)[0]


def _advance_until_divergence(carry: Carry) -> tuple[int | None, str]:
    """Advance; return the step before the advance that diverged, and its error."""
    try:
        while carry.steps < carry.schedule.steps:
            before = carry.steps
            try:
                carry, _ = loop.advance(carry)
            except Diverged as error:
                return before, str(error)
        return None, ""
    finally:
        carry.envs.close()


def _collect_burst(carry: OffPolicyCarry) -> tuple[int, list[Any]]:
    """Collect the batches of the next burst; return them with the step after it."""
    border, updates = offpolicy.plan_burst(carry)
    size = carry.schedule.batch_size
    collected, block, count = offpolicy.collect(carry, (border - carry.steps) // carry.ranks)
    ring = memory.add(devices.unreplicate(carry.buffer), block, count)
    stream = rng.stream(carry.seed, carry.rank, "sample", carry.updates)
    keys = jax.random.split(stream, updates)
    learner = devices.unreplicate(collected.learner)
    return border, [offpolicy.draw_batch(carry.algo, learner, ring, size, key) for key in keys]


def _collect_rollout(carry: OnPolicyCarry) -> tuple[int, list[Any]]:
    """Collect the batch of the next rollout; return it with the step after it."""
    schedule = carry.schedule
    collected, rollout = onpolicy.collect(carry, schedule.rollout_length)
    params = devices.unreplicate(collected.learner.params)
    key = rng.stream(carry.seed, carry.rank, "update", carry.updates)
    batch = jax.jit(carry.algo.prepare)(params, rollout)._replace(key=key)
    return carry.steps + schedule.steps_per_epoch, [batch]


def _find_bad_update(
    run: Path, carry: Carry, step: int, batches: list[Any], message: str
) -> Finding | None:
    """Do one update at a time until a number is not finite."""
    algo, learner = carry.algo, devices.unreplicate(carry.learner)
    update = jax.jit(algo.update)
    for number, batch in enumerate(batches, carry.updates + 1):
        new, info = update(learner, batch)
        bad = _list_non_finite({"batch": batch, "metric": info, "new": new})
        if not bad:
            learner = new
            continue
        grads = jax.grad(algo.loss, has_aux=True)(learner.params, batch)[0]
        bad += _list_non_finite({"gradient": grads})
        arrays = _flatten({"params": learner.params, "batch": batch, "step": learner.step})
        path = run / "doctor" / f"update-{number}.npz"
        files.make_folder(path.parent)
        files.replace_file(path, pack_named_arrays(arrays))
        line = _find_line(algo.update, learner, batch)
        params = _flatten({"": learner.params})
        sizes = {name: float(np.abs(x).max()) for name, x in params.items() if x.size}
        largest = max(sizes.items(), key=lambda item: item[1])
        return Finding(number, step, tuple(bad), largest, line, path, message)
    return None


def _flatten(trees: dict[str, Any]) -> dict[str, np.ndarray]:
    """Return the leaves of trees by their paths; PRNG keys as their data."""
    found = {}
    for what, tree in trees.items():
        for path, leaf in jax.tree_util.tree_leaves_with_path(tree):
            name = f"{what} {jax.tree_util.keystr(path)}".strip()
            is_key = jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
            found[name] = np.asarray(jax.random.key_data(leaf) if is_key else leaf)
    return found


def _list_non_finite(trees: dict[str, Any]) -> list[str]:
    arrays = _flatten(trees)
    return [k for k, x in arrays.items() if x.dtype.kind == "f" and not np.isfinite(x).all()]


def _find_line(update: Any, learner: Any, batch: Any) -> str:
    """Do an update operation by operation; return the line of our code with the first NaN."""
    try:
        with jax.debug_nans(True), jax.disable_jit():
            update(learner, batch)
    except FloatingPointError as error:
        for frame in reversed(traceback.extract_tb(error.__traceback__)):
            if "site-packages" not in frame.filename and frame.filename != __file__:
                return f"{frame.filename}:{frame.lineno} in {frame.name}: {frame.line}"
    return ""
