"""DQN learns bit flipping with a goal replay buffer: pure functions, all seeds as one program.

python -m tests.bits 10 4      # bits, and rows with a new goal for each row with its own
python -m tests.bits 10 0      # without hindsight
"""

import functools
import sys
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from purerl.algos import dqn
from purerl.buffers import goals
from purerl.envs.bit_flipping import BitFlipping, compute_reward, is_at_goal
from purerl.types import ExtendedTransition

SEEDS = 5
SETTINGS = {
    "hidden": (128,),
    "lr": 1e-3,
    "gamma": 0.98,
    "target_every": 20,
    "clip_targets": True,
    "eps_end": 0.05,
}
BATCH, TESTS = 128, 200  # rows of a batch, episodes of an evaluation


def play(env: BitFlipping, params: Any, key: jax.Array, explore: bool) -> tuple[Any, Any, Any]:
    """Play one episode: its rows `[n]`, the number that count, and whether it reached its goal."""
    key_reset, key_steps = jax.random.split(key)
    state, obs = env.reset(key_reset, env.params)

    def step(carry: Any, inputs: Any) -> Any:
        (state, obs, over), (key, number) = carry, inputs
        act = dqn.act(params, obs, key) if explore else dqn.policy(params, obs)
        state, next_obs, reward, terminated, info = env.step(key, state, act, env.params)
        extra = {"achieved_goal": info["achieved_goal"], "env": jnp.int32(0), "step": number}
        row = ExtendedTransition(
            obs, act, reward, next_obs, terminated, number == env.max_steps - 1, extra
        )
        return (state, next_obs, over | terminated), (row, over)

    steps = (jax.random.split(key_steps, env.n_bits), jnp.arange(env.n_bits, dtype=jnp.int32))
    (_, _, success), (rows, over) = jax.lax.scan(step, (state, obs, jnp.bool_(False)), steps)
    return rows, (~over).sum(), success


def learn(env: BitFlipping, k: float, carry: Any, key: jax.Array) -> Any:
    """Play one episode, and do one update for each bit."""
    learner, buffer = carry
    key_play, key_learn = jax.random.split(key)
    rows, count, _ = play(env, learner.params, key_play, explore=True)
    buffer = goals.add(buffer, rows, count)

    def update(learner: Any, key: jax.Array) -> Any:
        batch = goals.sample(buffer, key, BATCH, compute_reward, is_at_goal, "future", k)
        return dqn.update(learner, batch)[0], None

    learner, _ = jax.lax.scan(update, learner, jax.random.split(key_learn, env.n_bits))
    return (learner, buffer), None


@functools.partial(jax.jit, static_argnums=(0, 1, 2))
def train(n_bits: int, k: float, episodes: int) -> jax.Array:
    """Return the share of test episodes that reach their goal, for each seed."""
    env = BitFlipping(n_bits)
    spec = dqn.Spec(env.spec, eps_decay=episodes * n_bits // 2, **SETTINGS)

    def one(seed: jax.Array) -> jax.Array:
        key_init, key_train, key_test = jax.random.split(jax.random.key(seed), 3)
        buffer = goals.init(goals.make_example(env.spec), episodes * n_bits, num_envs=1)
        carry = (dqn.init(key_init, spec), buffer)
        body = functools.partial(learn, env, k)
        (learner, _), _ = jax.lax.scan(body, carry, jax.random.split(key_train, episodes))
        test = functools.partial(play, env, learner.params, explore=False)
        return jax.vmap(test)(jax.random.split(key_test, TESTS))[2].mean()

    return jax.vmap(one)(jnp.arange(SEEDS))


if __name__ == "__main__":
    for episodes in (250, 500, 1_000):
        print(episodes, np.asarray(train(int(sys.argv[1]), float(sys.argv[2]), episodes)))
