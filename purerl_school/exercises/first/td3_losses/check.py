"""Checks of exercise 1.3: the target and the losses of TD3."""

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
ROWS, OBS, ACT, HIDDEN = 4, 2, 2, 3
LOSS = {
    "one critic": "Only one critic learns. The loss is a sum over both.",
    "half": "The losses of the two critics are averaged. Add them up.",
    "sum": "This is a sum over the rows. Take the mean.",
    "no square": "The error is not squared.",
}
TARGET = {
    "max": "The target uses the larger of the two critics. Use the smaller one.",
    "mean": "The target uses the mean of the two critics. Use the smaller one.",
    "first": "The target uses only the first target critic. Use the smaller of both.",
    "smaller mean": "The minimum must be taken row by row, not between two means.",
    "online critics": "The target uses the online critics. Use target_critic.",
    "online actor": "The target uses the online policy. Use target_actor.",
    "act": "The target uses the action of the batch. Use the target policy's next action.",
    "obs": "The target uses obs. The future begins with next_obs.",
    "no discount": "The discount factor is missing.",
}
SMOOTHING = {
    "no noise": "The noise of the target action is missing.",
    "unscaled": "The noise is not scaled: it must be TARGET_NOISE times the argument.",
    "per row": "The noise of one dimension was used for all dimensions.",
    "subtract": "The noise is subtracted. Add it.",
}
POLICY = {
    "sign": "The sign is wrong: the policy would search for the worst actions.",
    "sum": "This is a sum over the rows. Take the mean.",
    "act": "The loss uses the actions of the batch. Use those of the policy.",
    "second": "The loss uses the second critic. Use the first.",
    "min": "The loss uses the smaller critic, as in SAC. TD3 uses the first.",
    "target critic": "The loss uses a target critic. Use the online one.",
    "target actor": "The loss uses the target policy. Use the online one.",
    "next_obs": "The loss uses next_obs. Use obs.",
}


def check_shapes(answer: Answer) -> None:
    """The shapes of the results: two numbers."""
    loss_q, loss_pi = call(answer, make_params(), make_batch(), no_noise())
    expect_shape(loss_q, (), "loss of the critics")
    expect_shape(loss_pi, (), "loss of the policy")


def check_terminal_rows(answer: Answer) -> None:
    """Rows that terminated: the target is the reward."""
    batch = make_batch()._replace(terminated=np.ones(ROWS, bool))
    texts = {"no mask": "A row that terminated has no future: multiply it by 1 - terminated."}
    compare_critics(answer, batch, no_noise(), LOSS | texts)


def check_target(answer: Answer) -> None:
    """Rows that go on, with all noise 0: the value of the next state counts."""
    texts = {"always end": "These rows did not terminate, but their future is missing."}
    compare_critics(answer, make_batch(), no_noise(), TARGET | texts)


def check_one_terminal_row(answer: Answer) -> None:
    """A batch in which one row terminated."""
    batch = make_batch()._replace(terminated=np.array([False, True, False, False]))
    texts = {"any": "One row that terminated removes the future of all rows."}
    compare_critics(answer, batch, no_noise(), texts)


def check_time_limit(answer: Answer) -> None:
    """A row whose episode was cut by the time limit."""
    batch = make_batch()._replace(truncated=np.array([False, True, False, True]))
    text = "A time limit does not end the future. Only terminated stops bootstrapping."
    compare_critics(answer, batch, no_noise(), {"truncated": text})


def check_smoothing(answer: Answer) -> None:
    """Small noise: it moves the action of the target."""
    noise = np.array([[0.4, -0.3], [0.3, 0.45], [-0.4, 0.1], [0.2, -0.45]])
    compare_critics(answer, make_batch(), noise, SMOOTHING)


def check_noise_clip(answer: Answer) -> None:
    """Noise of 4 standard deviations, which must be clipped to 0.5."""
    noise = np.array([[4.0, -4.0], [-4.0, 4.0], [4.0, 0.0], [0.0, -4.0]])
    texts = {
        "no clip": "The noise is not clipped to [-NOISE_CLIP, NOISE_CLIP].",
        "clip first": "The noise was clipped before it was scaled. Scale it first.",
    }
    compare_critics(answer, make_batch(), noise, texts, actions=0.2)


def check_action_clip(answer: Answer) -> None:
    """A target action near the end of its range, where noise must not push it out."""
    noise = np.full((ROWS, ACT), 2.0)
    texts = {"no action clip": "The smoothed action leaves [-1, 1]. Clip it as well."}
    compare_critics(answer, make_batch(), noise, texts, actions=8.0)


def check_policy_loss(answer: Answer) -> None:
    """The loss of the policy."""
    params, batch = make_params(), make_batch()
    got = call(answer, params, batch, no_noise())[1]
    mistakes = {text: policy_loss(params, batch, bug) for bug, text in POLICY.items()}
    right = policy_loss(params, batch)
    expect_close(got, right, "loss of the policy", mistakes=mistakes)
    noise = np.ones((ROWS, ACT))
    got = call(answer, params, batch, noise)[1]
    hint = "It changes with the noise, which is only for the target."
    expect_close(got, right, "loss of the policy", hint)


def check_stopped_gradients(answer: Answer) -> None:
    """Gradients that must be 0: of the targets, and of the critics in the policy's loss."""
    loss_q, loss_pi = (take_gradient(answer, index) for index in (0, 1))
    for name in ("target_critic", "target_actor"):
        if is_moved(loss_q[name]):
            reject(f"The loss of the critics moves {name}. Use stop_gradient on the target.")
    if is_moved(loss_q["actor"]):
        reject("The loss of the critics moves the policy. Only the loss of the policy may.")
    if is_moved(loss_pi["critic"]):
        reject(
            "The loss of the policy moves the critics, which would learn to return larger values. "
            "Use stop_gradient on the parameters of the critic, not on its result."
        )
    if not is_moved(loss_pi["actor"]):
        reject(
            "The loss of the policy does not move the policy: its gradient must flow through the "
            "action into the critic. Stop the gradient of the critic's parameters alone."
        )


def check_gradients(answer: Answer) -> None:
    """The gradients of both critics and of the policy."""
    params, batch = make_params(), make_batch()
    target = compute_target(params, batch, no_noise())
    grads_q, grads_pi = (take_gradient(answer, index) for index in (0, 1))
    for index, name in ((0, "first"), (1, "second")):

        def error(w2: np.ndarray, index: int = index) -> float:
            one = params["critic"][index] | {"w2": w2}
            return float(((run_critic(one, batch.obs, batch.act) - target) ** 2).mean())

        expected = differentiate(error, params["critic"][index]["w2"])
        got = grads_q["critic"][index]["w2"]
        mistakes = {"No gradient arrives: is the prediction stopped?": 0.0 * expected}
        expect_close(got, expected, f"gradient of the {name} critic", mistakes=mistakes)

    def objective(w2: np.ndarray) -> float:
        return policy_loss(params | {"actor": params["actor"] | {"w2": w2}}, batch)

    expected = differentiate(objective, params["actor"]["w2"])
    expect_close(grads_pi["actor"]["w2"], expected, "gradient of the policy")


def check_jit(answer: Answer) -> None:
    """The same numbers inside jit."""
    expect_jit(answer, make_params(), make_batch(), no_noise())


def call(answer: Answer, params: Params, batch: Batch, noise: Any) -> tuple[Any, Any]:
    """Return the two losses of an answer."""
    results = apply(answer, params, batch, noise)
    if not isinstance(results, tuple) or len(results) != 2:
        reject("The function must return two numbers: loss_q, loss_pi.")
    return results


def compare_critics(
    answer: Answer, batch: Batch, noise: np.ndarray, texts: dict[str, str], actions: float = 1.0
) -> None:
    """Compare the critics' loss; explain the mistakes named in `texts`."""
    params = make_params(actions)
    mistakes = {text: critics_loss(params, batch, noise, bug) for bug, text in texts.items()}
    got = call(answer, params, batch, noise)[0]
    expect_close(got, critics_loss(params, batch, noise), "loss of the critics", mistakes=mistakes)


def take_gradient(answer: Answer, index: int) -> Any:
    """Return the gradient of one of the two losses in all parameters."""
    batch, noise = to_jax((make_batch(), no_noise()))
    return jax.grad(lambda params: answer(params, batch, noise)[index])(to_jax(make_params()))


def is_moved(tree: Any) -> bool:
    """Return whether any gradient of a tree is not 0."""
    return any(bool((np.asarray(leaf) != 0.0).any()) for leaf in jax.tree.leaves(tree))


def make_params(actions: float = 1.0) -> Params:
    """Return the parameters of six networks; `actions` scales the target policy's last layer."""
    actor, target_actor = (make_layers(seed, OBS, ACT) for seed in (1, 2))
    target_actor |= {"w2": actions * target_actor["w2"], "b2": actions * np.array([0.4, 0.6])}
    pairs = [tuple(make_layers(seed, OBS + ACT, 1) for seed in seeds) for seeds in ((3, 4), (6, 5))]
    names = ("actor", "target_actor", "critic", "target_critic")
    return dict(zip(names, (actor, target_actor, *pairs), strict=True))


def make_layers(seed: int, inputs: int, outputs: int) -> dict[str, np.ndarray]:
    """Return the parameters of a network with one hidden layer."""
    shapes = {"w1": (inputs, HIDDEN), "b1": (HIDDEN,), "w2": (HIDDEN, outputs), "b2": (outputs,)}
    return {k: make_numbers(100 * seed + i, *s) for i, (k, s) in enumerate(shapes.items())}


def make_batch() -> Batch:
    """Return a batch in which no episode ends."""
    obs, next_obs, act = (make_numbers(seed, ROWS, OBS) for seed in (7, 8, 9))
    off = np.zeros(ROWS, bool)
    return Batch(obs, np.tanh(act), make_numbers(10, ROWS), next_obs, off, off)


def no_noise() -> np.ndarray:
    """Return noise that is 0."""
    return np.zeros((ROWS, ACT))


def run_layers(params: Any, x: np.ndarray) -> np.ndarray:
    """Return the output of a network with one hidden layer."""
    return np.asarray(np.tanh(x @ params["w1"] + params["b1"]) @ params["w2"] + params["b2"])


def run_critic(params: Any, obs: np.ndarray, act: np.ndarray) -> np.ndarray:
    """Return the values `[B]` of actions."""
    return run_layers(params, np.concatenate([obs, act], axis=1))[:, 0]


def compute_target(params: Params, batch: Batch, noise: np.ndarray, bug: str = "") -> np.ndarray:
    """Return the targets `[B]`, with one planted mistake."""
    scaled = np.clip(0.2 * noise, -0.5, 0.5)
    scaled = {
        "no noise": 0.0 * noise,
        "unscaled": np.clip(noise, -0.5, 0.5),
        "per row": scaled[:, :1],
        "subtract": -scaled,
        "no clip": 0.2 * noise,
        "clip first": 0.2 * np.clip(noise, -0.5, 0.5),
    }.get(bug, scaled)
    next_obs = batch.obs if bug == "obs" else batch.next_obs
    policy = params["actor" if bug == "online actor" else "target_actor"]
    next_act = np.tanh(run_layers(policy, next_obs)) + scaled
    next_act = next_act if bug == "no action clip" else np.clip(next_act, -1.0, 1.0)
    next_act = batch.act if bug == "act" else next_act
    critics = params["critic" if bug == "online critics" else "target_critic"]
    first, second = (run_critic(one, next_obs, next_act) for one in critics)
    value = {
        "max": np.maximum(first, second),
        "mean": (first + second) / 2.0,
        "first": first,
        "smaller mean": first if first.mean() < second.mean() else second,
    }.get(bug, np.minimum(first, second))
    end = {
        "no mask": 0.0 * value,
        "always end": 1.0,
        "any": batch.terminated.any(),
        "truncated": batch.terminated | batch.truncated,
    }.get(bug, batch.terminated)
    return np.asarray(batch.rew + (1.0 if bug == "no discount" else 0.99) * (1.0 - end) * value)


def critics_loss(params: Params, batch: Batch, noise: np.ndarray, bug: str = "") -> float:
    """Return the loss of the critics, with one planted mistake."""
    target = compute_target(params, batch, noise, bug)
    errors = [run_critic(one, batch.obs, batch.act) - target for one in params["critic"]]
    if bug == "no square":
        return float(sum(error.mean() for error in errors))
    if bug == "one critic":
        return float((errors[0] ** 2).mean())
    factor = {"half": 0.5, "sum": float(ROWS)}.get(bug, 1.0)
    return factor * float(sum((error**2).mean() for error in errors))


def policy_loss(params: Params, batch: Batch, bug: str = "") -> float:
    """Return the loss of the policy, with one planted mistake."""
    obs = batch.next_obs if bug == "next_obs" else batch.obs
    policy = params["target_actor" if bug == "target actor" else "actor"]
    act = batch.act if bug == "act" else np.tanh(run_layers(policy, obs))
    values = [run_critic(one, obs, act) for one in params["critic"]]
    value = {
        "second": values[1],
        "min": np.minimum(*values),
        "target critic": run_critic(params["target_critic"][0], obs, act),
    }.get(bug, values[0])
    return {"sign": 1.0, "sum": -float(ROWS)}.get(bug, -1.0) * float(value.mean())
