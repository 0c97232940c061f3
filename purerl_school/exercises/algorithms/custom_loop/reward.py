"""Reward of exercise 3.7: your loop trains DQN on CartPole."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from purerl.algos import dqn
from purerl.buffers import replay
from purerl.envs.classic.cartpole import CartPole
from purerl.types import Transition
from purerl_school.exercises.algorithms.custom_loop.parts import Carry, Parts

ENV = CartPole()
STEPS, REPORTED, ROWS = 20_000, 2_500, 64


def reward(answer: Callable[..., Any], report: Callable[[str], None]) -> float:
    """Train, report the mean return of the episodes in each part, and return the last one."""
    report("Training DQN on CartPole in your loop. The largest return is 500.")
    spec = dqn.Spec(ENV.spec, hidden=(64, 64), lr=1e-3, eps_decay=4_000)
    learner = dqn.init(jax.random.key(0), spec)
    buffer = replay.init(spec.env.example(), capacity=STEPS)
    parts = _make_parts()
    env_state, obs = parts.env_reset((jnp.zeros(4), 0, 0))
    carry, lengths, score = Carry(learner, buffer, env_state, obs, 0, 0), list[int](), np.nan
    for step in range(1, STEPS + 1):
        before = carry.env_state
        carry = answer(parts, carry)
        if carry.env_state[2] != before[2]:  # another episode; each of its steps had a reward of 1
            lengths.append(before[1] + 1)
        if step % REPORTED == 0:
            score = float(np.mean(lengths)) if lengths else score
            report(f"step {step:6,}  return {score:5.1f}")
            lengths.clear()
    return score


def _make_parts() -> Parts:
    """Return the functions of the loop; the state of the environment has its step and episode."""
    act_key, reset_key, sample_key = jax.random.split(jax.random.key(1), 3)

    @jax.jit
    def act(learner: dqn.State, obs: jax.Array, steps: int) -> jax.Array:
        return dqn.act(learner.params, obs, jax.random.fold_in(act_key, steps))

    @jax.jit
    def random_act(steps: int) -> jax.Array:
        return jax.random.randint(jax.random.fold_in(act_key, steps), (), 0, 2, jnp.int32)

    @jax.jit
    def reset(episode: int) -> tuple[jax.Array, jax.Array]:
        return ENV.reset(jax.random.fold_in(reset_key, episode), ENV.params)

    @jax.jit
    def step(state: jax.Array, act: jax.Array) -> Any:
        return ENV.step(reset_key, state, act, ENV.params)[:4]  # CartPole uses no key

    @jax.jit
    def add(buffer: replay.Replay, row: Transition) -> replay.Replay:
        return replay.add(buffer, jax.tree.map(lambda x: jnp.asarray(x)[None], row))

    @jax.jit
    def update(learner: dqn.State, buffer: replay.Replay, updates: int) -> dqn.State:
        key = jax.random.fold_in(sample_key, updates)
        return dqn.update(learner, replay.sample(buffer, key, ROWS))[0]

    def env_reset(env_state: Any) -> Any:
        episode = env_state[2] + 1
        state, obs = reset(episode)
        return (state, 0, episode), obs

    def env_step(env_state: Any, act: Any) -> Any:
        state, obs, rew, terminated = step(env_state[0], act)
        count = env_state[1] + 1
        return (state, count, env_state[2]), obs, rew, bool(terminated), count >= ENV.max_steps

    times = {"start_steps": 500, "update_after": 500, "update_every": 4}
    return Parts(act, random_act, env_reset, env_step, add, update, **times)
