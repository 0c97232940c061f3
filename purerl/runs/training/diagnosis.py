"""Replay a run that diverged from its last good checkpoint, and find what went wrong first.

    finding = diagnose(run)     # None where it does not diverge again

The burst that diverged is done again update by update; the first one of which anything is not
finite is looked at closely, and its batch and parameters are saved.
"""

import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from purerl import errors, rng
from purerl.buffers import replay as memory
from purerl.errors import NonFiniteError
from purerl.loops import devices, offpolicy, onpolicy
from purerl.loops import gym as loop
from purerl.loops.carry import Carry, OffPolicyCarry, OnPolicyCarry
from purerl.runs.record import checkpoint, files, manifest
from purerl.runs.settings import config as configs
from purerl.runs.settings.config import Config
from purerl.runs.training import train
from purerl.runs.training.saving import describe_run

Env = Callable[[], Any]


class Finding(NamedTuple):
    """What went wrong first."""

    update: int  # counted from 1; 0 where an environment gave the number
    step: int  # environment steps when it was done
    bad: tuple[str, ...]  # what is not finite: of the batch, metrics, gradients, new parameters
    largest: tuple[str, float]  # parameter before the update with the largest absolute value
    line: str  # source line that made the first NaN, where one did
    saved: Path | None  # the batch and the parameters before it
    message: str  # of the run


def diagnose(
    run: Path,
    env_fn: Env | None = None,
    spec: Any = None,
    at: int | None = None,
    say: Callable[[str], None] = lambda line: None,
) -> Finding | None:
    """Go on from a checkpoint until the run diverges, and look at the update that did it.

    Args:
        run: its folder.
        env_fn: as in `train.resume`.
        spec: as in `train.resume`.
        at: step of the checkpoint; None for the newest.
        say: is told how it goes.
    """
    config = train.read_config(run, env_fn, spec)
    env_fn = env_fn or configs.make_env_fn(config.env)
    carry = _begin(run, config, env_fn, at)
    say(f"replaying from step {carry.steps:,}")
    try:
        before, message = _until_it_diverges(carry)
    except NonFiniteError as error:  # not out of an update
        return Finding(0, carry.steps, (), ("", 0.0), "", None, str(error))
    if before is None:
        return None
    say(message)
    carry = _begin(run, config, env_fn, at)
    try:
        while carry.steps < before:
            carry, _ = loop.advance(carry)
        batches = _burst(carry) if isinstance(carry, OffPolicyCarry) else _rollout(carry)
        return _look(run, carry, *batches, message)
    finally:
        carry.envs.close()


def _begin(run: Path, config: Config, env_fn: Env, at: int | None) -> Carry:
    """Return the carry of a checkpoint, or of the start where there is none."""
    if not manifest.list_steps(run):
        return train.start_carry(config, env_fn)
    loaded = checkpoint.load(run, describe_run(config), 0, at)
    return train.restore_carry(config, env_fn, loaded)[0]


def _until_it_diverges(carry: Carry) -> tuple[int | None, str]:
    """Advance; return the step before the advance that diverged, and what was said of it."""
    try:
        while carry.steps < carry.schedule.steps:
            before = carry.steps
            try:
                carry, _ = loop.advance(carry)
            except errors.Diverged as error:
                return before, str(error)
        return None, ""
    finally:
        carry.envs.close()


def _burst(carry: OffPolicyCarry) -> tuple[int, list[Any]]:
    """Collect what the next burst learns from; return the step after it, and its batches."""
    border, updates = offpolicy.plan_burst(carry)
    size = carry.schedule.batch_size
    collected, block, count = offpolicy.collect(carry, (border - carry.steps) // carry.ranks)
    ring = memory.add(devices.unreplicate(carry.buffer), block, count)
    stream = rng.stream(carry.seed, carry.rank, "sample", carry.updates)
    keys = jax.random.split(stream, updates)
    learner = devices.unreplicate(collected.learner)
    return border, [offpolicy.draw_batch(carry.algo, learner, ring, size, key) for key in keys]


def _rollout(carry: OnPolicyCarry) -> tuple[int, list[Any]]:
    """Collect and prepare the next rollout; return the step after it, and its one batch."""
    schedule = carry.schedule
    collected, rollout = onpolicy.collect(carry, schedule.rollout_length)
    params = devices.unreplicate(collected.learner.params)
    key = rng.stream(carry.seed, carry.rank, "update", carry.updates)
    batch = jax.jit(carry.algo.prepare)(params, rollout)._replace(key=key)
    return carry.steps + schedule.steps_per_epoch, [batch]


def _look(run: Path, carry: Carry, step: int, batches: list[Any], message: str) -> Finding | None:
    """Update once at a time until something is not finite."""
    algo, learner = carry.algo, devices.unreplicate(carry.learner)
    update = jax.jit(algo.update)
    for i, batch in enumerate(batches):
        new, info = update(learner, batch)
        bad = _not_finite({"batch": batch, "metric": info, "new": new})
        if not bad:
            learner = new
            continue
        grads = jax.grad(algo.loss, has_aux=True)(learner.params, batch)[0]
        bad += _not_finite({"gradient": grads})
        number = carry.updates + i + 1
        arrays = _arrays({"params": learner.params, "batch": batch, "step": learner.step})
        path = run / "doctor" / f"update-{number}.npz"
        files.make_folder(path.parent)
        files.replace_file(path, files.pack_named_arrays(arrays))
        line = _line_of_the_first_nan(algo.update, learner, batch)
        largest = _largest(_arrays({"": learner.params}))
        return Finding(number, step, tuple(bad), largest, line, path, message)
    return None


def _arrays(trees: dict[str, Any]) -> dict[str, np.ndarray]:
    """Return the leaves of trees by their paths; keys as their data."""
    found = {}
    for what, tree in trees.items():
        for path, leaf in jax.tree_util.tree_leaves_with_path(tree):
            name = f"{what} {jax.tree_util.keystr(path)}".strip()
            is_key = jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
            found[name] = np.asarray(jax.random.key_data(leaf) if is_key else leaf)
    return found


def _not_finite(trees: dict[str, Any]) -> list[str]:
    arrays = _arrays(trees)
    return [k for k, x in arrays.items() if x.dtype.kind == "f" and not np.isfinite(x).all()]


def _largest(arrays: dict[str, np.ndarray]) -> tuple[str, float]:
    sizes = {name: float(np.abs(x).max()) for name, x in arrays.items() if x.size}
    name = max(sizes, key=sizes.__getitem__)
    return name, sizes[name]


def _line_of_the_first_nan(update: Any, learner: Any, batch: Any) -> str:
    """Do an update operation by operation; return the line of ours that makes the first NaN."""
    try:
        with jax.debug_nans(True), jax.disable_jit():
            update(learner, batch)
    except FloatingPointError as error:
        ours = [
            frame
            for frame in traceback.extract_tb(error.__traceback__)
            if "site-packages" not in frame.filename and frame.filename != __file__
        ]
        if ours:
            return f"{ours[-1].filename}:{ours[-1].lineno} in {ours[-1].name}: {ours[-1].line}"
    return ""
