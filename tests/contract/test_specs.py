"""Settings: what `Spec` accepts and refuses."""

import dataclasses

import numpy as np
import pytest


def test_spec_is_frozen_hashable_and_equal_by_value(case):
    assert case.spec() == case.spec()
    assert hash(case.spec()) == hash(case.spec())
    assert case.spec() != case.spec(gamma=0.5)
    with pytest.raises(dataclasses.FrozenInstanceError):
        case.spec().gamma = 0.5


@pytest.mark.parametrize(
    "value", [float("nan"), float("inf"), -1, "1", None, True, np.float32(0.5)]
)
def test_spec_refuses_bad_numbers_by_name(case, value):
    numbers = [f.name for f in dataclasses.fields(case.algo.Spec) if f.type in (int, float)]
    assert "gamma" in numbers
    for name in numbers:
        if name == "log_std_init" and value == -1:
            continue  # the one setting that may be negative
        with pytest.raises(ValueError, match=f"^{name} must be"):
            case.spec(**{name: value})


def test_spec_refuses_other_bad_fields_by_name(case):
    for name, value in {"hidden": [8, 8], "activation": "rleu", "initializer": "zeros"}.items():
        with pytest.raises(ValueError, match=f"^{name} must be"):
            case.spec(**{name: value})
    with pytest.raises(ValueError, match=r"^hidden\[1\] must be an integer of at least 1, got 0"):
        case.spec(hidden=(8, 0))
    with pytest.raises(ValueError, match="^env must be an EnvSpec"):
        case.algo.Spec(env="Pendulum-v1")


def test_spec_refuses_the_wrong_action_space(case):
    if case.wrong_env is None:
        pytest.skip("takes both kinds of action space")
    name = case.algo.__name__.rpartition(".")[2]
    with pytest.raises(ValueError, match=rf"^{name} needs a \w+ action space"):
        case.algo.Spec(case.wrong_env)


def test_spec_refuses_image_observations_and_names_the_wrapper(case):
    images = dataclasses.replace(case.env, obs_shape=(8, 8, 3), obs_dtype="uint8")
    with pytest.raises(ValueError, match=r"flat observations.*FlattenObservation.*torso='nature"):
        case.algo.Spec(images)
    with pytest.raises(ValueError, match=r"^torso='nature_cnn' takes images .*got .*\(8, 8, 3\)"):
        case.algo.Spec(images, torso="nature_cnn")
    with pytest.raises(ValueError, match=r"^torso='nature_cnn' takes images"):
        case.spec(torso="nature_cnn")
