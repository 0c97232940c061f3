"""Exercise 3.1: classic wrong answers are explained."""

import re

import jax.numpy as jnp
import pytest

from tests.school.exercises import answers

CUT = "jnp.where(truncated[t], next_val[t], later)"
END = "jnp.where(terminated[t], 0.0, later)"
RESULT = "jnp.stack(returns[::-1])"


@pytest.mark.parametrize(
    ("old", "new", "words"),
    answers.mark_later([
        (RESULT, "jnp.full_like(rew, later)", "All steps have the return of the whole episode"),
        ("+ gamma * later", "+ later", "The discount factor is missing"),
        (RESULT, f"{RESULT} * gamma ** jnp.arange(len(rew))", "its distance from the first row"),
        ("append(later)", "append(later - rew[t])", "The reward of the step itself is missing"),
        ("returns[::-1]", "returns", "in reversed order"),
        (RESULT, "returns[::-1]", "must be an array of shape .*, got a list"),
        (RESULT, f"{RESULT}[:, None]", "A last axis of size 1 is left"),
        (END, "later", "end.* in a terminal state: .* A terminal state has no future"),
        ("returns.append(later)", "returns.append(rew[t] + gamma * next_val[t] * ~terminated[t])",
         "was added at every step"),
        (END, "jnp.where(terminated[t] & (t == len(rew) - 1), 0.0, later)", "flow into the first"),
        ("next_val[-1]", "0.0", "Nothing was added after the last row"),
        ("next_val[-1]", "next_val[-1] / gamma", "without gamma"),
        ("rew[t] + gamma * later", "jnp.where((t == len(rew) - 1) & ~terminated[t], later, "
         "rew[t] + gamma * later)", "replaced the last reward"),
        (CUT, "jnp.where(truncated[t], 0.0, later)", "A time limit counts as a terminal state"),
        (CUT, "later", "runs across the time limit"),
        ("next_val[t], later", "next_val[t] + later, later", "were both added"),
        ("next_val[t]", "next_val[t - 1]", "one row too early"),
        ("next_val[t]", "next_val[t + 1]", "one row too late"),
        ("terminated[t], 0.0", "terminated[t] & ~truncated[t], 0.0", "wins over `truncated`"),
        (END, "0.0 if terminated[t] else later", "(?s)`jax.jit`.*jnp.where in place of if"),
    ]),
)  # fmt: skip
def test_a_wrong_answer_is_explained(old, new, words):
    mistake = answers.find_mistake("3.1", answers.change_solution("3.1", old, new))
    assert re.search(words, mistake), mistake


def sum_forwards(rew, next_val, terminated, truncated, gamma):
    total, sums = 0.0, []
    for one in rew:
        total = one + gamma * total
        sums.append(total)
    return jnp.stack(sums)


def stop_early(rew, next_val, terminated, truncated, gamma):
    later, sums = 0.0, []
    for t in reversed(range(len(rew))):
        ends = terminated[t + 1] if t + 1 < len(rew) else True
        later = rew[t] + gamma * jnp.where(ends, 0.0, later)
        sums.append(later)
    return jnp.stack(sums[::-1])


@pytest.mark.parametrize(
    ("answer", "words"),
    [(sum_forwards, "The sums run forwards"), (stop_early, "stops one row too early")],
)
def test_a_wrong_loop_is_explained(answer, words):
    assert words in answers.find_mistake("3.1", answer)


@pytest.mark.complete
def test_ppo_of_the_reward_learns_cartpole():
    score, lines = answers.run_reward("3.1")
    assert score > 200
    assert len(lines) >= 5
