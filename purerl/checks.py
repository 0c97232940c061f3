"""Checks of user input. Each error names the argument, the expected value and the actual one.

All dataclasses of settings use them. They run during tracing, never inside a compiled program.
"""

import dataclasses
import math
from collections.abc import Callable, Iterable
from typing import Any, Protocol, TypeVar

LARGEST = 3.4e38  # largest float32
SMALLEST = 1.2e-38  # smallest positive float32
INTEGER = 2**31 - 1  # largest int32, the integer type of compiled programs
COUNTER = 10**12 - 1  # largest counter of Python code: checkpoint names have twelve digits


S = TypeVar("S")
S_co = TypeVar("S_co", covariant=True)


class _HasSpec(Protocol[S_co]):
    @property
    def spec(self) -> S_co: ...


def real(name: str, value: Any, low: float = -math.inf, high: float = math.inf) -> None:
    """Refuse anything but a Python number in [low, high] that float32 can hold.

    Example:
        >>> real("gamma", 1.5, 0.0, 1.0)
        Traceback (most recent call last):
        ValueError: gamma must be a number in [0.0, 1.0], got 1.5.
    """
    if not (_is_number(value) and low <= value <= high):
        limits = "" if (low, high) == (-math.inf, math.inf) else f" in [{low}, {high}]"
        raise ValueError(f"{name} must be a number{limits}, got {shorten(value)}.")
    if abs(value) > LARGEST:
        raise ValueError(
            f"{name} must be at most {LARGEST} in absolute value, got {shorten(value)}."
        )


def positive(name: str, value: Any) -> None:
    """Refuse anything but a Python number above zero that float32 can hold."""
    if not (_is_number(value) and value > 0):
        raise ValueError(f"{name} must be a number above 0, got {shorten(value)}.")
    if not SMALLEST <= value <= LARGEST:
        raise ValueError(
            f"{name} must be between {SMALLEST} and {LARGEST}, the limits of float32, got "
            f"{shorten(value)}."
        )


def _is_number(value: Any) -> bool:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and (isinstance(value, int) or math.isfinite(value))


def integer(name: str, value: Any, low: int, high: int = INTEGER) -> None:
    """Refuse anything but a Python integer in low .. high."""
    if not isinstance(value, int) or isinstance(value, bool) or value < low:
        raise ValueError(f"{name} must be an integer of at least {low}, got {shorten(value)}.")
    if value > high:
        raise ValueError(f"{name} must be an integer of at most {high}, got {shorten(value)}.")


def integers(name: str, value: Any, low: int) -> None:
    """Refuse anything but a tuple of Python integers of at least `low`."""
    if not isinstance(value, tuple):
        raise ValueError(
            f"{name} must be a tuple of integers such as (256, 256), got {shorten(value)}."
        )
    for i, item in enumerate(value):
        integer(f"{name}[{i}]", item, low)


def member(name: str, value: Any, choices: Iterable[str]) -> None:
    """Refuse anything but one of `choices`."""
    choices = sorted(choices)
    if value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(choices)}, got {shorten(value)}.")


def each(
    settings: Any,
    names: Iterable[str],
    check: Callable[..., None],
    *limits: Any,
    optional: bool = False,
) -> None:
    """Apply one check to several fields of a dataclass.

    Args:
        settings: Dataclass with the fields.
        names: Names of the fields.
        check: Function of this module that takes a name, a value and limits.
        limits: Limits for the check.
        optional: Whether the fields may be None.
    """
    for name in names:
        value = getattr(settings, name)
        if value is not None or not optional:
            check(name, value, *limits)


def target_clipping(settings: Any) -> None:
    """Refuse clipped targets without a lower bound, which is -1/(1-gamma)."""
    boolean("clip_targets", settings.clip_targets)
    if settings.clip_targets and settings.gamma >= 1:
        raise ValueError(
            f"clip_targets needs gamma below 1, because it clips to [-1/(1-gamma), 0], got gamma "
            f"{settings.gamma}."
        )


def shorten(value: Any) -> str:
    """Return the `repr` of a value for an error message, shortened if it is long."""
    if isinstance(value, int) and value.bit_length() > 200:  # Python prints at most 4,300 digits
        return f"an integer of {value.bit_length()} bits"
    text = repr(value)
    return text if len(text) <= 200 else f"{text[:100]}... ({len(text)} characters)"


def seed(value: Any) -> None:
    """Refuse seeds outside 0 .. 2**32 - 1, because JAX silently maps them to other seeds."""
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 2**32:
        raise ValueError(f"seed must be an integer in 0 .. 2**32 - 1, got {shorten(value)}.")


def key(name: str, value: Any) -> None:
    """Refuse anything but one typed JAX key; a traced key is accepted."""
    if not str(getattr(value, "dtype", "")).startswith("key<") or value.shape != ():
        raise ValueError(f"{name} must be one typed key such as jax.random.key(0), got {value!r}.")


def spec(value: Any, cls: type[Any]) -> None:
    """Refuse anything but an instance of `cls`, for example the `Spec` of another algorithm."""
    if not isinstance(value, cls):
        raise ValueError(f"spec must be a {_class_name(cls)}, got {_describe(value)}.")


def spec_of(params: _HasSpec[S]) -> S:
    """Return the static settings inside a learner's parameters; refuse anything else."""
    if not hasattr(params, "spec"):
        hint = " Pass state.params." if hasattr(params, "params") else ""
        raise ValueError(f"params must be the Params of a learner, got {_describe(params)}.{hint}")
    return params.spec


def state(value: Any) -> None:
    """Refuse anything but the state of a learner, for example its parameters."""
    if not hasattr(value, "params"):
        raise ValueError(f"state must be the State that init returns, got {_describe(value)}.")


def _describe(value: Any) -> str:
    """Describe a dataclass by its module and class, and anything else by a short `repr`."""
    cls = type(value)
    return f"a {_class_name(cls)}" if dataclasses.is_dataclass(cls) else shorten(value)


def _class_name(cls: type[Any]) -> str:
    return f"{cls.__module__.removeprefix('purerl.algos.')}.{cls.__qualname__}"


def hashable(spec: Any) -> None:
    """Refuse a dataclass with an unhashable field, because it would fail later, during tracing."""
    for field in dataclasses.fields(spec):
        value = getattr(spec, field.name)
        try:
            hash(value)
        except TypeError:
            if dataclasses.is_dataclass(value) and type(value).__hash__ is None:
                raise ValueError(
                    f"{field.name} must be hashable, but its class {type(value).__name__} defines "
                    f"__eq__ without __hash__. Make it a frozen dataclass: "
                    f"@dataclasses.dataclass(frozen=True)."
                ) from None
            raise ValueError(
                f"{field.name} must be hashable, but its {type(value).__name__} contains an "
                f"unhashable value, such as a list. Settings are compared by value, so use tuples: "
                f"nn.Sequential((one, two)), for example."
            ) from None


def shape(name: str, array: Any, expected: tuple[int, ...]) -> None:
    """Refuse an array with another shape. Under jit this costs nothing: shapes are static."""
    got = getattr(array, "shape", None)
    if got != expected:
        what = f"shape {got}" if got is not None else repr(array)
        raise ValueError(f"{name} must have shape {expected}, got {what}.")


def boolean(name: str, value: Any) -> None:
    """Refuse anything but True and False."""
    if not isinstance(value, bool):
        raise ValueError(f"{name} must be True or False, got {shorten(value)}.")
