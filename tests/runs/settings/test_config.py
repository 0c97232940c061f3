"""Configurations: all mistakes are reported before an environment is made."""

import pytest
from flax import linen as nn

from purerl import algos
from purerl.errors import ConfigError
from purerl.runs.settings import config
from purerl.spaces import Discrete, EnvSpec


@pytest.mark.parametrize("algo", algos.NAMES)
def test_settings_are_checked_before_an_environment_is_made(algo):
    made = []
    content = {"algo": algo, "env": "E", "spec": {"gamma": 7.0, "hidden": [0]}}
    content |= {"schedule": {"steps": 0}, "options": {"keep": 0}}
    with pytest.raises(ConfigError) as error:
        config.from_json(content, lambda: made.append(1))
    for name in ("gamma", "hidden[0]", "steps", "keep"):
        assert f"{name} must be" in str(error.value)
    assert not made
    for wrong in ({"seed": -1}, {"name": "../x"}):
        with pytest.raises(ConfigError, match="must "):
            config.from_json({"algo": algo, "env": "E"} | wrong, lambda: made.append(1))
    assert not made


IMAGES = EnvSpec((36, 36, 3), Discrete(4), "uint8")


@pytest.mark.parametrize(
    ("env", "given", "torso"),
    [
        (IMAGES, {}, "nature_cnn"),
        (IMAGES, {"torso": "nature_cnn"}, "nature_cnn"),
        (EnvSpec((4, 84, 84), Discrete(4), "uint8"), {}, "nature_cnn"),
        (IMAGES, {"critic": nn.Dense(4)}, None),
        (EnvSpec((3,), Discrete(4)), {}, None),
    ],
)
def test_images_get_a_torso_unless_networks_are_chosen(env, given, torso):
    content = {"algo": "dqn", "env": "E", "spec": given}
    made = config.from_json(content, spaces=env)
    assert made.spec.torso == torso
    assert bool(config.describe_torso(made.spec)) == (torso is not None)
    if not given:  # what is saved is complete
        again = config.from_json(config.to_json(made), spaces=env)
        assert again == made


def test_images_without_a_torso_are_refused_if_the_settings_say_so():
    content = {"algo": "dqn", "env": "E", "spec": {"torso": None}}
    with pytest.raises(ConfigError, match="takes flat observations"):
        config.from_json(content, spaces=IMAGES)
    content["spec"] = {"torso": "resnet"}
    with pytest.raises(ConfigError, match="torso must be nature_cnn or None, got 'resnet'"):
        config.from_json(content, lambda: pytest.fail("an environment was made"))


def test_mistakes_that_follow_from_others_are_not_reported():
    def make(low=0, high=1):
        if high > 9:
            raise ValueError(f"high must be at most 9, got {high}.")
        if low >= high:
            raise ValueError(f"low must be below high, got {low}.")
        if low == 0 and high == 1:
            raise ValueError("other must be given.")

    assert config.find_mistakes(make, {"high": 10}) == ["high must be at most 9, got 10."]
    assert config.find_mistakes(make, {"high": 0}) == ["low must be below high, got 0."]
    assert config.find_mistakes(make, {"high": 2}) == []
    both = ["high must be at most 9, got 10.", "low must be below high, got 5."]
    assert config.find_mistakes(make, {"low": 5, "high": 10}) == both
    given = {"replay_size": 0, "batch_size": 5_000}  # update_after is too small for the latter
    with pytest.raises(ConfigError, match=r"^replay_size must be[^\n]*$"):
        config.from_json({"algo": "sac", "env": "E", "schedule": given})
