"""Odd environments, each with one fault or peculiarity and the error that it must cause."""

import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from gymnasium import spaces

from purerl.errors import EnvFault, NonFiniteError

BOX = spaces.Box(-10, 10, (3,))
NOT_FINITE = (EnvFault, NonFiniteError)  # the first if a nan as an action raises
AT = 8  # the step at which faults begin


class Odd(gymnasium.Env):
    """A small environment with changed results of `step` or `reset`, or a changed space."""

    def __init__(
        self,
        step: Callable[[tuple[Any, ...]], Any] = lambda out: out,
        reset: Callable[[tuple[Any, ...]], Any] = lambda out: out,
        obs: Any = BOX,
        act: Any = None,
        length: int = 5,
    ) -> None:
        self.change, self.change_first, self.length = step, reset, length
        self.observation_space = obs
        self.action_space = spaces.Box(-1, 1, (2,)) if act is None else act
        self.steps = self.time = 0

    def see(self) -> Any:
        if not isinstance(self.observation_space, spaces.Box):
            return self.observation_space.sample()
        shape, dtype = self.observation_space.shape, self.observation_space.dtype
        return np.full(shape, self.steps % 10, dtype)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.time = 0
        return self.change_first((self.see(), {}))

    def step(self, action: Any) -> Any:
        assert self.action_space.contains(action), action
        self.steps, self.time = self.steps + 1, self.time + 1
        out = (self.see(), 1.0, self.time == self.length, False, {})
        return self.change(out) if self.steps >= AT else out


def with_(**changes: Any) -> Callable[[tuple[Any, ...]], Any]:
    """Return a function that replaces parts of a result of `step` or `reset`."""
    order = ("obs", "rew", "terminated", "truncated", "info")

    def change(out: tuple[Any, ...]) -> tuple[Any, ...]:
        named = dict(zip(order, out, strict=False)) | changes
        return tuple(named[name] for name in order[: len(out)])

    return change


def fail(out: Any) -> Any:
    raise KeyError("no such joint")


def leave(out: Any) -> Any:
    raise SystemExit(0)


def two_lines(out: Any) -> Any:
    raise RuntimeError("it broke\n  in two")


class Case(NamedTuple):
    """An environment to make, and the error with its message that must come, if any."""

    name: str
    made: Callable[[], Any]
    error: Any = None
    message: str = ""


def constructor() -> Any:
    raise OSError("no display")


def leaving() -> Any:
    raise SystemExit(0)


class Unclosable(Odd):
    def close(self) -> None:
        raise OSError("already closed")


class Leaving(Odd):
    def close(self) -> None:
        raise SystemExit(0)


class Restless(Odd):
    """An environment whose observations get a longer shape while it runs."""

    def see(self) -> Any:
        if self.steps >= AT:
            self.observation_space = spaces.Box(-10, 10, (4,))
        return super().see()


class Mutating(Odd):
    """An environment that returns the same array each time, and overwrites its action."""

    def __init__(self) -> None:
        super().__init__()
        self.state = np.zeros(3, np.float32)

    def see(self) -> Any:
        self.state[:] = self.steps
        return self.state

    def step(self, action: Any) -> Any:
        out = super().step(action)
        action[:] = 99
        return out


def outputs() -> list[Case]:
    """Return cases with wrong results of `step` and `reset`."""
    shape, who = r"must return observations of shape \(3,\)", "environment 0 "
    step = f"^{who}raised {{}} in step"
    rows = {
        "raises in step": (fail, EnvFault, "raised KeyError in step: 'no such joint'"),
        "leaves in step": (leave, EnvFault, r"SystemExit in step: 0 \(step \d of its episode 2\)"),
        "says two lines": (two_lines, EnvFault, "RuntimeError in step: it broke in two "),
        "an old step of four": (lambda out: (*out[:3], {}), EnvFault, step.format("ValueError")),
        "a step of six": (lambda out: (*out, 1), EnvFault, step.format("ValueError")),
        "nothing returned": (lambda out: None, EnvFault, step.format("TypeError")),
        "an observation too short": (with_(obs=np.zeros(2, np.float32)), EnvFault, shape),
        "an observation too deep": (with_(obs=np.zeros((1, 3), np.float32)), EnvFault, shape),
        "no observation": (with_(obs=None), EnvFault, shape),
        "a word as an observation": (with_(obs="abc"), EnvFault, shape),
        "words as an observation": (with_(obs=["a", "b", "c"]), EnvFault, "dtype"),
        "a ragged observation": (with_(obs=[[1], [1, 2], 3]), EnvFault, "shape"),
        "objects as an observation": (with_(obs=np.array([None] * 3)), EnvFault, "dtype"),
        "complex numbers": (with_(obs=np.zeros(3, complex)), EnvFault, "dtype"),
        "nan as an observation": (
            with_(obs=np.float32([0, np.nan, 0])), NOT_FINITE, "not finite",
        ),
        "1e300 as an observation": (
            with_(obs=np.array([1e300, 0, 0])), NOT_FINITE, "not finite",
        ),
        "nan as a reward": (with_(rew=np.nan), NonFiniteError, "rew of .* is not finite"),
        "an infinite reward": (with_(rew=-np.inf), NonFiniteError, "rew .* is not finite .*: -inf"),
        "no reward": (with_(rew=None), EnvFault, "reward.*None"),
        "a word as a reward": (with_(rew="much"), EnvFault, "reward.*'much'"),
        "a number in a word as a reward": (with_(rew="1.5"), EnvFault, "reward.*'1.5'"),
        "an array as a reward": (with_(rew=np.ones(1)), EnvFault, "reward"),
        "two rewards": (with_(rew=np.ones(2)), EnvFault, "reward"),
        "a complex reward": (with_(rew=1j), EnvFault, "reward"),
        "terminated is None": (with_(terminated=None), EnvFault, "terminated.*None"),
        "terminated is a word": (with_(terminated="False"), EnvFault, "terminated.*'False'"),
        "terminated is an array": (with_(terminated=np.zeros(2, bool)), EnvFault, "terminated"),
        "truncated is nan": (with_(truncated=np.nan), EnvFault, "truncated.*nan"),
    }  # fmt: skip
    cases = [
        Case(name, lambda change=change: Odd(change), error, message)
        for name, (change, error, message) in rows.items()
    ]
    firsts = {
        "raises in reset": (fail, EnvFault, "raised KeyError in reset: 'no such joint'"),
        "leaves in reset": (leave, EnvFault, "raised SystemExit in reset: 0"),
        "reset returns the observation alone": (lambda out: out[0], EnvFault, "in reset"),
        "reset returns nothing": (lambda out: None, EnvFault, "in reset"),
        "reset returns nan": (with_(obs=np.full(3, np.nan)), NOT_FINITE, "not finite"),
        "reset returns another shape": (with_(obs=np.zeros(5)), EnvFault, shape),
    }
    return cases + [
        Case(name, lambda change=change: Odd(reset=change), error, message)
        for name, (change, error, message) in firsts.items()
    ]


def acting() -> list[Case]:
    """Return cases with action spaces that are refused or work."""
    inf, box = np.inf, spaces.Box
    bounds = "action dimension {} must have finite bounds with low < high"
    refused = {
        "endless": (box(-inf, inf, (2,)), bounds.format(0)),
        "half endless": (box(np.float32([-1, -1]), np.float32([1, inf])), bounds.format(1)),
        "one point": (box(np.float32([-1, 2]), np.float32([1, 2])), bounds.format(1)),
        "none": (box(-1, 1, (0,)), "at least one dimension"),
        "a number": (box(-1, 1, ()), "one axis"),
        "a matrix": (box(-1, 1, (2, 2)), "one axis"),
        "whole numbers": (box(0, 5, (2,), np.int32), "a Box of floats"),
        "MultiDiscrete of two axes": (spaces.MultiDiscrete([[2, 3]]), "a Box of floats"),
        "MultiBinary of two axes": (spaces.MultiBinary((3, 2)), "a Box of floats"),
        "Dict": (spaces.Dict(a=spaces.Discrete(2)), "a Box of floats"),
        "Tuple": (spaces.Tuple([spaces.Discrete(2)]), "a Box of floats"),
        "Text": (spaces.Text(4), "a Box of floats"),
        "Sequence": (spaces.Sequence(spaces.Discrete(2)), "a Box of floats"),
        "Graph": (spaces.Graph(box(-1, 1), None), "a Box of floats"),
        "not there": ("Discrete(2)", "a Box of floats"),
    }
    cases = [
        Case(f"actions: {name}", lambda act=act: Odd(act=act), ValueError, message)
        for name, (act, message) in refused.items()
    ]
    works = {
        "float64": box(-1, 1, (2,), np.float64),
        "float16": box(-1, 1, (2,), np.float16),
        "other bounds": box(np.float32([-3, 0.5]), np.float32([9, 0.75])),
        "Discrete from 5": spaces.Discrete(3, start=5),
        "Discrete below 0": spaces.Discrete(3, start=-4),
        "Discrete of one": spaces.Discrete(1),
    }
    return cases + [
        Case(f"actions: {name}", lambda act=act: Odd(act=act)) for name, act in works.items()
    ]


def seeing() -> list[Case]:
    """Return cases with observation spaces that are refused or work."""
    box, must = spaces.Box, "observations must be a Box with at least one axis"
    refused = {
        "a number": box(-1, 1, ()),
        "none": box(-1, 1, (0,)),
        "Discrete": spaces.Discrete(4),
        "MultiDiscrete": spaces.MultiDiscrete([2, 3]),
        "MultiBinary": spaces.MultiBinary(3),
        "Dict": spaces.Dict(a=box(-1, 1)),
        "Tuple": spaces.Tuple([box(-1, 1)]),
        "Text": spaces.Text(5),
        "Graph": spaces.Graph(box(-1, 1), None),
        "Sequence": spaces.Sequence(box(-1, 1)),
        "OneOf": spaces.OneOf([box(-1, 1)]),
        "not there": None,
    }
    cases = [
        Case(f"observations: {name}", lambda obs=obs: Odd(obs=obs), ValueError, must)
        for name, obs in refused.items()
    ]
    images, pixels = "flat|FlattenObservation", box(0, 255, (4, 4, 3), np.uint8)
    cases += [
        Case("observations: images", lambda: Odd(obs=pixels), ValueError, images),
        Case("observations: float64", lambda: Odd(obs=box(-10, 10, (3,), np.float64))),
        Case("observations: whole numbers", lambda: Odd(obs=box(-10, 10, (3,), np.int64))),
        Case("observations: bytes", lambda: Odd(obs=box(0, 255, (3,), np.uint8))),
        Case("observations: flags", lambda: Odd(obs=box(0, 1, (3,), np.bool_))),
        Case("observations: endless", lambda: Odd(obs=box(-np.inf, np.inf, (3,)))),
    ]  # fmt: skip
    return cases


def lives() -> list[Case]:
    """Return cases about construction, closing, episodes and reused objects."""
    one, kinds = Odd(), itertools.cycle([Odd, lambda: Odd(obs=spaces.Box(-1, 1, (4,)))])
    return [
        Case("the constructor raises", constructor, EnvFault, "env_fn raised OSError: no display"),
        Case("the constructor leaves", leaving, EnvFault, "env_fn raised SystemExit: 0"),
        Case("close leaves", Leaving, EnvFault, "raised SystemExit in close: 0"),
        Case("no environment", lambda: None, ValueError, "must return a Gymnasium environment"),
        Case("another thing", lambda: 5, ValueError, "must return a Gymnasium environment"),
        Case("one twice", lambda: one, ValueError, "must make a new environment at each call"),
        Case("unequal ones", lambda: next(kinds)(), ValueError, "with equal spaces"),
        Case(
            "close raises",
            Unclosable,
            EnvFault,
            "raised OSError in close: already closed",
        ),
        Case("a space that changes", Restless, EnvFault, r"shape \(3,\).*got \(4,\)"),
        Case("one array again and again", Mutating),
        Case("episodes of one step", lambda: Odd(length=1)),
        Case("never ends", lambda: Odd(length=10**9)),
        Case("info is None", lambda: Odd(with_(info=None), lambda out: (out[0], None))),
        Case("both ends at once", lambda: Odd(with_(terminated=True, truncated=True))),
        Case("ends are numbers of numpy", lambda: Odd(with_(terminated=np.bool_(True)))),
        Case("a whole number as a reward", lambda: Odd(with_(rew=1))),
        Case("a reward of numpy", lambda: Odd(with_(rew=np.float64(1)))),
        Case("a reward without axes", lambda: Odd(with_(rew=np.array(1.0)))),
        Case("a list as an observation", lambda: Odd(with_(obs=[1.0, 2.0, 3.0]))),
        Case("outside of its space", lambda: Odd(with_(obs=np.full(3, 99.0, np.float32)))),
    ]


CASES = outputs() + acting() + seeing() + lives()
