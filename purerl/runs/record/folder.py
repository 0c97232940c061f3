"""The folder of a run: made once, never written over, with a word on its state.

runs/pendulum-v1-sac/pendulum-v1-sac_s0/
    config.json       complete; `--config` reads it back
    manifest.json     versions, machine, command, status
    progress.txt  metrics.jsonl  episodes.csv  stdout.log
    checkpoints/  replay/
"""

import itertools
import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from purerl import errors, mpi
from purerl.errors import ConfigError
from purerl.runs.console import clean_text
from purerl.runs.record import files, safe_files
from purerl.runs.record.machine import describe_machine
from purerl.runs.record.status import (
    format_command,
    is_running,
    read_status,
    read_user_defaults,
    write_status,
)
from purerl.runs.settings import config as configs
from purerl.runs.settings.config import Config

__all__ = ["create_folder", "update_status"]


def create_folder(
    config: Config,
    data_dir: str | None = None,
    datestamp: bool | None = None,
    say: Callable[[str], None] = lambda line: None,
) -> Path:
    """Make the folder of a new run and write its configuration; the first free name is taken.

    A run of the same name and seed that is not finished is not passed over silently: one that was
    running, stopped or killed is refused, of one that failed `say` is told.
    """
    parent, paths = _places(config, data_dir, datestamp)
    files.make_folder(parent)
    for path in paths:
        try:
            path.mkdir()
        except FileExistsError:
            _refuse_if_unfinished(path, say)
            continue
        except OSError as error:
            raise safe_files.explain_os_error(error, path) from error
        text = json.dumps(configs.to_json(config), indent=4) + "\n"
        files.replace_file(path / "config.json", text.encode())
        return path
    raise errors.StorageError(f"{parent} holds 9,999 runs of this name and seed.")


def refuse_unfinished(
    made: Sequence[Config], data_dir: str | None = None, datestamp: bool | None = None
) -> None:
    """Refuse runs that are there and not finished, all at once, before any of them is made."""
    wrong = []
    for config in made:
        _, paths = _places(config, data_dir, datestamp)
        for path in itertools.takewhile(os.path.exists, paths):
            try:
                _refuse_if_unfinished(path, lambda line: None)
            except ConfigError as error:
                wrong.append(str(error))
    if wrong:
        raise ConfigError("\n".join(wrong))


def _places(
    config: Config, data_dir: str | None, datestamp: bool | None
) -> tuple[Path, Iterator[Path]]:
    """Return the folder that a run's is in, and those that it may have, in their order."""
    defaults = read_user_defaults()
    stamp = defaults["datestamp"] if datestamp is None else datestamp
    day, moment = (time.strftime(f) if stamp else "" for f in ("%Y-%m-%d_", "%Y-%m-%d_%H-%M-%S-"))
    parent = Path(data_dir or defaults["data_dir"]).expanduser() / f"{day}{config.name}"
    name = f"{moment}{config.name}_s{config.seed}"
    return parent, (parent / f"{name}{f'-{n}' if n > 1 else ''}" for n in range(1, 10_000))


def _refuse_if_unfinished(path: Path, say: Callable[[str], None]) -> None:
    state = read_status(path)
    if state.get("status") in ("running", "stopped"):
        if is_running(path):
            raise ConfigError(
                f"{path} is running, in another process (step {state.get('step', 0):,}). "
                f"Start another beside it: --name other"
            )
        raise ConfigError(
            f"{path} exists and is not finished (step {state.get('step', 0):,}). "
            f"Continue: {format_command('resume', path)}   Start afresh: --name other"
        )
    if state.get("status") == "failed":
        why = clean_text(str(state.get("reason", "")), 200)
        say(f"{path} failed ({why}); to go on with it: {format_command('resume', path)}")


def update_status(run: Path, **entries: Any) -> None:
    """Change entries of `manifest.json`, on rank 0; None takes one away. It is always complete."""
    if mpi.is_root():
        content = (read_status(run) or describe_machine()) | entries
        write_status(run, {name: x for name, x in content.items() if x is not None})
