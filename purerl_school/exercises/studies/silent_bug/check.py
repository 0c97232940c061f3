"""Checks of exercise 2.2: the critic's loss of DDPG."""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from purerl.types import Batch
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
Params = dict[str, Any]
OBS, ACT, HIDDEN = 2, 1, 3
PAIRS = (
    "This is a mean over all pairs of rows: each prediction was also compared with other rows. "
    "Print the shapes of all arrays."
)
MISTAKES = {
    "all pairs": PAIRS,
    "pairs of targets": f"The next values still have another shape. {PAIRS}",
    "sum": "This is a sum over the rows. Take the mean.",
    "half": "The factor 1/2 is not in the equation.",
    "no mask": "A row that terminated has no future: multiply it by 1 - terminated.",
    "reversed mask": "The mask is reversed: only rows with terminated lose their future.",
    "truncated": "A time limit does not end the future. Only terminated stops bootstrapping.",
    "online critic": "The target uses the online critic. Use target_critic.",
    "act": "The target uses the actions of the batch. Use those of the target policy.",
    "obs": "The target uses obs. The future begins with next_obs.",
    "no discount": "The discount factor is missing.",
    "one value": "All rows got the same value. Remove the last axis, and keep the rows.",
    "first row": "Only the value of the first row is used. Remove the last axis, not the rows.",
    "mean error": "The mean error was squared. Square first, then take the mean.",
}


def check_shape(answer: Answer) -> None:
    """The shape of the loss: one number."""
    expect_shape(apply(answer, make_params(), make_batch(3)), (), "loss")


def check_one_row(answer: Answer) -> None:
    """A batch of one row."""
    compare(answer, make_batch(1))


def check_right_predictions(answer: Answer) -> None:
    """Three rows whose predictions equal their targets: the loss is 0."""
    params, batch = make_params(), make_batch(3)
    off = np.ones(3, bool)
    batch = batch._replace(terminated=off, rew=run_critic(params["critic"], batch.obs, batch.act))
    compare(answer, batch)


def check_terminal_rows(answer: Answer) -> None:
    """Three rows that terminated: the targets are the rewards."""
    compare(answer, make_batch(3)._replace(terminated=np.ones(3, bool)))


def check_some_rows(answer: Answer) -> None:
    """Four rows: one terminated, one was cut by the time limit."""
    batch = make_batch(4)._replace(
        terminated=np.array([False, True, False, False]),
        truncated=np.array([False, False, True, False]),
    )
    compare(answer, batch)


def check_halves(answer: Answer) -> None:
    """The mean of the losses of two halves is the loss of the whole batch."""
    params, batch = make_params(), make_batch(4)
    halves = [Batch(*(None if x is None else x[part] for x in batch)) for part in SPLIT]
    losses = [float(apply(answer, params, half)) for half in halves]
    expect_close(apply(answer, params, batch), np.mean(losses), "loss of the whole batch")


SPLIT = (slice(0, 2), slice(2, 4))


def check_gradient(answer: Answer) -> None:
    """The gradient: right for the critic, and 0 for the targets."""
    params, batch = make_params(), make_batch(4)
    data = to_jax(batch)
    grads = jax.grad(lambda params: answer(params, data))(to_jax(params))
    for name in ("target_critic", "target_actor"):
        if any(bool((np.asarray(leaf) != 0.0).any()) for leaf in jax.tree.leaves(grads[name])):
            reject(f"The loss moves {name}. Use stop_gradient on the target.")
    target = compute_target(params, batch)

    def error(w2: np.ndarray) -> float:
        q = run_critic(params["critic"] | {"w2": w2}, batch.obs, batch.act)
        return float(((q - target) ** 2).mean())

    expected = differentiate(error, params["critic"]["w2"])
    mistakes = {"No gradient arrives: is the prediction stopped?": 0.0 * expected}
    expect_close(grads["critic"]["w2"], expected, "gradient of the critic", mistakes=mistakes)


def check_jit(answer: Answer) -> None:
    """The same number inside jit."""
    expect_jit(answer, make_params(), make_batch(4))


def compare(answer: Answer, batch: Batch) -> None:
    """Compare the loss of a batch, and explain classic mistakes."""
    params = make_params()
    mistakes = {text: compute_loss(params, batch, bug) for bug, text in MISTAKES.items()}
    got = apply(answer, params, batch)
    expect_close(got, compute_loss(params, batch), "loss", mistakes=mistakes)


def make_params() -> Params:
    """Return the parameters of the three networks."""
    critics = [make_layers(seed, OBS + ACT, 1) for seed in (1, 2)]
    names = ("critic", "target_critic", "target_actor")
    return dict(zip(names, (*critics, make_layers(3, OBS, ACT)), strict=True))


def make_layers(seed: int, inputs: int, outputs: int) -> dict[str, np.ndarray]:
    """Return the parameters of a network with one hidden layer."""
    shapes = {"w1": (inputs, HIDDEN), "b1": (HIDDEN,), "w2": (HIDDEN, outputs), "b2": (outputs,)}
    return {k: make_numbers(100 * seed + i, *s) for i, (k, s) in enumerate(shapes.items())}


def make_batch(rows: int) -> Batch:
    """Return a batch in which no episode ends."""
    obs, next_obs = (make_numbers(seed, rows, OBS) for seed in (7, 8))
    act, rew, off = (
        np.tanh(make_numbers(9, rows, ACT)),
        make_numbers(10, rows),
        np.zeros(rows, bool),
    )
    return Batch(obs, act, rew, next_obs, off, off)


def run_layers(params: Any, x: np.ndarray) -> np.ndarray:
    """Return the output of a network with one hidden layer."""
    return np.asarray(np.tanh(x @ params["w1"] + params["b1"]) @ params["w2"] + params["b2"])


def run_critic(params: Any, obs: np.ndarray, act: np.ndarray) -> np.ndarray:
    """Return the values `[B]` of actions."""
    return run_layers(params, np.concatenate([obs, act], axis=1))[:, 0]


def compute_target(params: Params, batch: Batch, bug: str = "") -> np.ndarray:
    """Return the targets `[B]`, or `[B, B]` with a bug of pairs."""
    next_obs = batch.obs if bug == "obs" else batch.next_obs
    next_act = np.tanh(run_layers(params["target_actor"], next_obs))
    next_act = batch.act if bug == "act" else next_act
    name = "critic" if bug == "online critic" else "target_critic"
    value = run_critic(params[name], next_obs, next_act)
    value = {
        "all pairs": value[:, None],
        "pairs of targets": value[:, None],
        "one value": value.mean(),
        "first row": value[0],
    }.get(bug, value)
    end = {
        "no mask": np.zeros(len(batch.rew)),
        "reversed mask": ~batch.terminated,
        "truncated": batch.terminated | batch.truncated,
    }.get(bug, batch.terminated)
    return np.asarray(batch.rew + (1.0 if bug == "no discount" else 0.99) * (1.0 - end) * value)


def compute_loss(params: Params, batch: Batch, bug: str = "") -> float:
    """Return the loss, with one planted mistake."""
    q = run_critic(params["critic"], batch.obs, batch.act)
    q = {
        "all pairs": q[:, None],
        "one value": q.mean(),
        "first row": q[0],
    }.get(bug, q)
    error = q - compute_target(params, batch, bug)
    if bug == "mean error":
        return float(error.mean() ** 2)
    factor = {"half": 0.5, "sum": len(batch.rew)}.get(bug, 1.0)
    return float(factor * (error**2).mean())
