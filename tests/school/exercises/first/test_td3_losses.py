"""Exercise 1.3: classic wrong answers are explained."""

import re

import pytest

from tests.school.exercises import answers

NOISE = "jnp.clip(TARGET_NOISE * noise, -NOISE_CLIP, NOISE_CLIP)"
ACT = 'jnp.clip(actor(params["target_actor"], batch.next_obs) + smoothing, -1.0, 1.0)'
MASK = "(1.0 - batch.terminated)"
MIN = "jnp.minimum(first, second)"
LOSS = "jnp.square(q1 - target).mean() + jnp.square(q2 - target).mean()"
POLICY = '-critic(frozen, batch.obs, actor(params["actor"], batch.obs)).mean()'
FROZEN = 'jax.lax.stop_gradient(params["critic"][0])'
STOP = "    target = jax.lax.stop_gradient(target)\n"
WHOLE = 'jax.lax.stop_gradient(critic(params["critic"][0], batch.obs, '


@pytest.mark.parametrize(
    ("old", "new", "words"),
    answers.mark_later([
        (MASK + " * ", "", "multiply it by 1 - terminated"),
        (MASK, "(1.0 - (batch.terminated | batch.truncated))", "A time limit does not end"),
        (MASK, "batch.terminated", "multiply it by 1 - terminated"),
        (MASK, "0.0", "their future is missing"),
        (MASK, "(1.0 - batch.terminated.any())", "the future of all rows"),
        (LOSS, f"0.5 * ({LOSS})", "are averaged. Add them up"),
        (LOSS, LOSS.replace("mean", "sum"), "a sum over the rows"),
        (LOSS, "jnp.square(q1 - target).mean()", "Only one critic learns"),
        (LOSS, LOSS.replace("jnp.square", ""), "not squared"),
        (LOSS, LOSS.replace(".mean()", ""), "Is the mean over the rows missing"),
        (MIN, "jnp.maximum(first, second)", "the larger of the two critics"),
        (MIN, "(first + second) / 2.0", "the mean of the two critics"),
        (MIN, "first", "only the first target critic"),
        (MIN, "jnp.where(first.mean() < second.mean(), first, second)", "row by row"),
        ('in params["target_critic"]', 'in params["critic"]', "the online critics"),
        (ACT, ACT.replace("target_actor", "actor"), "the online policy"),
        (ACT, "batch.act", "the action of the batch"),
        (ACT, ACT.replace("next_obs", "obs"), "is .*, expected"),
        ("GAMMA * (", "(", "The discount factor is missing"),
        (" + smoothing", "", "The noise of the target action is missing"),
        (" + smoothing", " - smoothing", "The noise is subtracted"),
        (NOISE, "jnp.clip(noise, -NOISE_CLIP, NOISE_CLIP)", "The noise is not scaled"),
        (NOISE, NOISE.replace("noise,", "noise[:, :1],"), "for all dimensions"),
        (NOISE, "TARGET_NOISE * noise", "The noise is not clipped"),
        (NOISE, "TARGET_NOISE * jnp.clip(noise, -NOISE_CLIP, NOISE_CLIP)", "before it was scaled"),
        (ACT, ACT.removeprefix("jnp.clip(").removesuffix(", -1.0, 1.0)"), "leaves \\[-1, 1\\]"),
        (POLICY, POLICY.removeprefix("-"), "search for the worst actions"),
        (POLICY, POLICY.replace("mean", "sum"), "a sum over the rows"),
        (POLICY, '-critic(frozen, batch.obs, batch.act).mean()', "the actions of the batch"),
        (POLICY, POLICY.replace('params["actor"]', 'params["target_actor"]'), "target policy"),
        (POLICY, POLICY.replace("obs", "next_obs"), "uses next_obs"),
        (FROZEN, FROZEN.replace("[0]", "[1]"), "the second critic"),
        (FROZEN, FROZEN.replace("critic", "target_critic"), "a target critic"),
        (FROZEN, 'params["critic"][0]', "moves the critics"),
        (FROZEN, f'{FROZEN}\n    batch = batch._replace(obs=batch.obs + 0.1 * noise)', "changes"),
        (STOP, "", "moves target_critic. Use stop_gradient"),
        (POLICY, POLICY.replace("actor(", "jax.lax.stop_gradient(actor)("), "raised"),
        (POLICY, f'-{WHOLE}actor(params["actor"], batch.obs))).mean()', "does not move the policy"),
        ("return loss_q, loss_pi", "return loss_q + loss_pi", "must return two numbers"),
        ("return loss_q, loss_pi", "return loss_pi, loss_q", "loss of the critics is"),
        ("q1 - target", "jax.lax.stop_gradient(q1) - target", "No gradient arrives"),
    ]),
)  # fmt: skip
def test_a_wrong_answer_is_explained(old, new, words):
    mistake = answers.find_mistake("1.3", answers.change_solution("1.3", old, new))
    assert re.search(words, mistake), mistake


@pytest.mark.complete
def test_td3_swings_the_pendulum_up():
    score, lines = answers.run_reward("1.3")
    assert score > -400.0
    assert len(lines) >= 10
