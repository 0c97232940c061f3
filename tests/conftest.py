"""Strict JAX for all tests: one thread, the CPU, no silent rank promotion."""
# ruff: noqa: E402 - the environment must be set before JAX is imported

import itertools
import os
import signal
from pathlib import Path

# Compiled programs, shared by all workers, the processes that tests start, and the next session.
CACHE = Path(__file__).parents[1] / ".pytest_cache" / "xdg"
os.environ["XDG_CACHE_HOME"] = os.environ.get("PURERL_TEST_CACHE", str(CACHE))
os.environ["JAX_PLATFORMS"] = "cpu"
# Compile four times as fast, to slower programs; `make test-all` tests what users run.
QUICK_COMPILER = (
    "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"
    " --xla_cpu_use_fusion_emitters=false"
)
os.environ.setdefault("XLA_FLAGS", QUICK_COMPILER)  # an empty value selects the default compiler

import jax
import pytest

import purerl
from purerl.spaces import Box, EnvSpec

purerl.setup(threads=1, cache=True, devices=2)
jax.config.update("jax_numpy_rank_promotion", "raise")


# Under nohup, or behind `&` in a script, Ctrl-C is ignored, and by everything that the tests start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

_tests = itertools.count(1)


@pytest.fixture(autouse=True)
def _free_programs():
    """Forget compiled programs before Linux runs out of memory maps for them.

    Each takes some, a process may have 65,530, and jaxlib aborts at the next compilation.
    """
    yield
    maps = Path("/proc/self/maps")
    if next(_tests) % 10 == 0 and maps.exists() and maps.read_bytes().count(b"\n") > 45_000:
        jax.clear_caches()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Run the tests that share a fixture of their module in one worker (`--dist loadgroup`)."""
    for item in items:
        fixtures = item._fixtureinfo.name2fixturedefs.values()
        if any(fixture.scope == "module" for same_name in fixtures for fixture in same_name):
            item.add_marker(pytest.mark.xdist_group(item.path.stem))


@pytest.fixture
def key():
    return jax.random.key(0)


@pytest.fixture
def env():
    """Two asymmetric action dimensions, so that a scale applied wrongly shows."""
    return EnvSpec(obs_shape=(3,), action=Box(low=(-2.0, 0.0), high=(2.0, 1.0)))
