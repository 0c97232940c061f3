"""Runs of older versions, which have a `manifest.json`, are listed, loaded and resumed.

The runs in `fixtures` have 120 steps, with checkpoints at 60 and 120.
"""

import shutil
from pathlib import Path

import numpy as np
import pytest

import purerl
from purerl.runs.record import checkpoint, checkpoint_folders, status
from purerl.runs.record.machine import describe_machine, list_versions
from purerl.runs.training import train
from purerl.runs.training.progress_bar import Screen
from tests.mpi.launch import python

FIXTURES = Path(__file__).parent / "fixtures"
ROUNDED = ("sac",)  # since these runs, its log-densities have other rounding errors
DECISIVE = ("python", "jax", "jaxlib", "numpy", "flax", "optax")  # versions that affect results


@pytest.fixture(params=["sac", pytest.param("ppo", marks=pytest.mark.complete)])
def old(request):
    return FIXTURES / request.param / f"{request.param}_s3"


def read_arrays(run, step):
    frozen = checkpoint.load(run, {}, 0, step).frozen
    return frozen.learner | frozen.host | (frozen.rows or {})


def is_same_machine(state):
    versions = list_versions()
    same = all(state["versions"][name] == versions[name] for name in DECISIVE)
    return same and state["cpu"] == describe_machine()["cpu"]


def test_an_old_run_is_listed_as_done(old):
    (found,) = status.list_runs(old)
    algo = old.parent.name
    assert (found.algo, found.seed, found.status) == (algo, 3, "done")
    assert (found.step, found.steps) == (120, 120)
    assert found.score is not None


def test_an_old_run_is_loaded_at_its_last_checkpoint(old):
    run = purerl.load(old)
    assert run.step == 120
    env = run.config.spec.env
    action = run.policy(np.zeros(env.obs_shape, env.obs_dtype))
    assert np.isfinite(action).all()


def resume_here(run):
    return train.resume(run, at=60, screen=Screen(quiet=True)).code


def resume_as_users_do(run):
    """Resume on the command line with the compiler's defaults, for bit for bit equality."""
    done = python("-m", "purerl", "resume", str(run), "--checkpoint", "60", XLA_FLAGS="")
    assert not done.err, done.err
    return done.code


@pytest.mark.parametrize(
    "resume", [pytest.param(resume_here, marks=pytest.mark.complete), resume_as_users_do]
)
def test_a_resumed_old_run_ends_like_the_original(old, tmp_path, resume):
    run = tmp_path / old.name
    shutil.copytree(old, run)
    assert (resume(run), checkpoint_folders.list_steps(run)) == (0, [60, 120])
    state, then = status.read_status(run), status.read_status(old)
    assert (state["status"], state["command"]) == ("done", then["command"])
    assert (run / "status.json").exists()
    assert not (run / "manifest.json").exists()
    found, wanted = read_arrays(run, 120), read_arrays(old, 120)
    assert found.keys() == wanted.keys()
    exact = is_same_machine(then) and resume is resume_as_users_do
    exact &= old.parent.name not in ROUNDED
    for name, x in wanted.items():
        assert (found[name].shape, found[name].dtype) == (x.shape, x.dtype), name
        if exact or x.dtype.kind != "f":
            np.testing.assert_array_equal(found[name], x, err_msg=name)
        else:
            np.testing.assert_allclose(found[name], x, rtol=1e-3, atol=1e-3, err_msg=name)
