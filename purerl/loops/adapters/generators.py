"""States of the global generators of Python and NumPy, which some environments draw from.

purerl never draws from them. A snapshot contains their states only if something else has.
"""

import math
import random
from typing import Any

import numpy as np

from purerl.errors import SnapshotMismatch

_PYTHON, _NUMPY = "generators.python", "generators.numpy"


def read() -> dict[str, np.ndarray]:
    """Return the states of both generators as arrays."""
    version, words, gauss = random.getstate()
    kind, key, *place = np.random.get_state(legacy=True)  # noqa: NPY002 - the global one
    found = {
        _PYTHON: np.array(words, np.uint32),
        f"{_PYTHON}.rest": np.array([version, math.nan if gauss is None else gauss]),
    }
    if kind == "MT19937":  # all others were put there by somebody
        found |= {_NUMPY: np.array(key, np.uint32), f"{_NUMPY}.rest": np.array(place, np.float64)}
    return found


def read_if_new(before: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the states if they differ from those that `read` returned before; else nothing."""
    now = read()
    same = now.keys() == before.keys()
    same = same and all(now[name].tobytes() == before[name].tobytes() for name in now)
    return {} if same else now


def restore(arrays: dict[str, Any]) -> None:
    """Restore the states that a snapshot contains, if it contains any."""
    try:
        if _PYTHON in arrays:
            version, gauss = arrays[f"{_PYTHON}.rest"].tolist()
            words = tuple(arrays[_PYTHON].tolist())
            random.setstate((int(version), words, None if math.isnan(gauss) else gauss))
        if _NUMPY in arrays:
            place, has_gauss, gauss = arrays[f"{_NUMPY}.rest"].tolist()
            state = ("MT19937", arrays[_NUMPY], int(place), int(has_gauss), gauss)
            np.random.set_state(state)  # noqa: NPY002 - the global one
    except (LookupError, OverflowError, TypeError, ValueError) as error:
        raise SnapshotMismatch(f"the states of the global generators: {error}.") from error
