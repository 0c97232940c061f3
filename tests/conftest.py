"""Strict JAX for all tests: one thread, the CPU, no silent rank promotion."""
# ruff: noqa: E402 - the environment must be set before JAX is imported

import gc
import itertools
import os
import signal
from pathlib import Path

# Compiled programs, shared by all workers, the processes that tests start, and the next session.
CACHE = Path(__file__).parents[1] / ".pytest_cache" / "xdg"
os.environ["XDG_CACHE_HOME"] = os.environ.get("PURERL_TEST_CACHE", str(CACHE))
os.environ["JAX_PLATFORMS"] = "cpu"
# Deprecated functions are errors in the processes that tests start, too.
DEPRECATED = ("DeprecationWarning", "PendingDeprecationWarning", "FutureWarning")
os.environ.setdefault("PYTHONWARNINGS", ",".join(f"error::{name}" for name in DEPRECATED))

from purerl import compiler

# `make test-all` tests the programs that users run: an empty value selects the default compiler.
if "XLA_FLAGS" not in os.environ:
    os.environ["XLA_FLAGS"] = compiler.select_flags(compiler.TEST_FLAGS)

import jax
import pytest

import purerl
from purerl.spaces import Box, EnvSpec

purerl.setup(threads=1, cache=True, devices=2)
gc.set_threshold(100_000, 50, 1_000)  # each collection visits millions of objects of JAX
jax.config.update("jax_numpy_rank_promotion", "raise")


# Under nohup, or behind `&` in a script, all processes of the tests would ignore these signals.
for number, handler in (
    (signal.SIGINT, signal.default_int_handler),
    (signal.SIGHUP, signal.SIG_DFL),
):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, handler)

_tests = itertools.count(1)


@pytest.fixture(autouse=True)
def _free_programs():
    """Forget compiled programs before Linux runs out of memory maps for them.

    Each takes some, a process may have 65,530, and jaxlib aborts at the next compilation.
    """
    yield
    maps = Path("/proc/self/maps")
    if next(_tests) % 20 == 0 and maps.exists() and maps.read_bytes().count(b"\n") > 35_000:
        jax.clear_caches()


# Files with few but slow tests begin, so that no worker waits for another one at the end.
SLOW = ("test_readme.py", "test_ranks.py", "test_examples.py", "test_programs.py", "test_sweep.py")


def pytest_collection_modifyitems(items):
    """Run slow files first."""
    items.sort(key=lambda item: item.path.name not in SLOW)


def pytest_xdist_make_scheduler(config, log):
    """Give each file to one worker, and each algorithm of the contract and of the probes.

    Their tests share compiled programs and fixtures of the module.
    """
    from xdist.scheduler import LoadScopeScheduling

    config.option.loadscopereorder = False

    class ByFile(LoadScopeScheduling):
        def _split_scope(self, nodeid):
            file, _, rest = nodeid.partition("::")
            group = "tests/contract" if file.startswith("tests/contract/") else file
            if group == "tests/contract" or file.endswith("test_probes.py"):
                case = rest.partition("[")[2].partition("]")[0]
                return f"{group} {case.partition('-')[0]}"
            return group

    return ByFile(config, log)


@pytest.fixture
def key():
    return jax.random.key(0)


@pytest.fixture
def env():
    """Two asymmetric action dimensions, so that a scale applied wrongly shows."""
    return EnvSpec(obs_shape=(3,), action=Box(low=(-2.0, 0.0), high=(2.0, 1.0)))
