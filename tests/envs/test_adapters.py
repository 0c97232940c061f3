"""Adapters of other libraries, with small objects that look like their environments."""

import dataclasses
import types
from typing import NamedTuple

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import struct
from gymnasium.experimental.functional import FuncEnv

from purerl.envs import adapters, episodes
from purerl.spaces import Box, Discrete, EnvSpec

SEED, RANK = jnp.uint32(0), jnp.uint32(0)


def run(env, actions, max_steps=None):
    """Play actions `[T, N]` and return the results."""
    first = episodes.reset(env, env.params, SEED, RANK, actions.shape[1])

    def advance(now, act):
        return episodes.step(env, env.params, SEED, RANK, max_steps, now, act)

    return jax.jit(lambda: jax.lax.scan(advance, first, actions))()[1]


class Space:
    """A space as in gymnax, known by its attributes alone."""

    def __init__(self, **fields):
        vars(self).update(fields)


@struct.dataclass
class GymnaxParams:
    goal: float = 3.0
    max_steps_in_episode: int = 5


class GymnaxState(NamedTuple):
    place: jax.Array
    time: int


class OldGymnax:
    """A walk to the right as in gymnax 0.0.x: `done` includes the time limit."""

    default_params = GymnaxParams()
    actions = Space(n=2, shape=())
    observations = Space(low=0.0, high=9.0, shape=(1,), dtype=jnp.float32)

    def action_space(self, params):
        return self.actions

    def observation_space(self, params):
        return self.observations

    def reset_env(self, key, params):
        state = GymnaxState(jnp.zeros(1), 0)
        return state.place, state

    def move(self, state, action):
        return GymnaxState(state.place + action, state.time + 1)

    def step_env(self, key, state, action, params):
        state = self.move(state, action)
        done = (state.place[0] >= params.goal) | (state.time >= params.max_steps_in_episode)
        return state.place, state, state.place * 2.0, done, {"discount": 1.0 - done}


class NewGymnax(OldGymnax):
    """The same as in gymnax 1.x: the time limit has a function of its own."""

    def is_truncated(self, state, params):
        return state.time >= params.max_steps_in_episode

    def step_env(self, key, state, action, params):
        state = self.move(state, action)
        return state.place, state, state.place * 2.0, state.place[0] >= params.goal, {}


class SixGymnax(NewGymnax):
    """The same with six values."""

    def step_env(self, key, state, action, params):
        obs, state, reward, terminated, info = super().step_env(key, state, action, params)
        return obs, state, reward, terminated, self.is_truncated(state, params), info


@pytest.mark.parametrize("cls", [OldGymnax, NewGymnax, SixGymnax])
def test_the_time_limit_of_gymnax_is_no_termination(cls):
    env = adapters.from_gymnax(cls())
    assert env.spec == EnvSpec((1,), Discrete(2))
    assert env.max_steps == 5
    actions = jnp.int32([[0, 1]] * 7)
    result = run(env, actions)
    np.testing.assert_array_equal(result.transition.terminated.T, [[0] * 7, [0, 0, 1] * 2 + [0]])
    np.testing.assert_array_equal(result.transition.rew.T, [[0] * 7, [2, 4, 6] * 2 + [2]])
    limited = run(env, actions, env.max_steps)
    np.testing.assert_array_equal(limited.transition.truncated.T[0], [0, 0, 0, 0, 1, 0, 0])
    np.testing.assert_array_equal(limited.transition.terminated, result.transition.terminated)


def test_params_of_gymnax_are_kept_except_for_a_limit_that_ends_episodes():
    params = GymnaxParams(goal=1.0, max_steps_in_episode=8)
    old, new = (adapters.from_gymnax(cls(), params) for cls in (OldGymnax, NewGymnax))
    assert old.max_steps == new.max_steps == 8
    assert (old.params.goal, old.params.max_steps_in_episode) == (1.0, adapters.UNREACHABLE)
    assert new.params is params
    unlimited = adapters.from_gymnax(OldGymnax(), types.SimpleNamespace(goal=1.0))
    assert unlimited.max_steps is None
    params = GymnaxParams(max_steps_in_episode=8.0)  # a float, as in BernoulliBandit-misc
    old = adapters.from_gymnax(OldGymnax(), params)
    assert (old.max_steps, type(old.params.max_steps_in_episode)) == (8, float)


def test_boxes_of_gymnax_have_bounds_for_each_dimension():
    env = OldGymnax()
    env.actions = Space(low=-1.0, high=np.float32([1, 2]), shape=(2,), dtype=jnp.float32)
    env.observations = Space(low=0, high=255, shape=(4, 4, 3), dtype=jnp.uint8)
    wanted = EnvSpec((4, 4, 3), Box((-1.0, -1.0), (1.0, 2.0)), "uint8")
    assert adapters.from_gymnax(env).spec == wanted


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"observations": Space(n=4, shape=())}, "observations must be a Box, got .*one_hot"),
        ({"actions": Space(spaces=())}, "actions must be Discrete or a Box, got .* in a subclass"),
        (
            {"actions": Space(low=-1.0, high=np.inf, shape=(1,))},
            "actions must have finite bounds, got low -1.0 and high inf",
        ),
    ],
)
def test_spaces_of_gymnax_that_purerl_lacks_are_refused(fields, message):
    env = OldGymnax()
    vars(env).update(fields)
    with pytest.raises(ValueError, match=message):
        adapters.from_gymnax(env)


@struct.dataclass
class PhysicsState:
    obs: object
    reward: jax.Array
    done: jax.Array
    info: dict
    metrics: dict


class Brax:
    """A point that moves by its action and a random number, and falls behind 1."""

    action_size = 2
    names = None

    @property
    def unwrapped(self):
        return self

    def observe(self, place):
        return place if self.names is None else dict.fromkeys(self.names, place)

    def reset(self, rng):
        assert rng.dtype == jnp.uint32  # plain numbers, which can be saved
        place = jax.random.uniform(rng, (2,), maxval=0.1)
        zero = jnp.zeros(())
        info = {"rng": rng, "place": place}
        return PhysicsState(self.observe(place), zero, zero, info, {"height": zero})

    def step(self, state, action):
        rng, key = jax.random.split(state.info["rng"])
        place = state.info["place"] + action + 0.01 * jax.random.uniform(key)
        done = jnp.where(place[0] > 1, 1.0, 0.0)
        info = {"rng": rng, "place": place}
        return PhysicsState(self.observe(place), place[1], done, info, {"height": place[0]})


class Wrapper:
    """A wrapper for episodes, as in Brax."""

    def __init__(self, env):
        self.unwrapped = env


def test_brax_is_played_without_its_wrappers():
    inner = Brax()
    env = adapters.from_brax(Wrapper(inner))
    assert env.env is inner
    assert env.spec == EnvSpec((2,), Box((-1.0, -1.0), (1.0, 1.0)))
    assert env.max_steps == 1_000
    assert adapters.from_brax(inner, None).max_steps is None
    result = run(env, jnp.full((6, 2, 2), jnp.float32([0.4, 5.0])))
    rows = result.transition
    np.testing.assert_array_equal(rows.terminated.T, [[0, 0, 1, 0, 0, 1]] * 2)
    assert rows.terminated.dtype == bool
    np.testing.assert_array_equal(rows.rew, rows.next_obs[..., 1])
    np.testing.assert_array_equal(result.info["height"], rows.next_obs[..., 0])
    assert (rows.next_obs[..., 1] < 4).all()  # actions are clipped to 1
    assert len(np.unique(rows.next_obs[..., 0])) == 12


def test_one_observation_of_a_dict_is_chosen():
    env = Brax()
    env.names = ("state", "privileged_state")
    assert adapters.from_brax(env).spec.obs_shape == (2,)
    assert adapters.from_playground(env, obs_key="privileged_state").obs_key == "privileged_state"
    rows = run(adapters.from_brax(env), jnp.zeros((2, 1, 2))).transition
    assert rows.obs.shape == (2, 1, 2)
    with pytest.raises(
        ValueError, match="a dict with privileged_state, state, and obs_key is 'pixels'. Choose"
    ):
        adapters.from_brax(env, obs_key="pixels")


def test_playground_has_its_limit_in_its_configuration():
    env = Brax()
    assert adapters.from_playground(env).max_steps == 1_000
    env._config = types.SimpleNamespace(episode_length=250)
    assert adapters.from_playground(env).max_steps == 250
    assert adapters.from_playground(env, 30).max_steps == 30
    with pytest.raises(ValueError, match="max_steps must be an integer of at least 1, got 0"):
        adapters.from_playground(env, 0)


class Counter(FuncEnv):
    """Count to `end`. A state is the count and a random number. Observations have another one."""

    observation_space = gymnasium.spaces.Box(-9, 9, (3,), np.float32)
    action_space = gymnasium.spaces.Discrete(3)

    def get_default_params(self):
        return {"end": 4.0}

    def initial(self, rng, params):
        return jnp.stack([0.0, jax.random.uniform(rng)])

    def observation(self, state, rng, params):
        return jnp.concatenate([state, jax.random.uniform(rng, (1,))])

    def transition(self, state, action, rng, params):
        return jnp.stack([state[0] + action, jax.random.uniform(rng)])

    def reward(self, state, action, next_state, rng, params):
        return next_state[:1] - state[0] + jax.random.uniform(rng)

    def terminal(self, state, rng, params):
        return state[:1] >= params["end"]

    def transition_info(self, state, action, next_state, params):
        return {"moved": next_state[0] - state[0]}


def test_a_functional_environment_of_gymnasium_is_played():
    env = adapters.from_func_env(Counter(), max_steps=9)
    assert env.spec == EnvSpec((3,), Discrete(3))
    assert (env.max_steps, env.params) == (9, {"end": 4.0})
    actions = jnp.int32([[1, 2]] * 6)
    result = run(env, actions)
    rows = result.transition
    np.testing.assert_array_equal(rows.terminated.T, [[0, 0, 0, 1, 0, 0], [0, 1] * 3])
    np.testing.assert_array_equal(result.info["moved"], actions)
    noise = rows.rew - actions
    assert ((noise >= 0) & (noise <= 1)).all()
    draws = [np.ravel(x) for x in (noise, rows.obs[..., 1:], rows.next_obs[-1, :, 1:])]
    assert len(np.unique(np.round(np.concatenate(draws), 5))) == 12 + 24 + 4  # one key each
    sooner = adapters.from_func_env(Counter(), {"end": 1.0})
    assert run(sooner, jnp.int32([[1]])).ended.all()
    assert sooner.max_steps is None


def test_adapters_can_be_static_arguments():
    for env in (
        *(adapters.from_gymnax(OldGymnax()), adapters.from_brax(Brax())),
        adapters.from_func_env(Counter()),
    ):
        assert hash(env) == hash(env)
        with pytest.raises(dataclasses.FrozenInstanceError):
            env.max_steps = 3
        traced = jax.jit(lambda env, key: env.reset(key, env.params)[1], static_argnums=0)
        assert traced(env, jax.random.key(0)).shape == env.spec.obs_shape
