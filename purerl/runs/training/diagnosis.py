"""Find the first bad update of a diverged run, by replaying from its newest good checkpoint.

    finding = diagnose(run)     # None if it does not diverge again

The burst that diverged is repeated update by update. The batch and the parameters of the first
update with a number that is not finite are saved.
"""

import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from purerl import rng
from purerl.buffers import replay
from purerl.errors import Diverged, NonFiniteError
from purerl.loops import acting, choose_loop, devices, offpolicy, onpolicy, records, scan
from purerl.loops.adapters import JaxEnvs
from purerl.loops.carry import Carry, OffPolicyCarry, SequenceCarry
from purerl.loops.hindsight import relabel
from purerl.mpi.collective import to_host
from purerl.runs.record import checkpoint, checkpoint_folders, files, safe_files
from purerl.runs.settings import environments
from purerl.runs.training import requirements, restoring
from purerl.runs.training.saving import describe_run
from purerl.types import make_rollout, map_rows

SHOWN = 8  # most names of non-finite values to print


class Finding(NamedTuple):
    """The first number that is not finite: the update or environment that it came from."""

    update: int  # number of the update, from 1; 0 if environment or policy returned the number
    step: int  # environment steps after it
    message: str  # error of the run
    bad: tuple[str, ...] = ()  # parts that are not finite: batch, metrics, gradients, new state
    largest: tuple[str, float] = ("", 0.0)  # parameter of largest absolute value before it
    line: str = ""  # source line of the first NaN, or nothing
    saved: Path | None = None  # file with the batch and the parameters before it

    def describe(self) -> str:
        """Return the finding as lines of text, with the first `SHOWN` non-finite names."""
        if not self.update:
            return f"no update is at fault: {self.message}"
        lines = [f"first bad update: {self.update:,}, at environment step {self.step:,}"]
        lines += [f"  not finite: {name}" for name in self.bad[:SHOWN]]
        if len(self.bad) > SHOWN:
            lines.append(f"  and {len(self.bad) - SHOWN} more")
        if self.line:
            lines.append(f"  first NaN: {self.line}")
        lines.append(f"  largest parameter before it: {self.largest[0]}, {self.largest[1]:.3g}")
        return "\n".join([*lines, f"batch and parameters before the update: {self.saved}"])


def diagnose(
    run: Path,
    env_fn: requirements.EnvFn | None = None,
    at: int | None = None,
    say: Callable[[str], None] = lambda line: None,
    algo: Any = None,
    spec: Any = None,
) -> Finding | None:
    """Continue from a checkpoint until the run diverges, and find the first bad update.

    `at` is the step of the checkpoint; None for the newest. `say` receives lines about progress.
    `algo` is the module of the run's algorithm if it is custom, and `spec` its `Spec` if that has
    custom networks.
    """
    safe_files.get_subfolder(run, "doctor")  # refuse a link before the replay
    config = requirements.read_config(run, env_fn, spec, None, algo)
    env_fn = environments.choose_training_env(env_fn, config.env, config.options.wrapper)

    def restore() -> Carry:
        if not checkpoint_folders.list_steps(run):
            carry = restoring.start_carry(config, env_fn)
        else:
            loaded = checkpoint.load(run, describe_run(config), 0, at)
            carry = restoring.restore_carry(config, env_fn, loaded)[0]
        if isinstance(carry.envs, JaxEnvs):
            carry.envs.pace.target = 0.0  # programs of one burst or rollout
        return carry

    loop = choose_loop(env_fn)
    carry = restore()
    say(f"replaying from step {carry.steps:,}")
    try:
        while carry.steps < carry.schedule.steps:
            carry, _ = loop.advance(carry)
        return None
    except Diverged as error:
        before, message = carry.steps, str(error)
    except NonFiniteError as error:  # from an environment, or an action of the policy
        return Finding(0, carry.steps, str(error))
    finally:
        carry.envs.close()
    say(message)
    carry = restore()
    try:
        while carry.steps < before:
            carry, _ = loop.advance(carry)
        return _find_bad_update(run, carry, message)
    finally:
        carry.envs.close()


def _collect(carry: Carry) -> tuple[int, list[Any]]:
    """Collect the batches of the next burst or rollout; return them with the step after it."""
    algo = carry.algo
    if not isinstance(carry, OffPolicyCarry):
        length = carry.schedule.rollout_length
        if isinstance(carry.envs, JaxEnvs):
            rollout = make_rollout(scan.collect(carry, length))
        else:
            _, rollout = onpolicy.collect(carry, length)
        params = devices.unreplicate(carry.learner.params)
        key = rng.stream(carry.seed, carry.rank, "update", carry.updates)
        batch = jax.jit(algo.prepare)(params, rollout)
        batches = [batch._replace(key=key)]
        if isinstance(carry, SequenceCarry):
            batches += _replay(carry, batch)
        return carry.steps + carry.schedule.rollout_steps, batches
    border, updates = offpolicy.plan_burst(carry)
    count: Any = (border - carry.steps) // carry.ranks
    if isinstance(carry.envs, JaxEnvs):
        rows = scan.collect(carry, count // carry.envs.num_envs)
        block = map_rows(lambda x: x.reshape(-1, *x.shape[2:]), rows)
    else:
        _, block, count = offpolicy.collect(carry, count)
    ring = relabel.add_rows(devices.unreplicate(carry.buffer), block, count)
    keys = jax.random.split(rng.stream(carry.seed, carry.rank, "sample", carry.updates), updates)
    args = (algo, devices.unreplicate(carry.learner), ring, carry.schedule.batch_size)
    return border, [offpolicy.draw_batch(*args, key, carry.relabelling) for key in keys]


def _replay(carry: SequenceCarry, batch: Any) -> list[Any]:
    """Draw the batches of the replayed updates that follow a rollout."""
    plan = onpolicy.plan_replay(carry.schedule, carry.ranks)
    ring = replay.add(devices.unreplicate(carry.buffer), batch)
    words = acting.pack_key_words(carry, carry.updates)
    number = int(onpolicy.count_replays(plan, ring, words))
    return [onpolicy.draw_sequences(plan, ring, words, i) for i in range(number)]


def _find_bad_update(run: Path, carry: Carry, message: str) -> Finding | None:
    """Repeat a burst update by update until a number is not finite; save batch and parameters."""
    step, batches = _collect(carry)
    algo, learner = carry.algo, devices.unreplicate(carry.learner)
    update = jax.jit(algo.update)
    for number, batch in enumerate(batches, carry.updates + 1):
        new, info = update(learner, batch)
        bad = _list_non_finite({"batch": batch, "metric": info})
        numbers = records.list_numbers(new)
        bad += [f"new {name}" for name, x in numbers.items() if not np.isfinite(x).all()]
        if not bad:
            learner = new
            continue
        grads = jax.grad(algo.loss, has_aux=True)(learner.params, batch)[0]
        bad += _list_non_finite({"gradient": grads})
        path = safe_files.get_subfolder(run, "doctor") / f"update-{number}.npz"
        files.make_folder(path.parent)
        tree = {"params": learner.params, "batch": batch, "step": learner.step}
        arrays: dict[str, Any] = _flatten(tree)
        files.replace_file(path, partial(np.savez, allow_pickle=False, **arrays))
        params = _flatten({"": learner.params})
        sizes = {name: float(np.abs(x).max()) for name, x in params.items() if x.size}
        largest = max(sizes.items(), key=lambda item: item[1])
        line = _find_line(algo.update, learner, batch)
        return Finding(number, step, message, tuple(bad), largest, line, path)
    return None


def _flatten(trees: dict[str, Any]) -> dict[str, np.ndarray]:
    """Return the leaves of trees by their paths; PRNG keys as their data."""
    found = {}
    for what, tree in trees.items():
        for path, leaf in jax.tree_util.tree_leaves_with_path(tree):
            found[f"{what} {jax.tree_util.keystr(path)}".strip()] = to_host(leaf)
    return found


def _list_non_finite(trees: dict[str, Any]) -> list[str]:
    arrays = _flatten(trees)
    return [k for k, x in arrays.items() if x.dtype.kind == "f" and not np.isfinite(x).all()]


def _find_line(update: Any, learner: Any, batch: Any) -> str:
    """Do an update without jit; return the source line with the first NaN, or an empty text."""
    try:
        with jax.debug_nans(True), jax.disable_jit():
            update(learner, batch)
    except FloatingPointError as error:
        for frame in reversed(traceback.extract_tb(error.__traceback__)):
            if "site-packages" not in frame.filename and frame.filename != __file__:
                return f"{frame.filename}:{frame.lineno} in {frame.name}: {frame.line}"
    return ""
