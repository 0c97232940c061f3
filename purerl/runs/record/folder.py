"""The folder of a run, `data_dir/name/name_s<seed>`: made once and never overwritten."""

import contextlib
import itertools
import os
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from purerl import mpi
from purerl.errors import ConfigError, RunLost, StorageError
from purerl.runs.console import clean_text
from purerl.runs.record import files, safe_files, status
from purerl.runs.record.machine import describe_machine


def create_folder(
    content: dict[str, Any],
    data_dir: str | None = None,
    datestamp: bool | None = None,
    say: Callable[[str], None] = lambda line: None,
) -> Path:
    """Create the folder of a new run under the first free name, and write its configuration.

    Earlier runs of this name and seed must be finished; `say` receives a line about a failed one.
    `data_dir` is the folder of all runs. With `datestamp`, names begin with date and time. None
    means the user's default.
    """
    paths = _list_candidates(content, data_dir, datestamp)
    for path in paths:
        files.make_folder(path.parent)
        with safe_files.explain_errors(path), contextlib.suppress(FileExistsError):
            path.mkdir()
            files.write_json(path / "config.json", content)
            return path
        _check_earlier_run(path, say)
    raise StorageError(f"{path.parent} has 9,999 runs of this name and seed. Use another name.")


def check_earlier_runs(
    contents: Sequence[dict[str, Any]], data_dir: str | None = None, datestamp: bool | None = None
) -> None:
    """Refuse runs that exist and are not finished; report all of them at once."""
    wrong = []
    for content in contents:
        paths = _list_candidates(content, data_dir, datestamp)
        for path in itertools.takewhile(os.path.exists, paths):
            try:
                _check_earlier_run(path)
            except ConfigError as error:
                wrong.append(str(error))
    if wrong:
        raise ConfigError("\n".join(wrong))


def _list_candidates(
    content: dict[str, Any], data_dir: str | None, datestamp: bool | None
) -> Iterator[Path]:
    """Return the possible folders of a run, in the order of preference."""
    defaults = status.read_user_defaults()
    stamp = defaults["datestamp"] if datestamp is None else datestamp
    day, moment = (time.strftime(f) if stamp else "" for f in ("%Y-%m-%d_", "%Y-%m-%d_%H-%M-%S-"))
    parent = status.expand_home(data_dir or defaults["data_dir"]) / f"{day}{content['name']}"
    name = f"{moment}{content['name']}_s{content['seed']}"
    return (parent / f"{name}{f'-{n}' if n > 1 else ''}" for n in range(1, 10_000))


def _check_earlier_run(path: Path, say: Callable[[str], None] = lambda line: None) -> None:
    """Refuse a new run if this one is not finished; give `say` a line if it failed."""
    state = status.read_status(path)
    command = status.format_command("resume", path)
    if state.get("status") in ("running", "stopped"):
        what = f"exists and is not finished (step {state.get('step', 0):,}). "
        way = f"Continue: {command}   Start a new run: --name other"
        if status.is_running(path):
            what = f"is running in another process (step {state.get('step', 0):,}). "
            way = "Start a second run: --name other"
        raise ConfigError(f"{path} {what}{way}")
    if status.is_damaged(path):
        say(f"warning: {path} has a damaged {status.STATUS}, so it may be unfinished: {command}")
    if state.get("status") == "failed":
        why = clean_text(str(state.get("reason", "")), 200)
        say(f"an earlier run failed ({why}): {path}. Continue: {command}")


def identify(run: Path) -> tuple[int, int] | None:
    """Return numbers that differ between two folders at the same path; None without a folder."""
    try:
        found = run.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def check_files(run: Path, place: tuple[int, int] | None) -> None:
    """Raise `RunLost` unless the folder is the one of `place` and has its configuration."""
    if place is None or identify(run) != place:
        raise RunLost(
            f"{run} was deleted or moved while its run was training, so nothing more can be saved. "
            f"If you moved it, continue there: purerl resume NEW_FOLDER"
        )
    if not (path := run / "config.json").exists():
        raise RunLost(
            f"{path} was deleted or moved while its run was training. No checkpoint can be used "
            f"without it. Put it back, then continue the run."
        )


def update_status(run: Path, **entries: Any) -> None:
    """Change entries of a run's status file on rank 0; None or NaN removes an entry."""
    if mpi.is_root():
        content = files.to_json((status.read_status(run) or describe_machine()) | entries)
        status.write_status(run, {name: x for name, x in content.items() if x is not None})
