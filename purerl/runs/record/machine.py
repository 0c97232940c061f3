"""Facts about the machine and the program that made a run: versions, processor, commits."""

import os
import platform
import re
import subprocess
import sys
import time
from importlib import metadata
from pathlib import Path
from typing import Any

PACKAGES = ("purerl", "jax", "jaxlib", "flax", "optax", "numpy", "gymnasium", "mujoco", "mpi4py")


def list_versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that affect results."""
    installed = {name: [*metadata.distributions(name=name)] for name in PACKAGES}
    found = {name: copies[0].version for name, copies in installed.items() if copies}
    return {"python": platform.python_version(), **found}


def describe_machine() -> dict[str, Any]:
    """Return the entries of `status.json` about the machine and the process."""
    package = Path(__file__).parents[3]
    commits = {
        "purerl": read_commit(package) if (package / ".git").exists() else "",  # a source tree
        "here": read_commit(Path.cwd()),
    }
    return {
        "versions": list_versions(),
        "system": platform.platform(),
        "machine": platform.machine(),
        "host": platform.node(),
        "cpu": read_cpu(),
        "cores": os.cpu_count(),
        "threads": os.environ.get("NPROC", "all"),
        "command": sys.orig_argv,
        "started": time.strftime("%Y-%m-%d %H:%M:%S"),
        "commits": {name: commit for name, commit in commits.items() if commit},
    }


def read_cpu() -> str:
    """Return the model of the processor, or an empty text if it is unknown."""
    path = Path("/proc/cpuinfo")
    text = path.read_text(errors="replace") if path.exists() else ""
    model = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    return model[1].strip() if model else platform.processor()


def read_commit(folder: Path) -> str:
    """Return the commit that is checked out in a folder; empty without git or a repository."""
    command = ["git", "-C", str(folder), "rev-parse", "--verify", "--quiet", "HEAD"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
