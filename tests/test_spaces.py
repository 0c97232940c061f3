"""`EnvSpec` reads the spaces of an environment, refuses some, and converts units of actions."""

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given
from hypothesis import strategies as st

from purerl.spaces import (
    Box,
    Discrete,
    EnvSpec,
    MultiDiscrete,
    is_goal_space,
    require_box,
    require_discrete,
)


class Fake:
    """Two spaces, the only part of an environment that `EnvSpec.of` reads."""

    def __init__(self, obs=None, act=None):
        self.observation_space = obs or spaces.Box(-1, 1, (3,))
        self.action_space = spaces.Box(-1, 1, (2,)) if act is None else act


def test_spec_of_single_environments():
    pendulum = EnvSpec.of(gymnasium.make("Pendulum-v1"))
    assert pendulum == EnvSpec((3,), Box((-2.0,), (2.0,)), "float32")
    assert EnvSpec.of(gymnasium.make("CartPole-v1")) == EnvSpec((4,), Discrete(2, 0))
    assert hash(pendulum) == hash(EnvSpec.of(gymnasium.make("Pendulum-v1")))


def test_spec_of_a_vector_environment_equals_that_of_a_single_one():
    for name in ("Pendulum-v1", "CartPole-v1"):
        many = gymnasium.make_vec(name, 3, vectorization_mode="sync")
        assert EnvSpec.of(many) == EnvSpec.of(gymnasium.make(name))


def test_spec_keeps_asymmetric_bounds_starts_and_small_dtypes():
    act = spaces.Box(np.array([-1.0, 0.5]), np.array([3.0, 0.75]), dtype=np.float64)
    spec = EnvSpec.of(Fake(spaces.Box(0, 255, (4, 4), np.uint8), act))
    assert spec == EnvSpec((4, 4), Box((-1.0, 0.5), (3.0, 0.75)), "uint8")
    assert EnvSpec.of(Fake(act=spaces.Discrete(4, start=-2))).action == Discrete(4, -2)
    assert EnvSpec.of(Fake(spaces.Box(-1, 1, (3,), np.float64))).obs_dtype == "float32"
    assert EnvSpec.of(Fake(spaces.Box(-1, 1, (3,), np.int64))).obs_dtype == "int32"
    assert EnvSpec.of(Fake(act=spaces.Box(-1, 1, (2, 3)))).action.shape == (2, 3)


def test_a_goal_is_the_end_of_a_flat_observation():
    assert EnvSpec((3,), Discrete(2)).goal_size == 0
    assert EnvSpec((3,), Discrete(2), goal_size=2) != EnvSpec((3,), Discrete(2))
    for fields in (((2,), "float32"), ((3, 3), "float32"), ((3,), "uint8")):
        with pytest.raises(ValueError, match="^goal_size is 2, so observations must be float32"):
            EnvSpec(fields[0], Discrete(2), fields[1], goal_size=2)
    with pytest.raises(ValueError, match="^goal_size must be an integer of at least 0, got -1"):
        EnvSpec((3,), Discrete(2), goal_size=-1)


def test_spec_of_actions_with_several_parts():
    spec = EnvSpec.of(Fake(act=spaces.MultiDiscrete([2, 3], start=[-1, 5])))
    assert spec.action == MultiDiscrete((2, 3), (-1, 5))
    assert spec.act_dim == 5  # logits
    assert (spec.example().act.shape, spec.example().act.dtype) == ((2,), np.int32)
    assert EnvSpec.of(Fake(act=spaces.MultiBinary(3))).action == MultiDiscrete((2, 2, 2))
    for fields, message in (
        (((),), "at least one part"),
        (((2, 3), (0,)), "one start per part"),
        (((2, 0),), r"MultiDiscrete\.sizes\[1\] must be an integer of at least 1"),
        (([2, 3],), r"MultiDiscrete\.sizes must be a tuple"),
        (((2, 3), (0, 2**31 - 2)), "must fit into int32"),
    ):
        with pytest.raises(ValueError, match=message):
            MultiDiscrete(*fields)
    for require, env in ((require_discrete, spec), (require_box, spec)):
        with pytest.raises(ValueError, match=r"for MultiDiscrete, .?.?.?ppo"):
            require("dqn", env)


@pytest.mark.parametrize(
    ("env", "message"),
    [
        (Fake(act=spaces.Box(-np.inf, 1, (2,))), r"action dimension 0 .*finite.*TransformAction"),
        (
            Fake(act=spaces.Box(np.float32([0, 1]), np.float32([1, 1]))),
            "action dimension 1 .*low < high",
        ),
        (Fake(act=spaces.Box(-3e38, 3e38, (1,))), "action dimension 0 .*no wider than 1e30"),
        (Fake(act=spaces.Box(1e8, 1e8 + 8, (1,))), "action dimension 0 .*float32 can tell apart"),
        ("Pendulum-v1", "env must be a Gymnasium environment, got 'Pendulum-v1'"),
        (Fake(act=spaces.Box(-1, 1, (0,))), "at least one dimension"),
        (Fake(act=spaces.Box(0, 9, (2,), np.int32)), "Box of floats.*TransformAction"),
        (
            Fake(act=spaces.MultiDiscrete([[2, 3], [4, 5]])),
            "must be Discrete, MultiDiscrete with one axis, or a Box of floats.*TransformAction",
        ),
        (Fake(act=spaces.MultiBinary((3, 2))), "TransformAction"),
        (Fake(act=spaces.Dict(a=spaces.Discrete(2))), "TransformAction"),
        (
            Fake(spaces.Discrete(5)),
            r"observations must be a Box.*Discrete\(5\).*FlattenObservation",
        ),
        (Fake(spaces.Dict(a=spaces.Discrete(2))), "FlattenObservation"),
        (Fake(spaces.Tuple([spaces.Discrete(2)])), "FlattenObservation"),
        (Fake(spaces.Box(-1, 1, (0,))), "no axis of length 0"),
        (Fake(spaces.Box(-1, 1, ())), "at least one axis"),
        (Fake(spaces.Text(5)), "observations must be a Box"),
        (Fake(act=spaces.Discrete(3, start=2**31 - 2)), "must fit into int32"),
    ],
)
def test_unsupported_spaces_are_refused_with_advice(env, message):
    with pytest.raises(ValueError, match=f"(?s){message}"):
        EnvSpec.of(env)


def test_the_wrapper_that_the_message_names_helps():
    frozen = gymnasium.wrappers.FlattenObservation(gymnasium.make("FrozenLake-v1"))
    assert EnvSpec.of(frozen) == EnvSpec((16,), Discrete(4), "int32")


def test_hand_made_specs_are_checked():
    for fields, message in (
        ({"obs_shape": [3]}, "obs_shape must be a tuple"),
        ({"obs_shape": (3, 0)}, r"obs_shape\[1\] must be an integer of at least 1"),
        ({"action": spaces.Discrete(2)}, "action must be a Box, Discrete or MultiDiscrete, got"),
    ):
        with pytest.raises(ValueError, match=message):
            EnvSpec(**({"obs_shape": (3,), "action": Discrete(2)} | fields))
    for low, high, shape in (
        ((0.0,), (1.0, 1.0), None),
        ((0.0,) * 3, (1.0,) * 3, (2, 2)),
        ((), (), None),
    ):
        with pytest.raises(ValueError, match="one low and one high per action dimension"):
            Box(low, high, shape)
    with pytest.raises(ValueError, match=r"Discrete\.n must be"):
        Discrete(0)
    with pytest.raises(ValueError, match="must be tuples"):
        Box(-1.0, 1.0)
    for dtype in ("object", "float128", "complex64", "foo", "U3"):
        with pytest.raises(ValueError, match="^obs_dtype must be the name of a float, .* got"):
            EnvSpec((3,), Discrete(2), dtype)
    with pytest.raises(
        ValueError, match=r"^act must have shape \[\.\.\., \*\(2,\)\], got \(4, 1\)"
    ):
        EnvSpec((1,), Box((-1.0,) * 2, (1.0,) * 2)).normalise(np.zeros((4, 1)))


bounds = st.tuples(st.floats(-100, 100), st.floats(0.01, 100)).map(lambda t: (t[0], t[0] + t[1]))


@given(st.lists(bounds, min_size=1, max_size=4), st.integers(0, 2**32 - 1))
def test_units_are_affine_invertible_and_per_dimension(pairs, seed):
    low, high = (tuple(b[i] for b in pairs) for i in (0, 1))
    spec = EnvSpec((1,), Box(low, high))
    unit = np.random.default_rng(seed).uniform(-1, 1, (5, len(pairs))).astype(np.float32)
    act = spec.denormalise(unit)
    expected = np.asarray(low) + (unit.astype(np.float64) + 1) / 2 * np.subtract(high, low)
    scale = np.abs([low, high]).max() + 1
    np.testing.assert_allclose(act, expected, atol=1e-6 * scale)
    np.testing.assert_allclose(
        spec.normalise(act), unit, atol=1e-6 * scale / min(np.subtract(high, low))
    )
    ends = spec.denormalise(np.stack([-np.ones(len(low)), np.ones(len(low))]).astype(np.float32))
    np.testing.assert_allclose(ends, [low, high], atol=1e-6 * scale)
    clipped = spec.clip(spec.denormalise(5 * unit))
    assert (clipped >= np.float32(low)).all()
    assert (clipped <= np.float32(high)).all()


def test_units_equal_numbers_computed_by_hand():
    spec = EnvSpec((1,), Box((-2.0, 0.0), (2.0, 1.0)))
    assert spec.denormalise(np.float32([[0.5, 0.5]])).tolist() == [[1.0, 0.75]]
    assert spec.normalise(np.float32([[1.0, 0.75]])).tolist() == [[0.5, 0.5]]
    assert spec.clip(np.float32([[9.0, -9.0]])).tolist() == [[2.0, 0.0]]
    with pytest.raises(ValueError, match="only Box actions have units"):
        EnvSpec((1,), Discrete(2)).normalise(np.zeros(1))


def test_the_example_is_a_row_of_zeros():
    row = EnvSpec((3,), Box((-2.0, 0.0), (2.0, 1.0)), "uint8").example()
    assert [(np.shape(x), np.asarray(x).dtype.name) for x in row] == [
        ((3,), "uint8"),
        ((2,), "float32"),
        ((), "float32"),
        ((3,), "uint8"),
        ((), "bool"),
        ((), "bool"),
    ]
    assert EnvSpec((3,), Discrete(2, 5)).example().act.dtype == np.int32


def test_observation_and_goal_of_a_goal_environment_are_one_vector():
    def make(**parts):
        boxes = {name: spaces.Box(-1, 1, shape) for name, shape in parts.items()}
        return Fake(spaces.Dict(boxes), spaces.Discrete(2))

    goals = {"achieved_goal": (2,), "desired_goal": (2,)}
    assert EnvSpec.of(make(observation=(3,), **goals)) == EnvSpec((5,), Discrete(2), goal_size=2)
    for wrong in (
        make(observation=(3, 1), **goals),
        make(observation=(3,), achieved_goal=(2,), desired_goal=(1,)),
        make(observation=(3,), **goals, more=(1,)),
    ):
        assert not is_goal_space(wrong.observation_space)
        with pytest.raises(ValueError, match="^observations must be a Box"):
            EnvSpec.of(wrong)
