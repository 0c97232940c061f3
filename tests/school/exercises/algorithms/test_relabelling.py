"""Exercise 3.6: classic wrong answers are explained."""

import re

import pytest

from tests.school.exercises import answers

NEXT_OBS = "jnp.concatenate([row.next_obs[:, :-size], goal], axis=1)"
OBS = "jnp.concatenate([row.obs[:, :-size], goal], axis=1)"
REW = "jnp.where(relabelled, reward_fn(achieved, goal), row.rew)"
END = "jnp.where(relabelled, terminated_fn(achieved, goal), row.terminated)"


@pytest.mark.parametrize(
    ("old", "new", "words"),
    answers.mark_later([
        ("x: x[index]", "x: x", "Take the rows `index`"),
        ("x: x[index]", "x: x[future]", "These are the rows `future`"),
        (REW, "reward_fn(achieved, goal)", "field rew .* not relabelled keep what was stored"),
        (END, "terminated_fn(achieved, goal)", "field terminated .* keep what was stored"),
        ("jnp.where(relabelled[:, None], new, row.obs[:, -size:])", "new",
         "field obs .* not relabelled keep what was stored"),
        ("[row.obs[:, :-size], goal]", "[goal, row.obs[:, :-size]]", "The goal stands before"),
        ("[row.obs[:, :-size], goal]", "[row.obs, goal]", "the old one is still there"),
        (NEXT_OBS, "row.next_obs", "field next_obs .* The goals were not replaced"),
        (OBS, "row.obs", "field obs .* The goals were not replaced"),
        ('new = data.extra["next_', 'new = data.extra["', "achieved before the future step"),
        ("[future]", "[index]", "achieved by the step itself"),
        (REW, "row.rew", "The rewards were not computed again"),
        ('row.extra["next_', 'row.extra["', "It needs next_achieved_goal, not achieved_goal"),
        ("reward_fn(achieved, goal)", "reward_fn(goal, achieved)", "arguments of reward_fn are"),
        ("reward_fn(achieved, goal)", "reward_fn(achieved, row.obs[:, -size:])", "the old goal"),
        ("reward_fn(achieved, goal)", "reward_fn(new, goal)", "achieved by the future step was"),
        ("reward_fn(achieved, goal)", "data.rew[future]", "The rewards of the future steps were"),
        (END, "row.terminated", "A success in hindsight ends its episode"),
        ("terminated_fn(achieved, goal)", "False", "All flags are False"),
        ("terminated_fn(achieved, goal)", "terminated_fn(goal, achieved)",
         "arguments of terminated_fn are swapped"),
        ("terminated_fn(achieved, goal)",
         'terminated_fn(row.extra["achieved_goal"], goal)', "They need next_achieved_goal"),
        ("row.act", "jnp.where(relabelled[:, None], data.act[future], row.act)",
         "the actions of the future steps"),
        ("row.truncated", "jnp.where(relabelled, data.truncated[future], row.truncated)",
         "The flags of the future steps were taken"),
        ("row.truncated", "row.truncated & ~relabelled", "The time limit was removed"),
        ("jnp.where(relabelled, reward_fn(achieved, goal), row.rew)",
         "jnp.stack([reward_fn(achieved, goal)[i] if one else row.rew[i] "
         "for i, one in enumerate(relabelled)])", "jnp.where in place of if"),
        ("return Batch(", "return dict(", "Return a purerl.types.Batch"),
    ]),
)  # fmt: skip
def test_a_wrong_answer_is_explained(old, new, words):
    mistake = answers.find_mistake("3.6", answers.change_solution("3.6", old, new))
    assert re.search(words, mistake), mistake


@pytest.mark.complete
def test_dqn_of_the_reward_reaches_goals():
    score, lines = answers.run_reward("3.6")
    assert score > 0.5
    assert len(lines) >= 5
