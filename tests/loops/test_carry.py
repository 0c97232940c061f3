"""A carry can be advanced once."""

import pytest

from purerl.loops import gym as loop
from tests.loops import script
from tests.loops.script import start


def test_a_consumed_carry_is_refused_before_the_environments_move():
    env_fn, envs = script.own(1)
    carry = start(env_fn)
    loop.advance(carry)
    steps = envs[0].steps
    with pytest.raises(ValueError, match="^this carry was consumed by an earlier advance"):
        loop.advance(carry)
    assert envs[0].steps == steps
