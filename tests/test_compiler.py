"""Options and flags of XLA: only those that the installed library accepts are used."""

import os
import subprocess
import sys

import jax
import pytest

from purerl import compiler

KNOWN, UNKNOWN = "--xla_backend_optimization_level=0", "--xla_no_such_flag=true"


@pytest.fixture
def default_flags(monkeypatch):
    monkeypatch.setenv("XLA_FLAGS", "")


def test_options_that_xla_does_not_know_are_left_out(default_flags):
    wanted = {"xla_no_such_option": 1, "xla_backend_optimization_level": 1}
    assert compiler.select_options(wanted) == {"xla_backend_optimization_level": 1}


def test_an_option_in_xla_flags_keeps_the_value_of_the_user(monkeypatch):
    name = "xla_backend_optimization_level"
    for flags in (f"--xla_cpu_max_isa=AVX2 --{name}=0", ""):
        monkeypatch.setenv("XLA_FLAGS", flags)
        for options in (compiler.FAST, compiler.QUICK):
            assert compiler.select_options(options).get(name) == (None if flags else options[name])
        assert compiler.select_options(compiler.FAST)["xla_cpu_prefer_vector_width"] == 512


def test_an_option_is_asked_once(default_flags, monkeypatch):
    compiler.select_options(compiler.FAST)
    monkeypatch.setattr(jax, "jit", None)
    assert compiler.select_options(compiler.FAST)


def test_programs_are_compiled_with_their_options(default_flags, monkeypatch):
    asked, jit = [], jax.jit
    monkeypatch.setattr(jax, "jit", lambda *args, **options: asked.append(options) or jit(*args))
    assert compiler.jit_fast(lambda x: x + 1)(2) == 3
    assert asked[-1] == {"compiler_options": compiler.select_options(compiler.FAST)}

    @compiler.jit_quickly()
    def add(x, y):
        """Add."""
        return x + y

    assert len(asked) == 1  # not before the first call
    assert add(1, 2) + add(3, 4) == 10
    assert asked[1:] == [{"compiler_options": compiler.select_options(compiler.QUICK)}]
    assert (add.__name__, add.__doc__) == ("add", "Add.")


def test_flags_that_xla_does_not_know_are_left_out():
    assert compiler.select_flags((UNKNOWN, KNOWN)) == KNOWN
    assert compiler.select_flags(()) == ""


def test_a_process_starts_with_the_flags_of_the_tests():
    for flags, starts in ((os.environ["XLA_FLAGS"], True), (UNKNOWN, False)):
        program = "import jax; jax.numpy.zeros(2)"
        env = os.environ | {"XLA_FLAGS": flags}
        done = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True)
        assert (done.returncode == 0) == starts


def test_importing_the_loops_does_not_start_jax():
    program = (
        "from purerl.loops import gym, scan; import jax\n"
        "jax.config.update('jax_num_cpu_devices', 2)"  # refused after a start
    )
    env = os.environ | {"XLA_FLAGS": ""}  # no option would be asked if the flags set it
    assert subprocess.run([sys.executable, "-c", program], env=env).returncode == 0
