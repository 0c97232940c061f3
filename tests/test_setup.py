"""`purerl.setup`, and imports of the package that load and change as little as possible."""

import ast
import os
import subprocess
import sys

import jax
import pytest

import purerl


def python(code: str, **env: str) -> str:
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=os.environ | env
    )
    assert run.returncode == 0, run.stderr
    return run.stdout


def test_setup_sets_threads_dispatch_cache_and_devices(tmp_path):
    code = """
import os, purerl
purerl.setup(threads=1, cache=True, devices=2)
import jax
print(os.environ["NPROC"], len(jax.devices()), jax.config.values["jax_cpu_enable_async_dispatch"],
      jax.config.jax_persistent_cache_min_compile_time_secs, jax.config.jax_compilation_cache_dir)
jax.jit(lambda x: x * 2 + 1)(3.0)
"""
    printed = python(code, XDG_CACHE_HOME=str(tmp_path)).split()
    assert printed == ["1", "2", "False", "0.0", str(tmp_path / "purerl" / "jax")]
    assert any((tmp_path / "purerl" / "jax").iterdir())


def test_setup_can_leave_threads_and_cache_unchanged():
    code = """
import os, purerl
os.environ.pop("NPROC", None)
purerl.setup(threads=None, cache=False)
import jax
print(os.environ.get("NPROC"), jax.config.jax_compilation_cache_dir)
"""
    assert python(code).split() == ["None", "None"]


def test_a_late_setup_is_an_error():
    jax.devices()
    with pytest.raises(RuntimeError, match="must come before the first JAX computation"):
        purerl.setup(devices=3)
    with pytest.raises(ValueError, match="^threads must be an integer of at least 1"):
        purerl.setup(threads=0)
    with pytest.raises(ValueError, match="^devices must be an integer of at least 1"):
        purerl.setup(devices=0)


HEAVY = ("jax", "flax", "optax", "gymnasium", "mpi4py", "matplotlib", "mujoco", "chex")


LIGHT = ("purerl", "purerl.types", "purerl.schedules", "purerl.mpi", "purerl.mpi.world")
LIGHT += ("purerl.mpi.launch", "purerl.cli", "purerl.algos")
ALLOWED = dict.fromkeys(LIGHT, ()) | {
    "purerl.algos.td3": ("jax", "flax", "optax", "chex"),
    "purerl.loops.gym": ("jax", "flax", "optax", "chex", "gymnasium"),
}


def test_imports_do_not_load_heavy_packages():
    """One process imports one module after the other, those without heavy packages first."""
    code = f"""
import importlib, sys
found = {{}}
for module in {tuple(ALLOWED)!r}:
    importlib.import_module(module)
    found[module] = [name for name in {HEAVY!r} if name in sys.modules]
print(found)
"""
    found = ast.literal_eval(python(code))
    assert list(found) == list(ALLOWED)
    for module, loaded in found.items():
        assert set(loaded) <= set(ALLOWED[module]), module


def test_submodules_load_on_first_use():
    code = """
import sys, purerl
before = {name for name in sys.modules if name.startswith("purerl.")}
purerl.algos.td3.update, purerl.buffers.replay.add, purerl.loops.gym.start, purerl.loops.snapshot
purerl.mpi.pmean, purerl.mpi.shard_update, purerl.mpi.statistics, purerl.nets, purerl.returns
purerl.runs.training, purerl.runs.record, purerl.schedules.OffPolicySchedule, purerl.spaces.Box
print(before, all(hasattr(purerl.mpi, name) for name in purerl.mpi.__all__))
"""
    assert python(code).split() == ["{'purerl.lazy'}", "True"]


def test_importing_changes_no_setting_of_jax_and_starts_no_backend():
    code = """
import os, jax, gymnasium
before, environ = dict(jax.config.values), dict(os.environ)
import purerl.loops.gym, purerl.algos.td3, purerl.cli
print(before == dict(jax.config.values), environ == dict(os.environ))
jax.config.update("jax_num_cpu_devices", 2)  # raises once a backend exists
"""
    assert python(code).split() == ["True", "True"]


def test_the_package_works_without_mpi_library_mujoco_and_matplotlib():
    code = """
import sys
for name in ("mpi4py", "mujoco", "matplotlib", "Box2D"):
    sys.modules[name] = None
import gymnasium, purerl
from purerl.algos import td3
from purerl.loops import gym as loop
from purerl.schedules import OffPolicySchedule
from purerl.spaces import EnvSpec
env_fn = lambda: gymnasium.make("Pendulum-v1")
schedule = OffPolicySchedule(steps=100, steps_per_epoch=100, num_test_episodes=0)
spec = td3.Spec(EnvSpec.of(env_fn()), hidden=(8,))
print(next(loop.run(td3, spec, env_fn, schedule, 0))["steps"])
"""
    assert python(code).split() == ["100"]
