"""Checks of exercises: comparisons that explain a wrong number, and the run of all checks.

A check is a function `check_...(answer)` in the `check.py` of an exercise. The first sentence of
its docstring names the case. It raises `WrongAnswer` through the functions below. Expected numbers
are NumPy arrays in float64, which no function of the library has computed.
"""

import importlib
import math
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import jax
import jax.numpy as jnp
import numpy as np

from purerl.errors import WrongAnswer
from purerl_school.exercises import student

Mistakes = Mapping[str, Any]  # explanation -> the numbers that an answer with this mistake gives
TOLERANCE = 1e-4  # relative to 1 + the largest expected number


class Outcome(NamedTuple):
    """The result of one check: its case, and what is wrong, or nothing."""

    case: str
    message: str = ""

    @property
    def passed(self) -> bool:
        """Whether the answer passes the check."""
        return not self.message


def run_checks(exercise: Any, answer: Callable[..., Any] | str | Path) -> Iterator[Outcome]:
    """Run the checks of an exercise one by one, and yield their outcomes.

    Args:
        exercise: Entry of `purerl_school.exercises.EXERCISES`.
        answer: The student's function, or the path of the file that contains it.
    """
    checks = find_checks(exercise)
    try:
        function, lost = _load(exercise, answer), ""
    except WrongAnswer as error:
        lost = str(error)
    for check in checks:
        case = str(check.__doc__).partition("\n")[0].rstrip(".")
        # A wrong shape must give wrong numbers, which a check explains, not an error of JAX.
        with jax.numpy_rank_promotion("allow"), jax.default_matmul_precision("highest"):
            message = lost or _find_mistake(check, function)
        yield Outcome(case, message)


def run_reward(
    exercise: Any, answer: Callable[..., Any] | str | Path, report: Callable[[str], None]
) -> Any:
    """Train with the student's function, report the progress line by line, and return a score."""
    with jax.numpy_rank_promotion("allow"):
        return _import(exercise, "reward").reward(_load(exercise, answer), report)


def find_checks(exercise: Any) -> list[Callable[..., None]]:
    """Return the checks of an exercise, in the order of its `check.py`."""
    names = vars(_import(exercise, "check"))
    return [value for name, value in names.items() if name.startswith("check_")]


def _import(exercise: Any, name: str) -> Any:
    folder = exercise.folder.replace("/", ".")
    return importlib.import_module(f"purerl_school.exercises.{folder}.{name}")


def _load(exercise: Any, answer: Callable[..., Any] | str | Path) -> Callable[..., Any]:
    if callable(answer):
        return answer
    return student.load_answer(Path(answer), exercise.function)


def _find_mistake(check: Callable[..., None], answer: Callable[..., Any]) -> str:
    try:
        check(answer)
    except WrongAnswer as error:
        return str(error)
    except NotImplementedError as error:
        return f"The function is not filled in yet: {error}"
    except jax.errors.JAXTypeError as error:
        return f"{student.describe_error(error)}. {_TRACED}"
    except Exception as error:  # a student's function may raise anything
        return f"Your function raised {student.describe_error(error)}"
    return ""


_TRACED = (
    "Inside jit and grad the numbers are not known yet. Use jnp in place of np, jnp.where in place "
    "of if, and no float() or int()."
)


def reject(message: str) -> NoReturn:
    """Fail a check with a message of its own."""
    raise WrongAnswer(message)


def make_numbers(seed: int, *shape: int) -> np.ndarray:
    """Return standard normal numbers in float64 that float32 also represents."""
    return np.asarray(jax.random.normal(jax.random.key(seed), shape), np.float64)


def apply(answer: Callable[..., Any], *arguments: Any) -> Any:
    """Call an answer with JAX arrays in float32 in place of NumPy arrays in float64."""
    return answer(*to_jax(arguments))


def to_jax(tree: Any) -> Any:
    """Replace the NumPy arrays of a tree by JAX arrays, float64 by float32."""

    def convert(leaf: Any) -> Any:
        if not isinstance(leaf, np.ndarray):
            return leaf
        return jnp.asarray(leaf, jnp.float32 if leaf.dtype == np.float64 else leaf.dtype)

    return jax.tree.map(convert, tree)


def expect_shape(got: Any, shape: tuple[int, ...], what: str, hint: str = "") -> None:
    """Fail unless an array has a shape; explain the usual reasons for another one."""
    if got is None:
        reject(f"The function returned None for the {what}. Is the return missing?")
    if isinstance(got, tuple | list | dict):
        kind = type(got).__name__
        reject(f"The {what} must be an array of shape {shape}, got a {kind}. {hint}".rstrip())
    found = jnp.shape(got)
    if found != shape:
        why = hint or _explain_shape(found, shape)
        reject(f"The {what} must have shape {shape}, got {found}. {why}".rstrip())


def _explain_shape(found: tuple[int, ...], shape: tuple[int, ...]) -> str:
    if shape == ():
        return "A loss is one number. Is the mean over the rows missing?"
    if found == ():
        return "Each row needs a number of its own. Were the rows added up or averaged?"
    if found == (*shape, 1):
        return "A last axis of size 1 is left. Remove it, before it meets an array without it."
    if len(shape) == 1 and found == shape * 2:
        return "Shapes [N, 1] and [N] were combined. They broadcast to [N, N] without an error."
    if len(found) == len(shape) + 1 and found[:-1] == shape:
        return "The last axis must be summed."
    return ""


def expect_close(
    got: Any, expected: Any, what: str, hint: str = "", mistakes: Mistakes | None = None
) -> None:
    """Fail unless an array has the expected shape and numbers; explain what the wrong ones mean.

    Args:
        got: Array from the student's function.
        expected: The right numbers, in float64.
        what: Noun for the message, such as `log-probability`.
        hint: Sentence for wrong numbers that nothing else explains.
        mistakes: For each classic mistake, its explanation and the numbers that it gives.
    """
    expected = np.asarray(expected, np.float64)
    mistakes = {text: np.asarray(value, np.float64) for text, value in (mistakes or {}).items()}
    mistakes = {text: value for text, value in mistakes.items() if np.isfinite(value).all()}
    if got is not None and not isinstance(got, tuple | list | dict):
        for text, value in mistakes.items():
            if jnp.shape(got) == value.shape != expected.shape and _is_close(got, value):
                reject(f"The {what} has shape {value.shape}, not {expected.shape}. {text}")
    expect_shape(got, expected.shape, what)
    found = np.asarray(got, np.float64)
    if _is_close(found, expected):
        return
    why = next((text for text, value in mistakes.items() if _is_close(found, value)), "")
    if not np.isfinite(found).all():
        why = f"Some numbers are not finite: a division by 0, or a logarithm of 0? {hint}"
    why = why or _explain_numbers(found, expected) or hint
    reject(f"The {what} is {_show(found)}, expected {_show(expected)}. {why}".rstrip())


def _is_close(found: Any, expected: np.ndarray) -> bool:
    found = np.asarray(found, np.float64)
    limit = TOLERANCE * (1.0 + float(np.max(abs(expected), initial=0.0)))
    return found.shape == expected.shape and bool((abs(found - expected) <= limit).all())


def _explain_numbers(found: np.ndarray, expected: np.ndarray) -> str:
    if _is_close(found, -expected):
        return "The sign is wrong: these are exactly minus the expected numbers."
    if not np.any(abs(found) > 0.0):
        return "All numbers are 0."
    length = math.sqrt(float((expected**2).sum()))
    factor = float((found * expected).sum()) / max(length, 1e-12) ** 2
    if expected.size > 1 and _is_close(found, factor * expected):
        inverse = f"1/{1 / factor:.4g}" if abs(factor) < 1 else f"{factor:.4g}"
        return f"The numbers differ by exactly the factor {inverse}. Mean or sum, or a constant?"
    offset = float((found - expected).mean())
    if expected.size > 1 and _is_close(found, expected + offset):
        return f"All numbers differ by the same amount, {offset:.4g}. Is a constant term wrong?"
    return ""


def _show(array: np.ndarray) -> str:
    """Return the numbers of an array in one line; only the first ones of a long array."""
    flat = array.ravel()
    shown = ", ".join(f"{number:.5g}" for number in flat[:6])
    if array.ndim == 0:
        return shown
    return f"[{shown}{', ...' if flat.size > 6 else ''}]"


def expect_gradient(
    got: Callable[[Any], Any],
    reference: Callable[[np.ndarray], Any],
    x: np.ndarray,
    what: str,
    hint: str = "",
    mistakes: Mistakes | None = None,
) -> None:
    """Fail unless the gradient of a function equals that of its NumPy reference.

    Args:
        got: Function of one array that calls the student's, and returns one number.
        reference: The same in NumPy. Its gradient is computed by differences in float64.
        x: Point at which to differentiate.
        what: Noun for the message, such as `gradient in the mean`.
        hint: As for `expect_close`.
        mistakes: As for `expect_close`.
    """
    expect_close(jax.grad(got)(to_jax(x)), differentiate(reference, x), what, hint, mistakes)


def expect_no_gradient(got: Any, name: str, hint: str) -> None:
    """Fail if a gradient in something that must not change is not 0."""
    found = np.asarray(got, np.float64)
    if found.any():
        reject(f"The gradient in {name} is {_show(found)}, and it must be 0. {hint}")


def differentiate(function: Callable[[np.ndarray], Any], x: np.ndarray) -> np.ndarray:
    """Return the gradient of a NumPy function by central differences."""
    grad, step = np.zeros_like(x), 1e-5
    for index in np.ndindex(*x.shape):
        moved = np.zeros_like(x)
        moved[index] = step
        grad[index] = (function(x + moved) - function(x - moved)) / (2.0 * step)
    return grad


def expect_jit(answer: Callable[..., Any], *arguments: Any) -> None:
    """Fail unless an answer gives the same numbers inside `jit`, where all arguments are traced."""
    given = to_jax(arguments)
    plain, compiled = answer(*given), jax.jit(answer)(*given)
    for one, other in zip(jax.tree.leaves(plain), jax.tree.leaves(compiled), strict=True):
        expect_close(other, one, "result inside jit")
