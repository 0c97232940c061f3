"""Exercise 3.7: classic wrong answers are explained."""

import re

import pytest

from tests.school.exercises import answers

IS_OVER = "if terminated or truncated:"
FLAGS = "next_obs, terminated, truncated)"
IS_DUE = "if steps >= parts.update_after and steps % parts.update_every == 0:"
RESET = "env_state, obs = parts.env_reset(env_state)"
ROW = "    row = Transition("
AFTER_RESET = f"    {IS_OVER}\n        next_obs = parts.env_reset(env_state)[1]\n{ROW}"
TWICE = f"if terminated:\n        {RESET}\n    if truncated:\n        {RESET}"


@pytest.mark.parametrize(
    ("old", "new", "words"),
    answers.mark_later([
        ("return Carry(", "return (", "Return a Carry"),
        ("carry.steps + 1", "carry.steps", "The step was not counted"),
        ("Transition(carry.obs", "Transition(next_obs", "the observation after the step"),
        ("parts.act(carry.learner, carry.obs, carry.steps)",
         "parts.act(carry.learner, carry.obs, carry.steps + 1)", "the steps done before"),
        ("parts.act(carry.learner, carry.obs, carry.steps)",
         "parts.act(carry.learner, carry.obs, carry.updates)", "is no number of steps"),
        ("carry.steps < parts", "carry.steps >= parts", "all random steps are over"),
        ("rew, next_obs,", "rew, carry.obs,", "next_obs .* the observation before the step"),
        (IS_OVER, "if True:", "The episode was reset, but it goes on"),
        ("obs, steps = next_obs", "obs, steps = carry.obs", "The next action is for the new one"),
        ("buffer, env_state, obs,", "buffer, carry.env_state, obs,", "The old state was kept"),
        ("carry.steps < parts", "carry.steps <= parts", "One random step too many"),
        ("carry.steps < parts", "carry.steps + 1 < parts", "One random step too few"),
        ("carry.steps < parts.start_steps", "False", "The first actions must be random"),
        ("random_act(carry.steps)", "random_act(carry.steps + 1)", "number given to random_act"),
        (ROW, AFTER_RESET, "Store the transition before the reset"),
        (FLAGS, "next_obs, terminated or truncated, False)", "stored as a terminal state"),
        (FLAGS, "next_obs, terminated or truncated, terminated or truncated)",
         "Both flags have the same value"),
        (FLAGS, "next_obs, truncated, terminated)", "The flags are swapped"),
        (IS_OVER, "if terminated:", "cut by the time limit.* Reset the environment"),
        (IS_OVER, "if truncated:", "in a terminal state: .* Reset the environment"),
        (f"    {IS_OVER}\n        {RESET}\n", "", "Reset the environment"),
        (RESET, "_, obs = parts.env_reset(env_state)", "Keep the state that env_reset returns"),
        (f"{IS_OVER}\n        {RESET}", TWICE, "The environment was reset twice"),
        (IS_DUE, IS_DUE.replace(">=", ">"), "No update was made"),
        (IS_DUE, IS_DUE.replace(" steps", " carry.steps"), "count the step first"),
        (IS_DUE, "if steps % parts.update_every == 0:", "update_after was not asked"),
        (IS_DUE, IS_DUE.replace("steps >=", "steps + 1 >=").replace("steps %", "(steps + 1) %"),
         "one step too early"),
        ("range(parts.update_every)", "range(1)", "A burst has update_every updates"),
        ("range(parts.update_every)", "range(parts.update_after)", "not update_after"),
        ("learner, buffer, updates)\n", "learner, carry.buffer, updates)\n", "saw 3 rows"),
        ("updates += 1", "pass", "Both updates have the same number"),
        ("learner = parts.update(learner, buffer, updates)\n            updates += 1",
         "updates += 1\n            learner = parts.update(learner, buffer, updates)",
         "The numbers begin with 1"),
        ("parts.update(learner,", "parts.update(carry.learner,", "did not get the learner"),
        ("obs, steps, updates)", "obs, steps, 0)", "The updates were not counted"),
        ("learner, updates = carry.learner, carry.updates", "learner, updates = carry.learner, 0",
         "begins with number 0 again"),
        (IS_DUE, "if steps >= parts.update_after:", "updates were made at every step"),
        (IS_DUE, "if steps == parts.update_after:", "Only one burst was made"),
        ("learner, updates = carry.learner,", "learner, updates = (),", "did not keep the updates"),
        (IS_DUE, "if steps >= parts.update_after and "
         "(steps - parts.update_after) % parts.update_every == 0:", "which is not a multiple"),
    ]),
)  # fmt: skip
def test_a_wrong_answer_is_explained(old, new, words):
    mistake = answers.find_mistake("3.7", answers.change_solution("3.7", old, new))
    assert re.search(words, mistake), mistake


def test_a_buffer_outside_of_the_carry_is_explained():
    solution, rows = answers.load("3.7"), []

    def keep_rows(parts, carry):
        carry = solution(parts, carry)
        rows.append(carry.buffer[-1])
        return carry._replace(buffer=tuple(rows))

    assert "Is something kept outside of the carry" in answers.find_mistake("3.7", keep_rows)


@pytest.mark.complete
def test_dqn_of_the_reward_learns_in_the_loop():
    score, lines = answers.run_reward("3.7")
    assert score > 50
    assert len(lines) >= 5
