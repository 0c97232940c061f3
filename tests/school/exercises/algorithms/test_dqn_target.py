"""Exercise 3.4: classic wrong answers are explained."""

import re

import pytest

from tests.school.exercises import answers

CHOOSER = "online_q if double else target_q"
VALUE = "jnp.take_along_axis(target_q, action[:, None], axis=1)[:, 0]"
SWAPPED = f"({CHOOSER})[jnp.arange(len(rew)), target_q.argmax(axis=1)]"
CLIPPED = "jnp.minimum(target_q.max(axis=1), (online_q if double else target_q).max(axis=1))"
MASK = "(1.0 - terminated)"


@pytest.mark.parametrize(
    ("old", "new", "words"),
    answers.mark_later([
        ("gamma * ", "", "gamma is missing"),
        ("rew + gamma", "gamma", "The reward is missing"),
        ("rew + gamma * (1.0 - terminated) * value", "gamma * (rew + (1.0 - terminated) * value)",
         "The reward is discounted"),
        ("argmax", "argmin", "The minimum of the values was taken"),
        (VALUE, "target_q.mean(axis=1)", "The mean of the values was taken"),
        ("* value)", "* action)", "Take the value of this action"),
        (VALUE, "target_q.max()", "over the whole batch"),
        (VALUE, "online_q.max(axis=1)", "Targets come from the target network"),
        (CHOOSER, "online_q", "but double is False"),
        ("jnp.take_along_axis(target_q", "jnp.take_along_axis(online_q",
         "the online network gave the value"),
        (f"{VALUE}  # [B]", VALUE[: -len("[:, 0]")], r"\[B, 1\] and \[B\] broadcast"),
        (VALUE, "target_q[:, action]", "Each row got the actions of all rows"),
        (MASK, "terminated", "Is the mask inverted"),
        (f"{MASK} * ", "", "The terminal row bootstraps"),
        (f"rew + gamma * {MASK} * value", f"(rew + gamma * value) * {MASK}",
         "The reward of the terminal row is missing"),
        (MASK, "(1.0 - (terminated | truncated))", "A time limit counts as a terminal state"),
        ("(rew + gamma", "((1.0 - truncated) * rew + (1.0 - truncated) * gamma",
         "A time limit removes the whole target"),
        (MASK, "(1.0 - terminated * (1.0 - truncated))", "wins over `truncated`"),
        (CHOOSER, "target_q", "double makes no difference"),
        (VALUE, SWAPPED, "The roles are swapped"),
        (VALUE, VALUE.replace("(target_q", f"({CHOOSER}"), "chose the action and gave its value"),
        (VALUE, CLIPPED, "clipped double Q-learning"),
        (f"* {MASK} * value", f"* ({MASK} if not double else 1.0) * value", "need the mask"),
        ("jax.lax.stop_gradient(", "(", "Put jax.lax.stop_gradient around it"),
        ("return", "float(rew[0])\n    return", "no float"),
    ]),
)  # fmt: skip
def test_a_wrong_answer_is_explained(old, new, words):
    mistake = answers.find_mistake("3.4", answers.change_solution("3.4", old, new))
    assert re.search(words, mistake), mistake


@pytest.mark.complete
def test_dqn_of_the_reward_learns_cartpole():
    score, lines = answers.run_reward("3.4")
    assert score > 100
    assert len(lines) >= 5
