"""SAC with layer normalisation in its critics: a custom network in a `Spec`.

    python examples/layernorm_critic.py
    python examples/layernorm_critic.py --steps 20000 --seed 1

Layer normalisation keeps the values of actions that were never tried from growing without bound,
so that more updates per step stay stable (Ball et al., 2023, https://arxiv.org/abs/2302.02948).
Here every environment step has two updates. Pendulum-v1, 5 000 steps, some seconds on one core.
"""

import functools
import statistics

import gymnasium
import jax
import jax.numpy as jnp
from common import begin, say
from flax import linen as nn

from purerl.algos import sac
from purerl.loops import gym as loop
from purerl.schedules import OffPolicySchedule
from purerl.spaces import EnvSpec


class Critic(nn.Module):
    """A value of observations and actions `[B]`, with layer normalisation before each ReLU."""

    hidden: tuple[int, ...] = (64, 64)

    @nn.compact
    def __call__(self, obs: jax.Array, act: jax.Array) -> jax.Array:
        """Return the values of observations `[B, O]` and actions `[B, A]` in [-1, 1]."""
        x = jnp.concatenate([obs, act], axis=-1)
        for units in self.hidden:
            x = nn.relu(nn.LayerNorm()(nn.Dense(units)(x)))
        return nn.Dense(1)(x)[:, 0]


def main(steps: int = 5_000, seed: int = 0) -> float:
    """Train; return the mean return of the last test episodes."""
    make = functools.partial(gymnasium.make, "Pendulum-v1")
    spec = sac.Spec(EnvSpec.of(make()), critic=Critic(), hidden=(64, 64), gamma=0.95)
    schedule = OffPolicySchedule(
        steps=steps, steps_per_epoch=1_000, start_steps=500, update_after=500, updates_per_burst=100
    )
    score = float("nan")
    for record in loop.run(sac, spec, make, schedule, seed):
        score = statistics.fmean(record["test_returns"])
        say(f"step {record['steps']:>6,}  test return {score:>8.1f}  q1 {record['q1']:>8.2f}")
    return score


if __name__ == "__main__":
    say(f"return: {main(*begin(__doc__, steps=5_000)):.1f}")
