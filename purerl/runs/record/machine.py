"""Facts about the machine and the program that made a run: versions, processor, commits."""

import importlib.util
import os
import platform
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

# Settings of JAX that change the numbers of a program.
JAX_SETTINGS = (
    *("jax_enable_x64", "jax_default_prng_impl", "jax_threefry_partitionable"),
    *("jax_random_seed_offset", "jax_default_matmul_precision", "jax_disable_jit"),
)
_VECTOR_INSTRUCTIONS = re.compile(r"avx|fma|f16c|sse4|amx|asimd|sve|bf16")
EXTRAS = {  # extra of purerl -> one of the modules that it installs
    "mpi": "mpi4py",
    "classic": "pygame",
    "plot": "matplotlib",
    "video": "PIL",
    "export": "flatbuffers",
    "tensorboard": "tensorboardX",
    "wandb": "wandb",
    "mujoco": "mujoco",
    "box2d": "Box2D",
    "robotics": "gymnasium_robotics",
}
PACKAGES = ("purerl", "jax", "jaxlib", "flax", "optax", "numpy", "gymnasium", "mujoco", "mpi4py")


def list_versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that affect results."""
    from importlib import metadata  # start-up time

    installed = {name: [*metadata.distributions(name=name)] for name in PACKAGES}
    found = {name: copies[0].version for name, copies in installed.items() if copies}
    return {"python": platform.python_version(), **found}


def explain_missing(extra: str) -> str:
    """Return the command that installs an extra; empty if it is installed."""
    is_missing = importlib.util.find_spec(EXTRAS[extra]) is None
    return f"pip install 'purerl[{extra}]'" if is_missing else ""


def list_settings() -> dict[str, str]:
    """Return what else decides about the last bits of results: JAX's settings, the processor.

    It starts JAX. Compilers choose instructions by what the processor has, and other instructions
    round in another order.
    """
    import jax  # for commands that need no JAX

    known = [name for name in JAX_SETTINGS if hasattr(jax.config, name)]
    found = {name: str(getattr(jax.config, name)) for name in known}
    return found | {
        "platform": jax.default_backend(),
        "XLA_FLAGS": read_flags(),
        "threads": os.environ.get("NPROC", "all"),
        "vector_instructions": list_instructions(),
    }


def read_flags() -> str:
    """Return the flags of the XLA compiler, or `unset`."""
    return " ".join(os.environ.get("XLA_FLAGS", "").split()) or "unset"


def name_processor() -> str:
    """Return the model of the processor; empty if it is unknown."""
    return _read_cpuinfo("model name") or platform.processor()


def list_instructions() -> str:
    """Return the vector instructions of the processor, or `unknown`."""
    names = _read_cpuinfo("flags|Features").split()
    return " ".join(sorted(filter(_VECTOR_INSTRUCTIONS.match, names))) or "unknown"


def _read_cpuinfo(entry: str) -> str:
    """Return the first entry of `/proc/cpuinfo` whose name matches; empty if there is none."""
    path = Path("/proc/cpuinfo")
    text = path.read_text(errors="replace") if path.exists() else ""
    found = re.search(rf"^(?:{entry})\s*:\s*(.+)$", text, re.MULTILINE)
    return found[1].strip() if found else ""


def list_differences(state: dict[str, Any]) -> list[str]:
    """Return a line for each version and setting that differs from those in a run's status.

    An entry that the status does not have, as in runs of older versions, is not compared.
    """
    pairs = (("versions", list_versions()), ("settings", list_settings()))
    found = []
    for kind, now in pairs:
        known = state.get(kind)
        then = known if isinstance(known, dict) else {}
        for name, value in now.items():
            if (before := then.get(name, value)) != value:
                found.append(f"{name} was {before} and is {value}.")
    return found


def describe_machine() -> dict[str, Any]:
    """Return the entries of `status.json` about the machine and the process."""
    package = Path(__file__).parents[3]
    commits = {
        "purerl": read_commit(package) if (package / ".git").exists() else "",  # a source tree
        "here": read_commit(Path(".")),  # which may be deleted
    }
    return {
        "versions": list_versions(),
        "system": platform.platform(),
        "machine": platform.machine(),
        "host": platform.node(),
        "cpu": name_processor(),
        "cores": os.cpu_count(),
        "threads": os.environ.get("NPROC", "all"),
        "command": sys.orig_argv,
        "started": time.strftime("%Y-%m-%d %H:%M:%S"),
        "commits": {name: commit for name, commit in commits.items() if commit},
    }


def read_commit(folder: Path) -> str:
    """Return the commit that is checked out in a folder; empty without git or a repository."""
    command = ["git", "-C", str(folder), "rev-parse", "--verify", "--quiet", "HEAD"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
