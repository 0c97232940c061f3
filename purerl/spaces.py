"""Spaces of an environment: `EnvSpec`, and its actions `Box`, `Discrete`, `MultiDiscrete`.

This module imports no JAX, so that commands start fast.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np

from purerl import checks
from purerl.types import AnyRollout, Batch, ExtendedBatch, PolicyBatch, SequenceBatch, Transition


@dataclasses.dataclass(frozen=True)
class Box:
    """Continuous actions with one pair of finite bounds per dimension, in row-major order."""

    low: tuple[float, ...]
    high: tuple[float, ...]
    shape: tuple[int, ...] | None = None  # None: one axis, (len(low),)

    def __post_init__(self) -> None:
        """Check the bounds and fill in the shape."""
        try:
            low, high = (tuple(float(x) for x in bound) for bound in (self.low, self.high))
            shape = (len(low),) if self.shape is None else tuple(int(n) for n in self.shape)
        except TypeError:
            raise ValueError(
                f"low, high and shape of a Box must be tuples, got {self!r}."
            ) from None
        for name, value in (("low", low), ("high", high), ("shape", shape)):
            object.__setattr__(self, name, value)
        if len(low) != len(high) or len(low) != math.prod(shape) or not low:
            raise ValueError(
                f"Box needs one low and one high per action dimension and at least one dimension, "
                f"got {len(low)} low and {len(high)} high for shape {shape}."
            )
        for i, (a, b) in enumerate(zip(low, high, strict=True)):
            # Outside these limits float32 cannot map actions to [-1, 1] and back.
            if not (1e-30 < b - a < 1e30 and b - a > 1e-5 * max(abs(a), abs(b))):
                raise ValueError(
                    f"action dimension {i} must have finite bounds with low < high that float32 "
                    f"can tell apart, and no wider than 1e30, got [{a}, {b}]. Give the environment "
                    f"a bounded space, for example with gymnasium.wrappers.TransformAction(env, "
                    f"lambda act: act, gymnasium.spaces.Box(-1, 1, {shape}))."
                )

    @property
    def dtype(self) -> np.dtype[Any]:
        """Dtype of stored actions; the loop converts to the environment's own dtype."""
        return np.dtype(np.float32)


@dataclasses.dataclass(frozen=True)
class Discrete:
    """Discrete actions `start, ..., start + n - 1`."""

    n: int
    start: int = 0

    def __post_init__(self) -> None:
        """Check that all actions fit into 32 bits."""
        checks.integer("Discrete.n", self.n, 1)
        checks.integer("Discrete.start", self.start, -(2**31))
        if self.start + self.n >= 2**31:
            raise ValueError(f"actions must fit into int32, got start={self.start}, n={self.n}.")

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one action."""
        return ()

    @property
    def dtype(self) -> np.dtype[Any]:
        """Dtype of stored actions."""
        return np.dtype(np.int32)


@dataclasses.dataclass(frozen=True)
class MultiDiscrete:
    """Actions of several parts; part i is one of `start[i], ..., start[i] + sizes[i] - 1`."""

    sizes: tuple[int, ...]
    start: tuple[int, ...] = ()  # empty: zeros

    def __post_init__(self) -> None:
        """Check the sizes, fill in the start, and check that all actions fit into 32 bits."""
        if self.start == () and isinstance(self.sizes, tuple):
            object.__setattr__(self, "start", (0,) * len(self.sizes))
        checks.integers("MultiDiscrete.sizes", self.sizes, 1)
        checks.integers("MultiDiscrete.start", self.start, -(2**31))
        if not self.sizes or len(self.sizes) != len(self.start):
            raise ValueError(
                f"MultiDiscrete needs at least one part, and one start per part, got {self!r}."
            )
        if any(a + n >= 2**31 for a, n in zip(self.start, self.sizes, strict=True)):
            raise ValueError(f"actions must fit into int32, got {self!r}.")

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one action."""
        return (len(self.sizes),)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Dtype of stored actions."""
        return np.dtype(np.int32)


GOAL_PARTS = ("observation", "achieved_goal", "desired_goal")  # of Gymnasium's GoalEnv
_NARROW = {"float64": "float32", "int64": "int32", "uint64": "uint32"}


@dataclasses.dataclass(frozen=True)
class EnvSpec:
    """Observation and action space of an environment; hashable and compared by value.

    Example:
        >>> env = EnvSpec(obs_shape=(3,), action=Box(low=(-2.0,), high=(2.0,)))
        >>> float(env.denormalise(np.float32([0.5]))[0])
        1.0
    """

    obs_shape: tuple[int, ...]
    action: Box | Discrete | MultiDiscrete
    obs_dtype: str = "float32"
    goal_size: int = 0  # last entries of an observation that are the desired goal

    def __post_init__(self) -> None:
        """Check the fields, and turn 64-bit dtypes into 32-bit."""
        checks.integers("obs_shape", self.obs_shape, 1)
        if not isinstance(self.action, Box | Discrete | MultiDiscrete):
            raise ValueError(
                f"action must be a Box, Discrete or MultiDiscrete, got {self.action!r}."
            )
        try:
            dtype = np.dtype(self.obs_dtype)
        except TypeError:
            dtype = np.dtype(object)
        if dtype.kind not in "fiub" or dtype.itemsize > 8:
            raise ValueError(
                f"obs_dtype must be the name of a float, integer or bool dtype of at most 64 bits, "
                f"such as 'float32', got {self.obs_dtype!r}."
            )
        object.__setattr__(self, "obs_dtype", _NARROW.get(dtype.name, dtype.name))
        checks.integer("goal_size", self.goal_size, 0)
        flat = len(self.obs_shape) == 1 and self.obs_dtype == "float32"
        if self.goal_size and not (flat and self.goal_size < self.obs_shape[0]):
            raise ValueError(
                f"goal_size is {self.goal_size}, so observations must be float32 with one longer "
                f"axis, got {self.obs_dtype} of shape {self.obs_shape}."
            )

    @classmethod
    def of(cls, env: Any) -> EnvSpec:
        """Read the spaces of a Gymnasium environment, single or vector; errors name a wrapper."""
        from gymnasium import spaces

        if not hasattr(env, "observation_space") or not hasattr(env, "action_space"):
            raise ValueError(f"env must be a Gymnasium environment, got {env!r}.")
        vector = hasattr(env, "single_observation_space")
        obs = env.single_observation_space if vector else env.observation_space
        act = env.single_action_space if vector else env.action_space
        goal_size = obs["desired_goal"].shape[0] if is_goal_space(obs) else 0
        if goal_size:  # networks see the observation and the goal as one vector
            obs = spaces.Box(-np.inf, np.inf, (obs["observation"].shape[0] + goal_size,))
        if not isinstance(obs, spaces.Box) or 0 in obs.shape or not obs.shape:
            raise ValueError(
                f"observations must be a Box with at least one axis and no axis of length 0, got "
                f"{obs}. gymnasium.wrappers.FlattenObservation(env) makes a Box from Discrete, "
                f"MultiBinary and MultiDiscrete spaces, and from a Dict or Tuple of these."
            )
        action: Box | Discrete | MultiDiscrete
        if isinstance(act, spaces.Discrete):
            action = Discrete(int(act.n), int(act.start))
        elif isinstance(act, spaces.MultiDiscrete) and act.nvec.ndim == 1:
            action = MultiDiscrete(tuple(act.nvec.tolist()), tuple(act.start.tolist()))
        elif isinstance(act, spaces.MultiBinary) and len(act.shape) == 1:
            action = MultiDiscrete((2,) * act.shape[0])
        elif isinstance(act, spaces.Box) and np.issubdtype(act.dtype, np.floating):
            action = Box(tuple(act.low.ravel()), tuple(act.high.ravel()), act.shape)
        else:
            raise ValueError(
                f"actions must be Discrete, MultiDiscrete with one axis, or a Box of floats, got "
                f"{act}. Wrap the environment in gymnasium.wrappers.TransformAction(env, func, "
                f"space), where func maps actions of such a space to actions of the environment."
            )
        return cls(tuple(int(n) for n in obs.shape), action, str(obs.dtype), goal_size)

    @property
    def act_dim(self) -> int:
        """Number of dimensions of a Box (A), or of logits: n, in MultiDiscrete the sum of n."""
        if isinstance(self.action, MultiDiscrete):
            return sum(self.action.sizes)
        return self.action.n if isinstance(self.action, Discrete) else len(self.action.low)

    def example(self) -> Transition:
        """Return a transition of zeros, the example row for a replay buffer."""
        obs = np.zeros(self.obs_shape, self.obs_dtype)
        act = np.zeros(self.action.shape or (), self.action.dtype)
        return Transition(obs, act, np.float32(0), obs.copy(), np.bool_(False), np.bool_(False))

    def normalise(self, act: Any) -> Any:
        """Map Box actions `[..., *shape]` from the environment's units to [-1, 1]."""
        low, high = self._bounds(act)
        middle, half = (low + high) / 2, (high - low) / 2
        return (act - middle.astype(np.float32)) / half.astype(np.float32)

    def denormalise(self, act: Any) -> Any:
        """Map Box actions `[..., *shape]` from [-1, 1] to the environment's units, unclipped."""
        low, high = self._bounds(act)
        middle, half = (low + high) / 2, (high - low) / 2
        return middle.astype(np.float32) + half.astype(np.float32) * act

    def from_unit(self, act: Any) -> Any:
        """Clip actions to [-1, 1] and map them to the environment's units, inside its bounds."""
        return self.clip(self.denormalise(act.clip(-1.0, 1.0)))

    def clip(self, act: Any) -> Any:
        """Clip Box actions `[..., *shape]` in the environment's units to its bounds."""
        low, high = (bound.astype(np.float32) for bound in self._bounds(act))
        return act.clip(low, high)

    def _bounds(self, act: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return the bounds in float64, with as many axes as `act`."""
        if not isinstance(self.action, Box):
            raise ValueError(f"only Box actions have units and bounds, got {self.action}.")
        shape, got = self.action.shape or (), np.shape(act)
        if got[max(0, len(got) - len(shape)) :] != shape:
            raise ValueError(f"act must have shape [..., *{shape}], got {got}.")
        shape = (1,) * (len(got) - len(shape)) + shape
        low, high = (np.array(b).reshape(shape) for b in (self.action.low, self.action.high))
        return low, high

    def check_obs(self, obs: Any) -> None:
        """Refuse observations whose last axes differ from the shape of one observation."""
        if (got := getattr(obs, "shape", None)) is None:
            raise ValueError(f"obs must be an array [..., *{self.obs_shape}], got {type(obs)}.")
        if got[max(0, len(got) - len(self.obs_shape)) :] != self.obs_shape:
            raise ValueError(f"obs must have shape [..., *{self.obs_shape}], got {got}.")

    def check_obs_act(self, obs: Any, act: Any) -> None:
        """Refuse observations and actions with different leading axes."""
        self.check_obs(obs)
        leading = obs.shape[: len(obs.shape) - len(self.obs_shape)]
        checks.shape("act", act, (*leading, *(self.action.shape or ())))

    def check_batch(self, batch: Batch) -> None:
        """Refuse a batch with a field of the wrong shape, such as `[B, 1]` instead of `[B]`."""
        self._check_rows("batch", batch, Batch | ExtendedBatch, "[B]")

    def check_rollout(self, rollout: AnyRollout) -> None:
        """Refuse a rollout with a field of the wrong shape. Under jit this costs nothing."""
        self._check_rows("rollout", rollout, AnyRollout, "[T, N]")

    def check_policy_batch(self, batch: PolicyBatch) -> None:
        """Refuse a batch for on-policy losses with a field of the wrong shape."""
        if not isinstance(batch, PolicyBatch):
            raise ValueError(
                f"batch must be a purerl.types.PolicyBatch, as prepare returns it, got "
                f"{type(batch)}."
            )
        leading = getattr(batch.adv, "shape", ())
        if len(leading) != 1:
            raise ValueError(f"batch.adv must have shape [B], got {leading or batch.adv!r}.")
        row = self.example()
        for name in ("ret", "logp", "val", "weight"):
            checks.shape(f"batch.{name}", getattr(batch, name), leading)
        checks.shape("batch.obs", batch.obs, leading + row.obs.shape)
        checks.shape("batch.act", batch.act, leading + row.act.shape)
        self._check_act("batch", batch.act)

    def check_sequences(self, batch: SequenceBatch) -> None:
        """Refuse a batch of sequences with a field of the wrong shape."""
        self._check_rows("batch", batch, SequenceBatch, "[B, T]")

    def _check_rows(self, what: str, data: Any, kinds: Any, letters: str) -> None:
        if not isinstance(data, kinds):
            name = getattr(kinds, "__args__", (kinds,))[0].__name__
            raise ValueError(f"{what} must be a purerl.types.{name}, got {type(data)}.")
        leading = getattr(data.rew, "shape", ())
        if len(leading) != letters.count(",") + 1:
            raise ValueError(f"{what}.rew must have shape {letters}, got {leading or data.rew!r}.")
        for name, row in self.example()._asdict().items():
            checks.shape(f"{what}.{name}", getattr(data, name), leading + row.shape)
        self._check_act(what, data.act)

    def _check_act(self, what: str, act: Any) -> None:
        if not isinstance(self.action, Box) and not np.issubdtype(act.dtype, np.integer):
            raise ValueError(f"{what}.act must hold integers, got {act.dtype}.")


def is_goal_space(space: Any) -> bool:
    """Return whether observations are those of Gymnasium's GoalEnv: a dict of three vectors."""
    parts = getattr(space, "spaces", None)
    if not isinstance(parts, dict) or set(parts) != set(GOAL_PARTS):
        return False
    obs, *goals = (getattr(parts[name], "low", np.zeros(())).shape for name in GOAL_PARTS)
    return len(obs) == len(goals[0]) == 1 and goals[0] == goals[1]


MIN_SIDE = 36  # pixels; fewer leave nothing for the last convolution of `nets.NatureCNN`


def has_channels_first(shape: tuple[int, ...]) -> bool:
    """Return whether the first axis of an image has its channels, as in stacked grey frames."""
    return shape[0] < shape[-1]


def is_image(shape: tuple[int, ...]) -> bool:
    """Return whether observations of this shape are images for `nets.NatureCNN`."""
    sides = shape[1:] if len(shape) == 3 and has_channels_first(shape) else shape[:2]
    return len(shape) == 3 and min(sides) >= MIN_SIDE


def require_box(algo: str, env: Any) -> None:
    """Refuse an environment whose actions are not a Box with one axis."""
    _require_spec(env)
    if not isinstance(env.action, Box) or len(env.action.shape or ()) != 1:
        raise ValueError(
            f"{algo} needs a Box action space with one axis, got {env.action}. For a Discrete "
            f"space, choose an algorithm for discrete actions, such as dqn; for MultiDiscrete, "
            f"ppo. A Box with more axes can be flattened with gymnasium.wrappers.TransformAction."
        )


def require_flat(algo: str, env: Any) -> None:
    """Refuse an environment whose actions are a Box with several axes."""
    _require_spec(env)
    if isinstance(env.action, Box):
        require_box(algo, env)


def require_discrete(algo: str, env: Any) -> None:
    """Refuse an environment whose actions are not Discrete."""
    _require_spec(env)
    if not isinstance(env.action, Discrete):
        raise ValueError(
            f"{algo} needs a Discrete action space, got {env.action}. For a Box, choose an "
            f"algorithm for continuous actions, such as td3 or sac; for MultiDiscrete, ppo."
        )


def _require_spec(env: Any) -> None:
    if not isinstance(env, EnvSpec):
        raise ValueError(f"env must be an EnvSpec, such as EnvSpec.of(env), got {env!r}.")
