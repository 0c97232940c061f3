"""Mistakes in an environment in JAX, and the errors that name them."""

import dataclasses
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

from purerl.envs import names
from purerl.envs.validation import check_env
from purerl.spaces import Discrete, EnvSpec

SPACES = EnvSpec((2,), Discrete(2))


@dataclasses.dataclass(frozen=True)
class Custom:
    """An environment whose functions return what the test says."""

    mistake: Any = None
    spec: Any = SPACES
    max_steps: Any = None
    params: Any = None

    def reset(self, key, params):
        return (jnp.zeros(2), key), jnp.zeros(2, self.spec.obs_dtype)

    def step(self, key, state, action, params):
        obs = jnp.zeros(2, self.spec.obs_dtype)
        returned = {"state": state, "obs": obs, "rew": 1, "terminated": 0.0, "info": {}}
        returned |= self.mistake(state) if self.mistake else {}
        return tuple(x for x in returned.values() if x is not ...)


@pytest.mark.parametrize("name", names.list_names())
def test_environments_of_purerl_pass(name):
    check_env(names.make(name))


def test_keys_in_states_integer_rewards_and_flags_as_floats_pass():
    check_env(Custom())


MISTAKES = {
    "must return state, .*, info, got 4 values": lambda _: {"info": ...},
    r"info of step must be a dictionary of arrays, got None. Return \{\}": lambda _: {"info": None},
    r"info\['a'\] of step must be an array, got 'b'": lambda _: {"info": {"a": "b"}},
    "reward of step must be an array, got None": lambda _: {"rew": None},
    r"reward of step must have shape \(\), got shape \(1,\)": lambda _: {"rew": jnp.zeros(1)},
    r"terminated of step must have shape \(\)": lambda _: {"terminated": jnp.zeros(1)},
    r"observation of step must have shape \(2,\)": lambda _: {"obs": jnp.zeros(3)},
    "observation of step must be one array, got": lambda _: {"obs": (0.0, 1.0)},
    r"state\['name'\] of step must be an array, got 'x'": lambda _: {"state": {"name": "x"}},
    "step .* pure function .* bool": lambda state: {"rew": 1 if state[0][0] > 0 else 0},
    "step .* pure function .* float": lambda state: {"rew": float(state[0][0])},
    "step .* pure function .* NumPy": lambda state: {"obs": np.asarray(state[0])},
}


@pytest.mark.parametrize("text", MISTAKES)
def test_a_mistake_in_step_is_named(text):
    with pytest.raises(ValueError, match=text):
        check_env(Custom(MISTAKES[text]))


def test_mistakes_in_reset_are_named():
    class OnlyKey(Custom):
        def reset(self, key):
            return jnp.zeros(2), jnp.zeros(2)

    class OnlyObs(Custom):
        def reset(self, key, params):
            return jnp.zeros(2)

    with pytest.raises(ValueError, match="reset of the environment must take key, params"):
        check_env(OnlyKey())
    with pytest.raises(ValueError, match="reset .* must return state, observation, got an object"):
        check_env(OnlyObs())


def test_whole_numbers_are_not_made_of_observations_with_fractions():
    spec = EnvSpec((2,), Discrete(2), "uint8")
    check_env(Custom(spec=spec))
    with pytest.raises(
        ValueError, match="must have whole numbers, because spec.obs_dtype is uint8"
    ):
        check_env(Custom(lambda _: {"obs": jnp.zeros(2)}, spec=spec))


@pytest.mark.parametrize("limit", [0, -1, 7.0, float("inf"), "7", True])
def test_a_limit_is_none_or_a_whole_number(limit):
    with pytest.raises(ValueError, match="max_steps of the environment must be an integer"):
        check_env(Custom(max_steps=limit))


def test_params_are_numbers():
    with pytest.raises(ValueError, match=r"params\[0\] of the environment must be a number"):
        check_env(Custom(params=("moon",)))
    check_env(Custom(params=(1, 0.5, None, np.float64(2), True)))
