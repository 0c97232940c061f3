"""How a run ends: what is said of it, what its folder says, and what to type next."""

import contextlib
import math
import traceback
from collections.abc import Iterator
from pathlib import Path

from purerl import errors, mpi
from purerl.errors import NonFiniteError
from purerl.loops.faults import format_in_a_line
from purerl.runs.record import folder, manifest
from purerl.runs.record import status as places
from purerl.runs.record.logger import append_text


def summarise_end(run: Path, step: int, total: int, score: float) -> str:
    """Return what is said of a run that is done, or was asked to stop."""
    if step < total:
        return f"stopped at {step:,} of {total:,}. Go on: {places.format_command('resume', run)}"
    result = f"return {score:.1f}" if math.isfinite(score) else "no episode has ended"
    more = ("--steps", str(2 * total))
    return (
        f"{result}; everything is in {run}\n  {places.format_command('watch', run)}\n"
        f"  {places.format_command('plot', run)}\n  {places.format_command('resume', run, *more)}"
    )


@contextlib.contextmanager
def record_failure(run: Path) -> Iterator[None]:
    """Let a run that fails say in its folder why, and the error what is kept and what to do."""
    try:
        yield
    except BaseException as error:
        error.add_note(_explain_next_step(run, error))
        asked = isinstance(error, KeyboardInterrupt)
        status, reason = "failed", f"{type(error).__name__}: {format_in_a_line(error)}"
        if asked:
            status, reason = "stopped", "interrupted"
        text = "interrupted" if asked else f"{traceback.format_exc()}purerl: {error}"
        lines = "\n  ".join([text, *error.__notes__])
        with contextlib.suppress(errors.StorageError):  # perhaps the disk is what fails
            folder.update_status(run, status=status, reason=reason)
        with contextlib.suppress(errors.StorageError):
            if mpi.is_root():
                append_text(run / "stdout.log", f"{lines}\n")
        raise


def _explain_next_step(run: Path, error: BaseException) -> str:
    kept = manifest.list_steps(run)
    what = f"the checkpoint of step {kept[-1]:,} is kept" if kept else "no checkpoint yet"
    if not isinstance(error, NonFiniteError):
        return (
            f"{what}. {'Go on' if kept else 'Begin again'}: {places.format_command('resume', run)}"
        )
    if mpi.num_procs() > 1:
        return f"{what}."
    return f"{what}; {places.format_command('doctor', run)} looks for the cause."
