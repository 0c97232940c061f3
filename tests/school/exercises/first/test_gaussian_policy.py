"""Exercise 1.2: classic wrong answers are explained."""

import re

import jax
import pytest

from tests.school.exercises import answers

NOISE = "jax.random.normal(key, mean.shape)"
ACT = "jax.lax.stop_gradient(mean + jnp.exp(log_std) * noise)"
CONSTANT = "0.5 * jnp.log(2.0 * jnp.pi * jnp.e)"
ENTROPY = f"(log_std + {CONSTANT}).sum(axis=-1)"
SPLIT = "jnp.concatenate([jax.random.normal(key, (len(mean), 1))] * 2 + ["
SPLIT += "jax.random.normal(jax.random.fold_in(key, 1), (len(mean), 1))], axis=1)"


@pytest.mark.parametrize(
    ("old", "new", "words"),
    answers.mark_later([
        (NOISE, "jax.random.normal(key, log_std.shape)", "All rows have the same noise"),
        (NOISE, "jax.random.normal(key, (len(obs), 1))", "All dimensions of an action"),
        (NOISE, SPLIT, "Was one key used twice"),
        (NOISE, "jax.random.uniform(key, mean.shape)", "Is it normal, and not uniform"),
        (
            NOISE,
            "jax.random.uniform(key, mean.shape, minval=-3**0.5, maxval=3**0.5)",
            "The noise is not normal",
        ),
        (NOISE, "jax.random.normal(jax.random.key(0), mean.shape)", "Is the argument key used"),
        (ACT, ACT.replace("jnp.exp(log_std) * ", ""), "Scale the noise by exp"),
        (ACT, ACT.replace("jnp.exp(log_std)", "log_std"), "Scale the noise by exp"),
        (ACT, ACT.replace("jnp.exp(log_std)", "jnp.exp(2.0 * log_std)"), "scaled by the variance"),
        (ACT, ACT.replace("jnp.exp(log_std)", "jnp.exp(0.5 * log_std)"), "of the variance"),
        (ACT, ACT.replace("mean + ", ""), "the mean is missing"),
        (ACT, f"jnp.tanh({ACT})", "not squashed"),
        (ACT, ACT.removeprefix("jax.lax.stop_gradient"), "the sample moves with the mean"),
        ("(act - mean)", "(mean - mean)", "the log-probability of the mean"),
        ("logp = -0.5", "logp = 0.5", "The sign is wrong"),
        ("jnp.log(2.0 * jnp.pi)).sum(axis=-1)", "jnp.log(2.0 * jnp.pi)).mean(axis=-1)", "use sum"),
        ("jnp.log(2.0 * jnp.pi)).sum(axis=-1)", "jnp.log(2.0 * jnp.pi))", "must be summed"),
        (" + jnp.log(2.0 * jnp.pi)", "", "log 2 pi is missing"),
        (ENTROPY, f"log_std.sum(axis=-1) + {CONSTANT}", "once for each dimension"),
        (ENTROPY, ENTROPY.replace("sum", "mean"), "Entropies add up"),
        ("jnp.pi * jnp.e", "jnp.pi", "the e is missing"),
        (CONSTANT, CONSTANT.removeprefix("0.5 * "), "The factor 1/2 of the constant"),
        (ENTROPY, ENTROPY.replace("(log_std", "(-log_std"), "a larger entropy"),
        ("jnp.broadcast_to(entropy, logp.shape)", "entropy", "each row must have it"),
        ("jnp.broadcast_to(entropy, logp.shape)", "-logp", "The entropy is its expected value"),
        ("return act, logp, ", "return act, ", "must return three arrays"),
    ]),
)  # fmt: skip
def test_a_wrong_answer_is_explained(old, new, words):
    mistake = answers.find_mistake("1.2", answers.change_solution("1.2", old, new))
    assert re.search(words, mistake), mistake


def test_actions_that_do_not_depend_on_the_key_alone_are_refused():
    solution, count = answers.load("1.2"), iter(range(1_000))

    def impure(params, obs, key):
        return solution(params, obs, jax.random.fold_in(key, next(count)))

    assert "the same key gave different actions" in answers.find_mistake("1.2", impure)


@pytest.mark.complete
def test_the_policy_of_the_reward_walks_to_its_goal():
    score, lines = answers.run_reward("1.2")
    assert score > -5.0
    assert len(lines) >= 5
