"""Where a run was made: versions, machine, and the commits of the checkouts it came from."""

import importlib.metadata
import os
import platform
import re
import sys
import time
from pathlib import Path
from typing import Any

PACKAGES = ("purerl", "jax", "jaxlib", "flax", "optax", "numpy", "gymnasium", "mujoco", "mpi4py")
_HASH = re.compile(r"[0-9a-f]{40,64}")


def list_versions() -> dict[str, str]:
    """Return the versions that decide about bits."""
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def describe_machine() -> dict[str, Any]:
    """Return what `manifest.json` says of the machine and of the process."""
    found: dict[str, Any] = {
        "versions": list_versions(),
        "system": platform.platform(),
        "machine": platform.machine(),
        "host": platform.node(),
        "cpu": _cpu(),
        "cores": os.cpu_count(),
        "threads": os.environ.get("NPROC", "all"),
        "command": sys.orig_argv,
        "started": time.strftime("%Y-%m-%d %H:%M:%S"),
    }
    package, here = Path(__file__).parents[3], Path.cwd()
    commits = {
        "purerl": read_commit(package),
        "here": next(filter(None, map(read_commit, (here, *here.parents))), ""),
    }
    return found | {"commits": {name: one for name, one in commits.items() if one}}


def _cpu() -> str:
    """Return the model of the processor, or nothing where the system does not say."""
    try:
        text = Path("/proc/cpuinfo").read_text(errors="replace")
    except OSError:
        return platform.processor()
    model = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    return model[1].strip() if model else platform.processor()


def read_commit(folder: Path) -> str:
    """Return the commit that is checked out in a folder, read without git; nothing if it is none.

    What was changed since is not in it.
    """
    try:
        git = folder / ".git"
        if git.is_file():  # of another working tree: a file that names the folder
            git = folder / git.read_text().removeprefix("gitdir:").strip()
        common = git / "commondir"
        shared = git / common.read_text().strip() if common.is_file() else git
        head = (git / "HEAD").read_text().strip()
        name = head.removeprefix("ref:").strip()
        if name != head:
            head = _of_branch(shared, name)
    except (OSError, UnicodeDecodeError):
        return ""
    return head if _HASH.fullmatch(head) else ""


def _of_branch(git: Path, name: str) -> str:
    if (git / name).is_file():
        return (git / name).read_text().strip()
    lines = (git / "packed-refs").read_text().splitlines()
    return next((line.split()[0] for line in lines if line.endswith(f" {name}")), "")
