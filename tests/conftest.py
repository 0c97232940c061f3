"""Strict JAX for all tests: one thread, the CPU, no silent rank promotion."""
# ruff: noqa: E402 - the environment must be set before JAX is imported

import os
from pathlib import Path

# Compiled programs, shared with the scripts that the tests run (and by the mutants).
CACHE = Path(__file__).parents[1] / ".pytest_cache" / "xdg"
os.environ["XDG_CACHE_HOME"] = os.environ.get("PURERL_TEST_CACHE", str(CACHE))
os.environ["JAX_PLATFORMS"] = "cpu"

import jax
import pytest

import purerl
from purerl.types import Box, EnvSpec

# Thousands of programs in one process: not written to the cache, since jaxlib aborted once in
# doing so. The scripts that tests run, and the mutants, have one each and share them.
purerl.setup(threads=1, cache="PURERL_TEST_CACHE" in os.environ)
jax.config.update("jax_numpy_rank_promotion", "raise")


@pytest.fixture
def key():
    return jax.random.key(0)


@pytest.fixture
def env():
    """Two asymmetric action dimensions, so that a scale applied wrongly shows."""
    return EnvSpec(obs_shape=(3,), action=Box(low=(-2.0, 0.0), high=(2.0, 1.0)))
