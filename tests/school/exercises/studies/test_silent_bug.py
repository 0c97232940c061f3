"""Exercise 2.2: the bug, and mistakes in mending it, are explained."""

import re

import pytest

from tests.school.exercises import answers

TARGET = "batch.rew + GAMMA * (1.0 - batch.terminated) * next_q"
STOP = "jax.lax.stop_gradient(target)"
NEXT_Q = 'critic(params["target_critic"], batch.next_obs, next_act)'
Q = 'critic(params["critic"], batch.obs, batch.act)'
LAST = '@ params["w2"] + params["b2"])[:, 0]'


@pytest.mark.parametrize(
    ("old", "new", "words"),
    answers.mark_later([
        (LAST, LAST.replace("[:, 0]", ""), "a mean over all pairs of rows"),
        (f"q = {Q}", f"q = {Q}[:, None]", "a mean over all pairs of rows"),
        (f"next_q = {NEXT_Q}", f"next_q = {NEXT_Q}[:, None]", "The next values still have"),
        (LAST, LAST.replace("[:, 0]", ".mean()"), "All rows got the same value"),
        (LAST, LAST.replace("[:, 0]", "[0]"), "Only the value of the first row"),
        (f"jnp.square(q - {STOP}).mean()", f"jnp.square(q - {STOP}).sum()", "Take the mean"),
        (f"jnp.square(q - {STOP}).mean()", f"jnp.square(q - {STOP})", "A loss is one number"),
        (f"jnp.square(q - {STOP})", f"0.5 * jnp.square(q - {STOP})", "The factor 1/2"),
        (f"jnp.square(q - {STOP}).mean()", f"(q - {STOP}).mean() ** 2", "The mean error was"),
        (TARGET, "batch.rew + GAMMA * next_q", "multiply it by 1 - terminated"),
        ("(1.0 - batch.terminated)", "batch.terminated", "The mask is reversed"),
        ("batch.terminated)", "(batch.terminated | batch.truncated))", "A time limit does not"),
        ("target_critic\"]", "critic\"]", "The target uses the online critic"),
        (NEXT_Q, NEXT_Q.replace("next_act", "batch.act"), "those of the target policy"),
        ('params["target_actor"], batch.next_obs', 'params["target_actor"], batch.obs', "loss is"),
        ("GAMMA * (", "(", "The discount factor is missing"),
        (STOP, "target", "The loss moves target_critic"),
        ("jnp.square(q -", "jnp.square(jax.lax.stop_gradient(q) -", "is the prediction stopped"),
    ]),
)  # fmt: skip
def test_a_wrong_answer_is_explained(old, new, words):
    mistake = answers.find_mistake("2.2", answers.change_solution("2.2", old, new))
    assert re.search(words, mistake), mistake


def test_the_file_with_the_bug_passes_a_batch_of_one_row():
    path = answers.folder_of("2.2") / "start.py"
    assert answers.find_mistake("2.2", path).startswith("Three rows whose predictions equal")


@pytest.mark.complete
def test_the_study_shows_the_cost_of_the_bug():
    (with_bug, without), _ = answers.run_reward("2.2")
    assert without > with_bug + 200.0
