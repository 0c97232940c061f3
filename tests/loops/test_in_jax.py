"""The adapter over environments in JAX: what counts as one, limits, lengths of programs."""

import dataclasses

import numpy as np
import pytest

from purerl.envs.bit_flipping import BitFlipping
from purerl.envs.classic.cartpole import CartPole
from purerl.loops.adapters import in_jax
from tests.loops.scan.drift import Drift


def test_only_objects_with_all_names_of_the_protocol_count():
    assert in_jax.is_jax_env(CartPole())
    assert in_jax.is_jax_env(BitFlipping())
    assert not in_jax.is_jax_env(CartPole)
    assert not in_jax.is_jax_env(CartPole().step)
    assert not in_jax.is_jax_env("jax:CartPole-v1")


def test_an_error_names_what_an_object_lacks():
    class Half:
        spec = reset = step = None

    with pytest.raises(ValueError, match="lacks max_steps, params"):
        in_jax.check_env(Half())
    with pytest.raises(ValueError, match="spec of the environment must be an EnvSpec"):
        in_jax.check_env(type("Whole", (Half,), {"max_steps": 3, "params": None})())
    with pytest.raises(ValueError, match=r"got the class CartPole\. Make one: CartPole\(\)"):
        in_jax.check_env(CartPole)
    with pytest.raises(ValueError, match="must be hashable"):
        in_jax.check_env(dataclasses.replace(Drift(), max_steps=np.zeros(2)))


def test_the_smaller_limit_counts():
    for own, given, expected in ((7, None, 7), (7, 3, 3), (7, 9, 7), (None, 3, 3)):
        assert in_jax.limit_steps(Drift(max_steps=own), given) == expected
    assert in_jax.limit_steps(Drift(max_steps=None), None) is None


def test_programs_become_longer_until_they_take_the_desired_time(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(in_jax.time, "monotonic", lambda: now[0])
    pace, chosen = in_jax.Pace(target=1.0), []
    for number in range(6):
        steps = pace.choose_steps(unit=10, most=10_000)
        now[0] += steps / 1024 + (30.0 if number == 0 else 0.0)  # the first one compiles
        pace.note_steps(steps)
        chosen.append(steps)
    assert chosen == [10, 10, 160, 1020, 1020, 1020]
    assert pace.choose_steps(unit=10, most=15) == 15
    assert pace.choose_steps(unit=300, most=10_000) == 900
    pace.target = 0.0
    assert pace.choose_steps(unit=10, most=10_000) == 10


def test_environments_that_cannot_be_compared_are_refused():
    class Incomparable(Drift):
        __hash__ = Drift.__hash__

        def __eq__(self, other):
            return np.zeros(2) == 0

    with pytest.raises(ValueError, match="must be hashable and comparable"):
        in_jax.check_env(Incomparable())
