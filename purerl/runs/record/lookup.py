"""Find the run that a path means, without importing JAX."""

from pathlib import Path
from typing import Any

from purerl.errors import ConfigError, Damaged
from purerl.runs.record import status


def read_config(folder: Path) -> dict[str, Any]:
    """Read the `config.json` of a run.

    Raises:
        ConfigError: if the folder is not a run; the message names runs that may have been meant.
    """
    if not (folder / "config.json").is_file():
        raise ConfigError(explain_no_run(folder))
    try:
        return status.read_json(folder / "config.json")
    except Damaged as error:
        raise ConfigError(f"{folder} is no run: {error}") from error


def explain_no_run(folder: Path) -> str:
    """Return why a path is not a run, and which runs may have been meant."""
    below = [str(one.path) for one in status.list_runs(folder)] if folder.is_dir() else []
    hint = f" Runs in it: {', '.join(below[:5])}." if below else ""
    if meant := [] if below else _guess_runs(folder.name):
        hint = f" Did you mean {' or '.join(meant[:5])}?"
    return f"{folder} is no run: it has no config.json.{hint}"


def _guess_runs(name: str) -> list[str]:
    """Return the runs in the data folder that have a name."""
    try:
        data_dir = Path(status.read_user_defaults()["data_dir"]).expanduser()
    except (ConfigError, Damaged):
        return []
    runs = [one.path for one in status.list_runs(data_dir)] if data_dir.is_dir() else []
    return [str(run) for run in runs if name in (run.name, run.parent.name)]
