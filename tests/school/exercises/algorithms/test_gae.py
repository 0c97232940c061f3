"""Exercise 3.2: classic wrong answers are explained."""

import re

import jax.numpy as jnp
import pytest

from tests.school.exercises import answers

ENDS = "jnp.logical_or(terminated, truncated)"
LAST = "jnp.concatenate([val[1:], {}[-1:]]) -"


@pytest.mark.parametrize(
    ("old", "new", "words"),
    answers.mark_later([
        ("next_val - val", "next_val", r"V\(s_t\) was not subtracted"),
        ("advantages[::-1])", "advantages[::-1]) + val", "or it was added again"),
        ("next_val - val", "next_val + val", r"V\(s_t\) was added"),
        ("gamma * (1.0 - terminated)", "(1.0 - terminated)", "is not discounted by gamma"),
        ("(1.0 - terminated) * ", "", "of a terminal state was used"),
        ("(1.0 - terminated)", "terminated", "The mask is inverted"),
        ("gamma * (1.0 - terminated) * next_val", "0.0", "is missing inside the episode"),
        ("gamma * lam * continues", "gamma * continues", "lambda is missing"),
        ("advantages[::-1]", "advantages", "in reversed order"),
        ("advantages[::-1])", "advantages[::-1]).at[-1].set(0.0)", "leaves out the last row"),
        (ENDS, f"jnp.append({ENDS}[1:], True)", "restarts one row too early"),
        ("gamma * lam * continues", "lam * continues", "gamma is missing in the recursion"),
        ("later = delta[t] + gamma * lam * continues[t] * later", "later = delta[t]",
         "the errors of one step"),
        ("delta[t] +", "(1.0 - lam * (lam < 1.0)) * delta[t] +", "multiplied by 1 - lambda"),
        (ENDS, "truncated", "terminal state in the middle.* flow into this one"),
        ("(1.0 - terminated)", f"(1.0 - {ENDS})", "A time limit counts as a terminal state"),
        (ENDS, "terminated", "A time limit ends an episode, too"),
        ("next_val -", LAST.format("next_val"), "The next row of val was used"),
        ("next_val -", "next_val * (jnp.arange(len(rew)) < len(rew) - 1) - 0.0 -",
         "A last row without a flag"),
        ("next_val -", f"jnp.where(truncated, next_val, {LAST.format('val')[:-2]}) -",
         "The value of the last row itself was used"),
        ("jnp.zeros_like(delta[0])", "next_val[-1]", r"V\(s_T\) was used twice"),
        ("reversed(range(len(rew)))", "reversed(range(len(rew) - 1))", "must have shape"),
        ("(1.0 - terminated)", "(1.0 - terminated * (1.0 - truncated))", "wins over `truncated`"),
        (ENDS, "(terminated * 1.0 + truncated)", "The two flags were added"),
    ]),
)  # fmt: skip
def test_a_wrong_answer_is_explained(old, new, words):
    mistake = answers.find_mistake("3.2", answers.change_solution("3.2", old, new))
    assert re.search(words, mistake), mistake


def test_a_recursion_that_runs_forwards_is_explained():
    def run_forwards(rew, val, next_val, terminated, truncated, gamma, lam):
        later, result = 0.0, []
        for one in rew + gamma * (1.0 - terminated) * next_val - val:
            later = one + gamma * lam * later
            result.append(later)
        return jnp.stack(result)

    assert "The recursion runs forwards" in answers.find_mistake("3.2", run_forwards)


def test_a_recursion_over_environments_is_explained():
    solution = answers.load("3.2")

    def run_across(*args):
        turned = (x.T if getattr(x, "ndim", 0) == 2 else x for x in args)
        return solution(*turned).T

    assert "Time is the first axis" in answers.find_mistake("3.2", run_across)


@pytest.mark.complete
def test_ppo_of_the_reward_learns_cartpole():
    score, lines = answers.run_reward("3.2")
    assert score > 200
    assert len(lines) >= 5
