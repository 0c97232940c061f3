"""The end of a run: its last lines, the reason of a failure, and the command to type next."""

import contextlib
import math
import traceback
from collections.abc import Iterator
from pathlib import Path

from purerl import errors, mpi
from purerl.errors import NonFiniteError
from purerl.loops.faults import format_in_a_line
from purerl.runs.record import folder, manifest
from purerl.runs.record.files import append_text
from purerl.runs.record.status import format_command


def summarise_end(run: Path, step: int, total: int, score: float) -> str:
    """Return the last lines of a run that is done, or was asked to stop."""
    if step < total:
        return f"stopped at {step:,} of {total:,}. Go on: {format_command('resume', run)}"
    result = f"return {score:.1f}" if math.isfinite(score) else "no episode has ended"
    more = format_command("resume", run, "--steps", str(2 * total))
    commands = (format_command("watch", run), format_command("plot", run), more)
    return "\n  ".join((f"{result}; everything is in {run}", *commands))


@contextlib.contextmanager
def record_failure(run: Path) -> Iterator[None]:
    """Write the reason into the run's folder if the block fails, and add the next step to it."""
    try:
        yield
    except BaseException as error:
        error.add_note(_explain_next_step(run, error))
        if isinstance(error, KeyboardInterrupt):
            status, reason, text = "stopped", "interrupted", "interrupted"
        else:
            status, reason = "failed", f"{type(error).__name__}: {format_in_a_line(error)}"
            text = f"{traceback.format_exc()}purerl: {error}"
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
        return f"{what}. {'Go on' if kept else 'Begin again'}: {format_command('resume', run)}"
    if mpi.num_procs() > 1:
        return f"{what}."
    return f"{what}; {format_command('doctor', run)} looks for the cause."
