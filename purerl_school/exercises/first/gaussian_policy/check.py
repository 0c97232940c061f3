"""Checks of exercise 1.2: a diagonal Gaussian policy."""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import numpy as np

from purerl_school.exercises.checking import (
    apply,
    differentiate,
    expect_close,
    expect_jit,
    expect_shape,
    make_numbers,
    reject,
    to_jax,
)

Answer = Callable[..., Any]
LOG_2_PI = np.log(2.0 * np.pi)
MANY = 4_000


def check_shapes(answer: Answer) -> None:
    """The shapes of the three results, for 5 observations and actions with 3 dimensions."""
    params, obs = make_case(5)
    act, logp, entropy = call(answer, params, obs)
    expect_shape(act, (5, 3), "action")
    expect_shape(logp, (5,), "log-probability")
    hint = "The entropy is the same for all rows, but each row must have it: broadcast it."
    expect_shape(entropy, (5,), "entropy", hint if np.shape(entropy) == () else "")


def check_mean(answer: Answer) -> None:
    """A standard deviation of nearly 0: the action is the mean of the network."""
    params, obs = make_case(4)
    params["log_std"] = np.full(3, -20.0)
    mean = compute_mean(params, obs)
    mistakes = {
        "The action is inside [-1, 1]. This Gaussian is not squashed.": np.tanh(mean),
        "This is only the noise: the mean is missing.": 0.0 * mean,
    }
    hint = "Scale the noise by exp(log_std), which is nearly 0 here."
    expect_close(call(answer, params, obs)[0], mean, "action", hint, mistakes)


def check_keys(answer: Answer) -> None:
    """The same key gives the same actions, another key gives other ones."""
    params, obs = make_case(4)
    first, again, other = (np.asarray(call(answer, params, obs, seed)[0]) for seed in (0, 0, 1))
    if (first != again).any():
        reject("Two calls with the same key gave different actions. All randomness is in the key.")
    if (first == other).all():
        reject("Another key gave the same actions. Is the argument key used?")


def check_noise(answer: Answer) -> None:
    """The noise of 4,000 actions: independent, normal, with the right standard deviation."""
    params, obs = make_case(MANY)
    act = np.asarray(call(answer, params, obs)[0], np.float64)
    std = np.exp(params["log_std"])
    noise = (act - compute_mean(params, obs)) / std
    refuse_repeated_noise(noise)
    found = noise.std(axis=0)
    if (abs(found - std) < 0.05).all():
        reject("The noise was scaled by the variance. Scale it by the standard deviation.")
    if (abs(found - 1.0 / np.sqrt(std)) < 0.05).all():
        reject("log_std was used as the logarithm of the variance.")
    if (abs(noise.mean(axis=0)) > 0.1).any():
        mean = np.round(noise.mean(axis=0), 2).tolist()
        reject(f"The mean of the noise must be 0, got {mean}. Is it normal, and not uniform?")
    if (abs(found - 1.0) > 0.05).any():
        reject(f"The standard deviation of (act - mean) / std must be 1, got {found.round(3)}.")
    if (abs((noise**4).mean(axis=0) - 3.0) > 0.6).any():
        reject("The noise is not normal. Use jax.random.normal.")


def refuse_repeated_noise(noise: np.ndarray) -> None:
    """Refuse noise `[B, A]` that repeats itself over rows or dimensions."""
    if (abs(noise - noise[0]) < 1e-3).all():
        reject("All rows have the same noise. Each action needs noise of its own: [B, A].")
    if (abs(noise - noise[:, :1]) < 1e-3).all():
        reject("All dimensions of an action have the same noise. Draw noise of shape [B, A].")
    if abs(np.corrcoef(noise.T) - np.eye(noise.shape[1])).max() > 0.1:
        reject("The noise of different dimensions is correlated. Was one key used twice?")


def check_log_prob(answer: Answer) -> None:
    """The log-probability of the action that was sampled."""
    params, obs = make_case(4)
    act, logp, _ = call(answer, params, obs)
    act, mean = np.asarray(act, np.float64), compute_mean(params, obs)
    right = log_prob(act, mean, params["log_std"])
    mistakes = {
        "The sign is wrong.": -right,
        "This is the log-probability of the mean, not of the sampled action.": log_prob(
            mean, mean, params["log_std"]
        ),
        "This is a mean over the dimensions of an action. Log-probabilities add up: use sum.": (
            right / 3.0
        ),
        "This is the density itself. Its logarithm is wanted.": np.exp(right),
        "The term log 2 pi is missing.": right + 1.5 * LOG_2_PI,
        "The constant log 2 pi must count once for each dimension.": right + LOG_2_PI,
    }
    expect_close(logp, right, "log-probability", "Exercise 1.1 has the formula.", mistakes)


def check_entropy(answer: Answer) -> None:
    """The entropy, which depends on the standard deviation only."""
    params, obs = make_case(4)
    terms = params["log_std"] + 0.5 * (LOG_2_PI + 1.0)
    _, logp, entropy = call(answer, params, obs)
    ones = np.ones(4)
    mistakes = {
        "The constant must count once for each dimension.": (
            ones * (params["log_std"].sum() + 0.5 * (LOG_2_PI + 1.0))
        ),
        "This is a mean over the dimensions. Entropies add up: use sum.": ones * terms.mean(),
        "The constant is half the logarithm of 2 pi e; here the e is missing.": (
            ones * (terms.sum() - 1.5)
        ),
        "The factor 1/2 of the constant is missing.": ones * (terms + 0.5 * (LOG_2_PI + 1.0)).sum(),
        "The sign is wrong: a larger standard deviation has a larger entropy.": (
            ones * (0.5 * (LOG_2_PI + 1.0) - params["log_std"]).sum()
        ),
        "This is minus the log-probability of the sample. The entropy is its expected value.": (
            -np.asarray(logp, np.float64)
        ),
        "The standard deviation itself was added, not its logarithm.": (
            ones * (np.exp(params["log_std"]) + 0.5 * (LOG_2_PI + 1.0)).sum()
        ),
    }
    expect_close(entropy, ones * terms.sum(), "entropy", mistakes=mistakes)


def check_score(answer: Answer) -> None:
    """The gradient of the log-probability, with the sampled action held fixed."""
    params, obs = make_case(4)
    act = np.asarray(call(answer, params, obs)[0], np.float64)
    given = to_jax(params)

    def total(name: str, value: Any) -> Any:
        return call(answer, given | {name: value}, obs)[1].sum()

    def reference(name: str, value: np.ndarray) -> float:
        moved = params | {name: value}
        return float(log_prob(act, compute_mean(moved, obs), moved["log_std"]).sum())

    for name, what, reason in (
        ("b2", "gradient in the mean", "without stop_gradient, the sample moves with the mean"),
        ("log_std", "gradient in log_std", "the sample moves with log_std, stop its gradient"),
    ):
        expected = differentiate(partial(reference, name), params[name])
        through = {"b2": np.zeros(3), "log_std": np.full(3, -4.0)}[name]
        text = f"This is the gradient if the action depends on the parameters: {reason}."
        got = jax.grad(partial(total, name))(given[name])
        expect_close(got, expected, what, mistakes={text: through})


def check_jit(answer: Answer) -> None:
    """The same numbers inside jit."""
    params, obs = make_case(4)
    expect_jit(answer, params, obs, jax.random.key(0))


def call(answer: Answer, params: Any, obs: np.ndarray, seed: int = 0) -> tuple[Any, Any, Any]:
    """Return the three results of an answer."""
    results = apply(answer, params, obs, jax.random.key(seed))
    if not isinstance(results, tuple) or len(results) != 3:
        reject("The function must return three arrays: act, logp, entropy.")
    return results


def make_case(rows: int) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Return parameters and observations."""
    shapes = {"w1": (2, 4), "b1": (4,), "w2": (4, 3), "b2": (3,)}
    params = {name: make_numbers(i, *shape) for i, (name, shape) in enumerate(shapes.items())}
    return params | {"log_std": np.array([-0.75, 0.25, 0.9])}, make_numbers(9, rows, 2)


def compute_mean(params: Any, obs: np.ndarray) -> np.ndarray:
    """Return the mean of the network."""
    hidden: np.ndarray = np.tanh(obs @ params["w1"] + params["b1"])
    return hidden @ params["w2"] + params["b2"]


def log_prob(act: np.ndarray, mean: np.ndarray, log_std: np.ndarray) -> np.ndarray:
    """Return the right log-probabilities."""
    score: np.ndarray = ((act - mean) / np.exp(log_std)) ** 2
    return -0.5 * (score + 2.0 * log_std + LOG_2_PI).sum(axis=1)
