"""The folder of a run: made once, never written over, with a word on its state.

runs/pendulum-v1-sac/pendulum-v1-sac_s0/
    config.json       complete; `--config` reads it back
    manifest.json     versions, machine, command, status
    progress.txt  metrics.jsonl  episodes.csv  stdout.log
    checkpoints/  replay/
"""

import importlib.metadata
import json
import os
import platform
import sys
import time
from pathlib import Path
from typing import Any

from purerl import mpi
from purerl.runs import config as configs
from purerl.runs import storage
from purerl.runs.config import Config
from purerl.runs.places import ConfigError, status, user_defaults, write_status

__all__ = ["create", "set_status", "status", "versions"]

PACKAGES = ("purerl", "jax", "jaxlib", "flax", "optax", "numpy", "gymnasium", "mujoco", "mpi4py")


def create(config: Config, data_dir: str | None = None, datestamp: bool | None = None) -> Path:
    """Make the folder of a new run and write its configuration; the first free name is taken.

    A run of the same name and seed that is not finished is not passed over silently.
    """
    defaults = user_defaults()
    stamp = defaults["datestamp"] if datestamp is None else datestamp
    day, moment = (time.strftime(f) if stamp else "" for f in ("%Y-%m-%d_", "%Y-%m-%d_%H-%M-%S-"))
    parent = Path(data_dir or defaults["data_dir"]).expanduser() / f"{day}{config.name}"
    storage.folder(parent)
    for number in range(1, 10_000):
        again = "" if number == 1 else f"-{number}"
        path = parent / f"{moment}{config.name}_s{config.seed}{again}"
        try:
            path.mkdir()
        except FileExistsError:
            _refuse_unfinished(path)
            continue
        except OSError as error:
            raise storage.explained(error, path) from error
        text = json.dumps(configs.to_json(config), indent=4) + "\n"
        storage.replace(path / "config.json", text.encode())
        return path
    raise storage.StorageError(f"{parent} holds 9,999 runs of this name and seed.")


def _refuse_unfinished(path: Path) -> None:
    state = status(path)
    if state.get("status") in ("running", "stopped"):
        raise ConfigError(
            f"{path} exists and is not finished (step {state.get('step', 0):,}). "
            f"Continue: purerl resume {path}   Start afresh: --name other"
        )


def set_status(run: Path, **entries: Any) -> None:
    """Change entries of `manifest.json`, on rank 0; the file is always complete."""
    if mpi.is_root():
        write_status(run, (status(run) or _machine()) | entries)


def versions() -> dict[str, str]:
    """Return the versions that decide about bits."""
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def _machine() -> dict[str, Any]:
    return {
        "versions": versions(),
        "system": platform.platform(),
        "machine": platform.machine(),
        "host": platform.node(),
        "cores": os.cpu_count(),
        "threads": os.environ.get("NPROC", "all"),
        "command": sys.orig_argv,
        "started": time.strftime("%Y-%m-%d %H:%M:%S"),
    }
