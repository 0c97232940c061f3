"""Steps of several ranks that may fail on one of them: the error is raised on all."""

from collections.abc import Callable
from typing import Any

from purerl import mpi
from purerl.errors import ConfigError, StorageError


def run_on_all(step: Callable[[], Any]) -> list[Any]:
    """Call a function on all ranks and return its results; an error of one is raised on all."""
    done, failed = None, None
    try:
        done = step()
    except (ConfigError, StorageError) as error:
        failed = error
    everyone = mpi.allgather((done, failed))
    for _, failure in everyone:
        if failure is not None:
            raise failure
    return [one for one, _ in everyone]


def run_on_root(step: Callable[[], Any], shared: bool = True) -> Any:
    """Call a function on rank 0, and return its result on all ranks.

    Args:
        step: function to call; its error is raised on all ranks.
        shared: whether the other ranks get the result; else they get None.
    """
    made: list[Any] = [None]

    def call() -> Any:
        if mpi.is_root():
            made[0] = step()
        return made[0] if shared else None

    shown = run_on_all(call)[0]
    return shown if shared else made[0]
