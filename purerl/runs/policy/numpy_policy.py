"""A policy that purerl exported; it needs only NumPy.

    from policy import load
    policy = load("path/of/this/folder")
    act = policy(obs)      # for env.step; N observations [N, ...] give N actions

`policy.json` describes the policy, `policy.npz` contains its layers. Neither can execute code.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

FORMAT = 1


def load(folder: str | Path = Path(__file__).parent) -> Callable[[Any], Any]:
    """Load the policy: a function that returns actions for observations.

    Args:
        folder: Folder that contains `policy.json` and `policy.npz`.
    """
    about = json.loads((Path(folder) / "policy.json").read_text(encoding="utf-8"))
    if about["format"] != FORMAT:
        raise ValueError(f"policy.json must have format {FORMAT}, got {about['format']!r}.")
    with np.load(Path(folder) / "policy.npz", allow_pickle=False) as file:
        arrays = {name: file[name] for name in file.files}

    def policy(obs: Any) -> Any:
        return choose_action(about, compute_outputs(about, arrays, obs))

    return policy


def compute_outputs(about: dict[str, Any], arrays: dict[str, np.ndarray], obs: Any) -> np.ndarray:
    """Return the outputs of the network for observations `[..., *obs_shape]`."""
    shape = tuple(about["spaces"]["obs_shape"])
    obs = np.asarray(obs)
    if obs.shape[max(0, obs.ndim - len(shape)) :] != shape:
        raise ValueError(f"obs must have shape [..., *{shape}], got {obs.shape}.")
    x = obs.astype(about["spaces"]["obs_dtype"]).astype(np.float32)
    if "obs_mean" in arrays:
        x = (x - arrays["obs_mean"]) / np.sqrt(arrays["obs_var"] + np.float32(1e-8))
        x = x.clip(-10, 10)
    for i in range(about["layers"]):
        if i:
            x = ACTIVATIONS[about["activation"]](x)
        x = x @ arrays[f"kernel{i}"] + arrays[f"bias{i}"]
        if f"norm_scale{i}" in arrays:
            x = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-6)
            x = x * arrays[f"norm_scale{i}"] + arrays[f"norm_bias{i}"]
    return x


def choose_action(about: dict[str, Any], out: np.ndarray) -> Any:
    """Return the action, or actions, in the environment's units."""
    if "discrete" in about["spaces"]:
        best = out.argmax(axis=-1) + about["spaces"]["discrete"]["start"]
        return int(best) if best.ndim == 0 else best
    if "multi_discrete" in about["spaces"]:
        parts = about["spaces"]["multi_discrete"]
        split = np.split(out, np.cumsum(parts["sizes"])[:-1], axis=-1)
        return np.stack([x.argmax(axis=-1) for x in split], axis=-1) + np.array(parts["start"])
    box = about["spaces"]["box"]
    low, high = np.array(box["low"]), np.array(box["high"])
    x = out[..., : len(low)]  # the mean; the outputs after it may be a standard deviation
    x = np.tanh(x) if about["tanh"] else x.clip(-1, 1)
    middle, half = (low + high) / 2, (high - low) / 2
    act = middle.astype(np.float32) + half.astype(np.float32) * x
    return act.clip(low.astype(np.float32), high.astype(np.float32))


def _gelu(x: np.ndarray) -> np.ndarray:
    inside = np.float32(np.sqrt(2 / np.pi)) * (x + np.float32(0.044715) * x**3)
    return x * (1 + np.tanh(inside)) / 2


ACTIVATIONS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "elu": lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0))),
    "gelu": _gelu,
    "leaky_relu": lambda x: np.where(x > 0, x, np.float32(0.01) * x),
    "relu": lambda x: np.maximum(x, 0),
    "silu": lambda x: x * (1 + np.tanh(x / 2)) / 2,
    "tanh": np.tanh,
}
