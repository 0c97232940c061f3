"""The status of runs and the user's defaults; read without importing JAX.

A run's `status.json` contains versions, machine, command, status and step. Older runs have a
`manifest.json` instead, which the first write replaces.
"""

import fcntl
import hashlib
import json
import math
import os
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from purerl import errors
from purerl.errors import ConfigError, Damaged
from purerl.runs.record import files, safe_files

STATUS, OLD_STATUS = "status.json", "manifest.json"
USER_FILE = Path("~/.config/purerl.json")
MAX_CONFIG = 2**20  # bytes
DEFAULTS = {"data_dir": "runs", "datestamp": False}


class RunStatus(NamedTuple):
    """A run as `purerl list runs` shows it."""

    path: Path
    algo: str
    env: str
    seed: int
    status: str  # running, done, stopped, failed, or killed
    step: int
    steps: int
    score: float | None
    reason: str


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON file that holds an object."""
    try:
        content = json.loads(files.read_text(path, MAX_CONFIG))
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path} is no JSON: {error}") from error
    if not isinstance(content, dict):
        raise ConfigError(f"{path} must hold an object, got {type(content).__name__}.")
    return content


def read_user_defaults() -> dict[str, Any]:
    """Return `data_dir` and `datestamp`: from the environment, the user's file, or our own.

    `PURERL_DATA_DIR` and `PURERL_DATESTAMP` (0 or 1) come first, then `~/.config/purerl.json`, or
    the file that `PURERL_CONFIG` names.
    """
    found: dict[str, Any] = dict(DEFAULTS)
    path = Path(os.environ.get("PURERL_CONFIG", USER_FILE)).expanduser()
    for name, value in read_json(path).items() if path.exists() else ():
        if type(value) is not type(DEFAULTS.get(name)):
            raise ConfigError(
                f"{path}: known are data_dir (a word) and datestamp (true or false), got "
                f"{name!r}: {value!r}."
            )
        found[name] = value
    found["data_dir"] = os.environ.get("PURERL_DATA_DIR", found["data_dir"])
    stamp = os.environ.get("PURERL_DATESTAMP", "")
    if stamp not in ("", "0", "1"):
        raise ConfigError(f"PURERL_DATESTAMP must be 0 or 1, got {stamp!r}.")
    found["datestamp"] = stamp == "1" if stamp else found["datestamp"]
    return found


def read_status(run: Path) -> dict[str, Any]:
    """Return the entries of a run's status file; empty if it is missing or was changed."""
    try:
        content = read_json(run / (STATUS if os.path.lexists(run / STATUS) else OLD_STATUS))
    except (ConfigError, errors.Damaged):
        return {}
    return content if content.pop("sha256", None) == hash_status(content) else {}


def read_settings(run: Path) -> dict[str, Any]:
    """Return the settings of a run: its `config.json`, or the task of a sweep over a function.

    Such a function may write a `config.json` of its own, as Spinning Up's loggers do.
    """
    task = read_status(run).get("task")
    return task if isinstance(task, dict) else read_json(run / "config.json")


def write_status(run: Path, content: dict[str, Any]) -> None:
    """Write the status file of a run, with a checksum of its entries."""
    sealed = content | {"sha256": hash_status(content)}
    files.write_json(run / STATUS, sealed, indent=2)
    if (run / OLD_STATUS).is_file():
        files.remove(run / OLD_STATUS)


def hash_status(content: dict[str, Any]) -> str:
    """Return the checksum of the other entries of a status file."""
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()


def format_command(verb: str, run: Path, *more: str, ranks: Any = None) -> str:
    """Return the command line to type for a run.

    Args:
        verb: name of the command.
        run: folder of the run.
        *more: further arguments.
        ranks: number of processes; None for that of the run's status file.
    """
    try:
        env = str(read_json(run / "config.json").get("env", ""))
    except (ConfigError, errors.Damaged):
        env = ""
    words = ["purerl", verb, str(run), *more]
    if ":" in env and verb != "plot":
        words += ["--env", env]
    ranks = ranks or read_status(run).get("ranks", 1)
    if ranks != 1 and verb == "resume":
        words += ["--num-cpu", str(ranks)]
    return shlex.join(words)


def list_runs(data_dir: Path) -> Iterator[RunStatus]:
    """Find the runs below a folder, with the status of each."""
    for path in sorted(data_dir.rglob("config.json")):
        try:
            run = path.parent
            config, state = read_settings(run), read_status(run)
            found = state.get("status", "unknown")
            if found == "running" and not is_running(run):
                found = "killed"
            score = state.get("score")
            yield RunStatus(
                run,
                str(config["algo"]),
                str(config["env"]),
                int(config["seed"]),
                str(found),
                int(state.get("step", 0)),
                int(state.get("steps", config["schedule"]["steps"])),
                float(score) if score is not None and math.isfinite(score) else None,
                str(state.get("reason", "")),
            )
        except (ConfigError, errors.Damaged, KeyError, TypeError, ValueError, OverflowError):
            continue  # a config.json of another program


def is_running(run: Path) -> bool:
    """Return whether a process holds the lock of a run."""
    try:
        with safe_files.open_file(run / ".lock") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
    except errors.Damaged:
        pass  # no lock, or a file that cannot be one
    return False


def read_config(folder: Path) -> dict[str, Any]:
    """Read the `config.json` of a run.

    Raises:
        ConfigError: if the folder is not a run; the message names runs that may have been meant.
    """
    if not (folder / "config.json").is_file():
        raise ConfigError(explain_no_run(folder))
    try:
        return read_json(folder / "config.json")
    except Damaged as error:
        raise ConfigError(f"{folder} is no run: {error}") from error


def explain_no_run(folder: Path) -> str:
    """Return why a path is not a run, and which runs may have been meant."""
    below = [str(one.path) for one in list_runs(folder)] if folder.is_dir() else []
    hint = f" Runs in it: {', '.join(below[:5])}." if below else ""
    if meant := [] if below else _guess_runs(folder.name):
        hint = f" Did you mean {' or '.join(meant[:5])}?"
    return f"{folder} is no run: it has no config.json.{hint}"


def _guess_runs(name: str) -> list[str]:
    """Return the runs in the data folder that have a name."""
    try:
        data_dir = Path(read_user_defaults()["data_dir"]).expanduser()
    except (ConfigError, Damaged):
        return []
    runs = [one.path for one in list_runs(data_dir)] if data_dir.is_dir() else []
    return [str(run) for run in runs if name in (run.name, run.parent.name)]
