"""A small environment in JAX with random starts and steps, and the same as one of Gymnasium."""

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import pytest

from purerl import rng
from purerl.algos import (
    acer,
    crossq,
    ddpg,
    dqn,
    ppo,
    pqn,
    redq,
    reinforce,
    sac,
    sac_discrete,
    td3,
    tqc,
    trpo,
    vpg,
    xqc,
)
from purerl.envs.gymnasium_env import GymnasiumEnv
from purerl.schedules import OffPolicySchedule, OnPolicySchedule, SequenceSchedule
from purerl.spaces import Box, Discrete, EnvSpec

BOX, DISCRETE = Box((-2.0, 0.0), (2.0, 1.0)), Discrete(3, start=1)


class Params(NamedTuple):
    """Numbers that are arguments of compiled programs: a change compiles nothing."""

    noise: float = 0.3
    bad_reward_at: int = -1  # step of an episode whose reward is not finite
    bad_above: float = -9.0  # least first coordinate for this


@dataclasses.dataclass(frozen=True)
class Drift:
    """A point that the action pushes and noise moves; an episode ends when it is far away."""

    action: Any = DISCRETE
    max_steps: int | None = 7
    params: Any = dataclasses.field(default=Params(), compare=False)

    @property
    def spec(self) -> EnvSpec:
        return EnvSpec((3,), self.action)

    def reset(self, key: jax.Array, params: Any) -> Any:
        place = jax.random.normal(key, (3,), jnp.float32) * 0.3
        return (place, jnp.int32(0)), place

    def step(self, key: jax.Array, state: Any, action: Any, params: Any) -> Any:
        place, number = state
        push = action.sum() - 1.0 if isinstance(self.action, Box) else action - 2.0
        noise = jax.random.normal(key, (3,), jnp.float32)
        place = place + 0.2 * push + params.noise * noise
        reward = 1.0 - jnp.abs(place).sum()
        is_bad = (number == params.bad_reward_at) & (place[0] > params.bad_above)
        reward = jnp.where(is_bad, jnp.nan, reward)
        far = jnp.abs(place).max() > 1.2
        return (place, number + 1), place, reward, far, {"far": far, "cost": place[0]}


def make_twins(env: Any, seed: int):
    """Return a function that makes Gymnasium environments with the episodes of the scan loop."""
    made = []

    def make() -> GymnasiumEnv:
        index = len(made)
        made.append(index)
        return GymnasiumEnv(env, key_of=lambda e: rng.stream(seed, 0, "env", index, e))

    return make


def off(**changes: Any) -> OffPolicySchedule:
    """Return a schedule with epochs that end inside of bursts, and a buffer that overflows."""
    own = dict(steps=84, steps_per_epoch=30, num_envs=2, start_steps=14, update_after=16)
    own |= dict(update_every=8, updates_per_burst=3, batch_size=6, replay_size=50)
    return OffPolicySchedule(**(own | {"num_test_episodes": 0} | changes))


def on(**changes: Any) -> OnPolicySchedule:
    own = dict(steps=96, rollout_steps=16, steps_per_epoch=32, num_envs=2)
    return OnPolicySchedule(**(own | changes))


def sequences(**changes: Any) -> SequenceSchedule:
    own = dict(steps=96, rollout_steps=16, steps_per_epoch=32, num_envs=2)
    own |= dict(replay_start=32, replay_size=64, replay_ratio=2.0)
    return SequenceSchedule(**(own | changes))


PASSES = {"train_v_iters": 2}
# name -> algorithm, actions, settings, schedule
CASES = {
    "dqn": (dqn, DISCRETE, {"eps_decay": 10, "target_every": 4}, off),
    "ddpg": (ddpg, BOX, {}, off),
    "td3": (td3, BOX, {}, off),
    "sac": (sac, BOX, {}, off),
    "crossq": (crossq, BOX, {}, off),
    "sac_discrete": (sac_discrete, DISCRETE, {}, off),
    "tqc": (tqc, BOX, {"num_quantiles": 4, "drop_quantiles": 1}, off),
    "xqc": (xqc, BOX, {}, lambda **c: off(scale_rewards=True, **c)),
    "redq": (redq, BOX, {"ensemble": 3, "dropout": 0.1, "policy_delay": 2}, off),
    "reinforce": (reinforce, DISCRETE, {}, lambda **c: on(continue_episodes=False, **c)),
    "vpg": (vpg, BOX, PASSES, on),
    "trpo": (trpo, BOX, PASSES, on),
    "ppo": (ppo, DISCRETE, PASSES | {"train_pi_iters": 2}, on),
    "acer": (acer, DISCRETE, {}, sequences),
    "pqn": (pqn, DISCRETE, {"minibatch_size": None, "eps_decay": 3, "train_q_iters": 2}, on),
}


def mark_complete(names: Any, more: Any) -> list[Any]:
    """Return names as parameters of tests; `make test` leaves out those in `more`."""
    marks = [pytest.mark.complete]
    pairs = [(name if isinstance(name, tuple) else (name,), name in more) for name in names]
    return [pytest.param(*values, marks=marks if later else []) for values, later in pairs]


def make_case(name: str, **changes: Any) -> tuple[Any, Any, Any, Any]:
    """Return algorithm, spec, environment and schedule of a case."""
    algo, action, settings, schedule = CASES[name]
    env = Drift(action)
    return algo, algo.Spec(env.spec, hidden=(8,), **settings), env, schedule(**changes)
