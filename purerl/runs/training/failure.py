"""The end of a run: its last lines, the reason of a failure, and the command to type next."""

import contextlib
import traceback
from collections.abc import Iterator
from pathlib import Path

from purerl import errors, mpi
from purerl.errors import NonFiniteError
from purerl.loops.faults import format_in_a_line
from purerl.runs.record import checkpoint_folders, folder
from purerl.runs.record.files import append_text
from purerl.runs.record.status import format_command


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
    kept = checkpoint_folders.list_steps(run)
    what = f"the checkpoint of step {kept[-1]:,} is kept" if kept else "no checkpoint yet"
    if not isinstance(error, NonFiniteError):
        return f"{what}. {'Go on' if kept else 'Begin again'}: {format_command('resume', run)}"
    if mpi.num_procs() > 1:
        return f"{what}."
    return f"{what}; {format_command('doctor', run)} looks for the cause."
