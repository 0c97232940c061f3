"""Reward of exercise 3.6: DQN learns to reach goals of bits from batches that you relabel."""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from purerl.algos import dqn
from purerl.envs.bit_flipping import BitFlipping, compute_reward, is_never_over
from purerl.types import ExtendedTransition

BITS, EPISODES = 8, 16  # bits, and so steps of an episode; episodes between two bursts
PARTS, ROUNDS = 5, 20  # parts of the training, rounds of a part
UPDATES, ROWS, SHARE = 20, 128, 0.8  # updates of a round, rows of a batch, share of new goals
ENV = BitFlipping(BITS, ends_at_goal=False)


def reward(answer: Callable[..., Any], report: Callable[[str], None]) -> float:
    """Train, report and return the share of test episodes that reach their goal."""
    report(f"Training DQN to set {BITS} bits to a goal. Only a step that reaches it is rewarded.")
    spec = dqn.Spec(
        ENV.spec,
        hidden=(128,),
        lr=1e-3,
        gamma=0.95,
        target_every=20,
        eps_end=0.1,
        eps_decay=1_000,
        clip_targets=True,
    )
    learner, score = dqn.init(jax.random.key(0), spec), 0.0
    data = jax.eval_shape(_play, learner.params, jax.random.key(0))[0]
    capacity = PARTS * ROUNDS * EPISODES * BITS
    data = jax.tree.map(lambda x: jnp.zeros((capacity, *x.shape[1:]), x.dtype), data)
    train, test = jax.jit(functools.partial(_train, answer)), jax.jit(_test)
    for part in range(PARTS):
        numbers = part * ROUNDS + jnp.arange(ROUNDS)
        learner, data = train(learner, data, numbers)
        score = float(test(learner.params))
        episodes = (part + 1) * ROUNDS * EPISODES
        report(f"episode {episodes:5,}  share of goals reached {score:4.2f}")
    return score


def _train(answer: Callable[..., Any], learner: Any, data: Any, numbers: jax.Array) -> Any:
    """Play episodes and learn from all episodes so far, in each of the rounds `numbers`."""

    def play_and_learn(carry: Any, number: jax.Array) -> tuple[Any, None]:
        learner, data = carry
        key_play, key_learn = jax.random.split(jax.random.fold_in(jax.random.key(1), number))
        rows, size = _play(learner.params, key_play)[0], EPISODES * BITS
        put = functools.partial(jax.lax.dynamic_update_slice_in_dim, axis=0)
        data = jax.tree.map(lambda old, new: put(old, new, number * size), data, rows)

        def update(learner: Any, key: jax.Array) -> tuple[Any, None]:
            key_row, key_future, key_share = jax.random.split(key, 3)
            index = jax.random.randint(key_row, (ROWS,), 0, (number + 1) * size)
            left = BITS - index % BITS  # steps to the end of the episode
            future = index + jax.random.randint(key_future, (ROWS,), 0, left)
            relabelled = jax.random.uniform(key_share, (ROWS,)) < SHARE
            batch = answer(data, index, future, relabelled, compute_reward, is_never_over)
            return dqn.update(learner, batch)[0], None

        learner, _ = jax.lax.scan(update, learner, jax.random.split(key_learn, UPDATES))
        return (learner, data), None

    return jax.lax.scan(play_and_learn, (learner, data), numbers)[0]


def _play(
    params: dqn.Params, key: jax.Array, episodes: int = EPISODES
) -> tuple[ExtendedTransition, jax.Array]:
    """Return the steps of episodes, one after the other, and the share that reached its goal."""
    key_reset, key_steps = jax.random.split(key)
    keys = jax.random.split(key_reset, episodes)
    state, _ = jax.vmap(ENV.reset, (0, None))(keys, None)

    def step(state: jax.Array, key: jax.Array) -> Any:
        act = dqn.act(params, state, key)
        advance = jax.vmap(ENV.step, (None, 0, 0, None))
        new, next_obs, rew, terminated, info = advance(key, state, act, None)
        after = info["achieved_goal"]
        extra = {"achieved_goal": state[:, :BITS], "next_achieved_goal": after}
        truncated = jnp.zeros_like(terminated)
        row = ExtendedTransition(state, act, rew, next_obs, terminated, truncated, extra)
        return new, (row, info["is_success"])

    _, (rows, success) = jax.lax.scan(step, state, jax.random.split(key_steps, BITS))
    rows = jax.tree.map(lambda x: x.swapaxes(0, 1).reshape(-1, *x.shape[2:]), rows)
    return rows, success.any(axis=0).mean()


def _test(params: dqn.Params) -> jax.Array:
    """Return the share of goals that the policy reaches with little exploration."""
    params = dataclasses.replace(params, epsilon=jnp.float32(0.01))
    return _play(params, jax.random.key(2), episodes=200)[1]
