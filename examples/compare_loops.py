"""The same learner on both loops: Gymnasium environments, and one compiled program.

    python examples/compare_loops.py

`purerl.loops.gym` steps environments in Python, `purerl.loops.scan` steps them in the program that
also learns. Here both train DQN in the same environments: CartPole in JAX, once by itself and once
inside of a Gymnasium environment that plays the same episodes. The returns agree, and the learned
numbers differ by rounding only.

By default: 2 000 steps, a quarter of a minute on one core. The largest difference of a parameter is
about 1e-6. It grows with the steps, because each rounding error changes what is learned next.
"""

import itertools
import time
from typing import Any

import jax
import numpy as np
from common import begin, say

from purerl import rng
from purerl.algos import dqn
from purerl.envs.classic.cartpole import CartPole
from purerl.envs.gymnasium_env import GymnasiumEnv
from purerl.loops import gym, scan
from purerl.schedules import OffPolicySchedule


def train(loop: Any, env: Any, spec: dqn.Spec, schedule: OffPolicySchedule, seed: int) -> Any:
    """Train with one of the loops; print its speed, and return the carry and all returns."""
    carry, began = loop.start(dqn, spec, env, schedule, seed), time.monotonic()
    returns: list[float] = []
    while carry.steps < schedule.steps:
        carry, record = loop.advance(carry)
        returns += record["ep_returns"] if record else []
    seconds = time.monotonic() - began
    carry.envs.close()
    say(f"{loop.__name__:<18} {schedule.steps / seconds:>8,.0f} steps/s, compilation included")
    return carry, returns


def main(steps: int = 2_000, seed: int = 0) -> float:
    """Train with both loops; return the largest difference of a parameter."""
    env = CartPole()
    spec = dqn.Spec(env.spec, hidden=(64, 64))
    schedule = OffPolicySchedule(
        steps=steps, start_steps=200, update_after=200, update_every=10, num_envs=2
    )
    number = itertools.count()

    def make() -> GymnasiumEnv:
        """Make environment i, which gives each episode the key that the other loop gives it."""
        i = next(number)
        return GymnasiumEnv(env, key_of=lambda episode: rng.stream(seed, 0, "env", i, episode))

    compiled, returns = train(scan, env, spec, schedule, seed)
    stepped, others = train(gym, make, spec, schedule, seed)
    params = (compiled.learner.params, stepped.learner.params)
    apart = jax.tree.leaves(jax.tree.map(lambda a, b: float(np.abs(a - b).max()), *params))
    same = len(returns) == len(others) and np.allclose(returns, others)
    say(f"{len(returns)} and {len(others)} episodes with {'equal' if same else 'other'} returns")
    say(f"largest difference of a parameter: {max(apart):.1e}")
    return max(apart)


if __name__ == "__main__":
    main(*begin(__doc__, 2_000))
