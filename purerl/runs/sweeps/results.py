"""Results of the runs of a sweep: a table for the screen, and `sweep.json`."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from purerl import errors
from purerl.runs.console import align_columns
from purerl.runs.record import files, status


class TaskResult(NamedTuple):
    """Result of one run of a sweep, or of one call of the user's function."""

    name: str
    seed: int
    status: str = "waiting"  # later done, failed, stopped, timeout, or running (elsewhere)
    exit: int | None = None  # exit code; None if this sweep started no process for it
    reason: str = ""
    step: int = 0
    score: float | None = None
    seconds: float = 0.0
    run: str = ""  # folder of the run
    log: str = ""  # file with the output of the process
    settings: Mapping[str, Any] = {}

    @property
    def label(self) -> str:
        """Name and seed in one word."""
        return f"{self.name}_s{self.seed}"


class Sweep(NamedTuple):
    """Results of all tasks."""

    rows: tuple[TaskResult, ...]
    code: int  # exit code: errors.DONE, INCOMPLETE or STOPPED
    folder: Path


def save_results(folder: Path, about: dict[str, Any], rows: Sequence[TaskResult]) -> None:
    """Write `sweep.json`; keep entries of other runs, and of runs that were not started again."""
    path = folder / "sweep.json"
    before: dict[tuple[str, int], dict[str, Any]] = {}
    if path.exists():
        try:
            entries = status.read_json(path)["variants"]
            before = {(entry["name"], entry["seed"]): entry for entry in entries}
        except (errors.ConfigError, errors.Damaged, KeyError, TypeError) as error:
            text = f"{path} is not a file of a sweep: {error}. Move it away, then start again."
            raise errors.StorageError(text) from error
    new = []
    for row in rows:
        entry = files.to_json(row)
        old = before.pop((row.name, row.seed), {})
        equal = old.get("settings") == entry["settings"]
        done = old.get("status") == "done" and old.get("run") == row.run
        keep = row.exit is None and equal and (done or row.status == "waiting")
        new.append(old if keep else entry)
    content = files.to_json(about) | {"variants": [*before.values(), *new]}
    files.write_json(path, content, indent=2)


def format_results(sweep: Sweep) -> str:
    """Return the results of a sweep as a table for the screen."""
    head = ("name", "seed", "status", "exit", "steps", "return", "seconds", "log", "reason")
    rows = [head]
    for row in sweep.rows:
        code, seconds = ("-", "-") if row.exit is None else (str(row.exit), f"{row.seconds:.0f}")
        score = "-" if row.score is None else f"{row.score:.1f}"
        steps = f"{row.step:,}" if row.step else "-"
        log = str(Path(row.log).relative_to(sweep.folder)) if row.log else "-"
        cells = (row.name, str(row.seed), row.status, code, steps, score, seconds, log)
        rows.append((*cells, row.reason))
    return f"{align_columns(rows)}\nresults and logs: {sweep.folder}"
