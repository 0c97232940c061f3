"""The class of a carry follows its algorithm, and a carry can be advanced only once."""

import pytest

from purerl.algos import vpg
from purerl.loops import carry as carries
from purerl.loops import gym as loop
from purerl.schedules import OnPolicySchedule
from purerl.spaces import EnvSpec
from tests.loops import script
from tests.loops.script import start


def test_the_class_of_a_carry_says_whether_it_is_on_policy():
    off = start(script.make_singles(1)[0])
    assert isinstance(off, carries.OffPolicyCarry)
    assert off.schedule.updates_per_burst == off.schedule.update_every == 6
    schedule = OnPolicySchedule(steps=60, steps_per_epoch=30)
    on = loop.start(vpg, vpg.Spec(EnvSpec.of(script.Script())), script.Script, schedule, 0)
    assert isinstance(on, carries.OnPolicyCarry)
    assert on.schedule.rollout_length == 30
    after, _ = loop.advance(on)
    assert isinstance(after, carries.OnPolicyCarry)
    assert on.is_stale
    assert not after.is_stale


def test_a_consumed_carry_is_refused_before_the_environments_move():
    env_fn, envs = script.make_singles(1)
    carry = start(env_fn)
    loop.advance(carry)
    steps = envs[0].steps
    with pytest.raises(ValueError, match="^this carry was consumed by an earlier advance"):
        loop.advance(carry)
    assert envs[0].steps == steps
