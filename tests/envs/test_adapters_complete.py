"""Adapters with the real packages, each test only where its package is installed."""

import importlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl.envs import adapters, episodes, names
from purerl.envs.breakout import Breakout
from purerl.envs.catch import Catch
from purerl.envs.classic.acrobot import Acrobot
from purerl.envs.classic.cartpole import CartPole
from purerl.envs.classic.mountain_car import MountainCar, MountainCarContinuous
from purerl.envs.classic.pendulum import Pendulum
from tests.envs.classic.compare import sample_action

STEP = jax.jit(lambda env, *args: env.step(*args), static_argnums=0)
pytestmark = [pytest.mark.complete, pytest.mark.filterwarnings("ignore")]


@pytest.fixture(autouse=True)
def _allow_rank_promotion():
    """Other libraries rely on it."""
    with jax.numpy_rank_promotion("allow"):
        yield


def play(env, num_envs, steps, max_steps, seed=0):
    """Play random actions; return the following episodes and the results."""
    seed, rank = jnp.uint32(seed), jnp.uint32(0)

    def advance(now, key):
        act = jax.vmap(lambda k: sample_action(env, k))(jax.random.split(key, num_envs))
        return episodes.step(env, env.params, seed, rank, max_steps, now, act)

    def run():
        first = episodes.reset(env, env.params, seed, rank, num_envs)
        return jax.lax.scan(advance, first, jax.random.split(jax.random.key(1), steps))

    return jax.tree.map(np.asarray, jax.jit(run)())


def check_rows(env, result, max_steps):
    """Check that transitions are finite and follow each other, and that no episode is too long."""
    rows = result.transition
    for x in (rows.obs, rows.next_obs, rows.rew):
        assert np.isfinite(x).all()
    assert rows.obs.shape[2:] == env.spec.obs_shape
    going_on = ~result.ended[:-1]
    np.testing.assert_array_equal(rows.obs[1:][going_on], rows.next_obs[:-1][going_on])
    assert result.length.max() <= max_steps
    np.testing.assert_array_equal(rows.truncated, result.length == max_steps)


def list_gymnax():
    try:
        return list(importlib.import_module("gymnax").registered_envs)
    except ImportError:
        return ["CartPole-v1"]


UNSUPPORTED = ("FrozenLake-misc",)  # observations are Discrete
DATA = ("MNISTBandit-bsuite",)  # needs files


@pytest.mark.parametrize("name", [x for x in list_gymnax() if x not in DATA])
def test_gymnax(name):
    gymnax = pytest.importorskip("gymnax")
    if name in UNSUPPORTED:
        with pytest.raises(ValueError, match="observations must be a Box"):
            names.make(f"gymnax:{name}")
        return
    if name == "SimpleBandit-bsuite" and not hasattr(gymnax, "register"):
        pytest.skip("its own step fails in gymnax 0.0.9")
    env = names.make(f"gymnax:{name}")
    limit = min(env.max_steps or 50, 50)
    _, result = play(env, 3, 60, limit)
    check_rows(env, result, limit)
    assert result.ended.any()


@pytest.mark.parametrize(
    ("name", "own"),
    [
        ("CartPole-v1", CartPole()),
        ("Acrobot-v1", Acrobot()),
        ("MountainCar-v0", MountainCar()),
        ("MountainCarContinuous-v0", MountainCarContinuous()),
        ("Pendulum-v1", Pendulum()),
    ],
)
def test_gymnax_reports_no_termination_at_its_time_limit(name, own):
    pytest.importorskip("gymnax")
    env = names.make(f"gymnax:{name}")
    assert env.spec.action == own.spec.action
    assert env.spec.obs_shape == own.spec.obs_shape
    state, _ = env.reset(jax.random.key(0), env.params)
    limit = env.max_steps
    state = state.replace(time=jnp.int32(limit + 5))
    act = jnp.zeros(env.spec.action.shape, env.spec.action.dtype)
    assert not bool(env.step(jax.random.key(0), state, act, env.params)[3])
    _, result = play(env, 2, limit + 3, limit)
    check_rows(env, result, limit)


@pytest.mark.parametrize("name", ["fast", "ant", "inverted_pendulum"])
def test_brax(name):
    brax = pytest.importorskip("brax.envs")
    env = names.make(f"brax:{name}")
    steps = 300 if name == "inverted_pendulum" else 4
    _, result = play(env, 2, steps, 3 if name == "ant" else 200)
    check_rows(env, result, 3 if name == "ant" else 200)
    if name == "inverted_pendulum":
        assert result.transition.terminated.any()
    wrapped = brax.create(name, batch_size=4)
    assert adapters.from_brax(wrapped).spec == env.spec


@pytest.mark.parametrize(("name", "impl"), [("CartpoleBalance", "jax"), ("CheetahRun", None)])
def test_playground(name, impl):
    """The default engine of Playground is MuJoCo Warp; the other one is in JAX."""
    registry = pytest.importorskip("mujoco_playground").registry
    env = names.make(f"playground:{name}")
    if impl is not None:
        env = adapters.from_playground(registry.load(name, config_overrides={"impl": impl}))
    assert env.max_steps == 1_000
    _, result = play(env, 2, 4, 3)
    check_rows(env, result, 3)


@pytest.mark.parametrize("name", ["cartpole", "pendulum"])
def test_functional_environments_of_gymnasium(name):
    module = importlib.import_module(f"gymnasium.envs.phys2d.{name}")
    cls = {"cartpole": "CartPoleFunctional", "pendulum": "PendulumFunctional"}[name]
    env = adapters.from_func_env(getattr(module, cls)(), max_steps=30)
    _, result = play(env, 3, 70, 30)
    check_rows(env, result, 30)
    assert result.ended.any()


@pytest.mark.parametrize(
    ("name", "own"),
    [
        ("Catch-bsuite", Catch(flat=False)),
        ("Breakout-MinAtar", Breakout(sticky_action_prob=0.0, flat=False)),
    ],
)
def test_games_equal_those_of_gymnax(name, own):
    """Both play the same random actions from the same first observation."""
    pytest.importorskip("gymnax")
    other = names.make(f"gymnax:{name}")
    assert other.spec.action == own.spec.action
    starts = {}
    for env in (own, other):
        for seed in range(40):
            state, obs = env.reset(jax.random.key(seed), env.params)
            starts.setdefault(np.asarray(obs).tobytes(), {})[env] = state
    assert len(starts) == (5 if name == "Catch-bsuite" else 2)
    ends = 0
    for states in starts.values():
        for seed in range(5):
            now = dict(states)
            for key in jax.random.split(jax.random.key(seed), 60):
                action = jax.random.randint(key, (), 0, 3)
                rows = {}
                for env in (own, other):
                    now[env], *rows[env] = STEP(env, key, now[env], action, env.params)
                for a, b in zip(rows[own][:3], rows[other][:3], strict=True):
                    np.testing.assert_array_equal(np.squeeze(a), np.squeeze(b))
                if rows[own][2]:
                    ends += 1
                    break
    assert ends >= 10
