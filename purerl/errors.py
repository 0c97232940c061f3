"""All exceptions of purerl, each with the exit code of a command that ends with it."""

import errno
from collections.abc import Mapping
from typing import Any, ClassVar

DONE = 0
INCOMPLETE = 1  # some runs of a sweep are not done, or the error has no exit code
USAGE = 2
NOT_FINITE = 3
ENVIRONMENT = 4
STORAGE = 5
NO_CHECKPOINT = 6
RANKS_DISAGREE = 7
WRONG_ANSWER = 8  # an answer to an exercise or a lab is wrong
STOPPED = 75  # stopped on request; `purerl resume` continues
INTERRUPTED = 130  # as a shell reports Ctrl-C
NO_READER = 141  # as a shell reports a closed pipe


class PurerlError(Exception):
    """Base class of all errors that purerl raises on purpose, except plain `ValueError`s."""

    exit_code: ClassVar[int] = INCOMPLETE
    # If one of several seeds in a program failed: which, and what a consumed program has left of
    # the others, index -> carry, record or None.
    seed: int | None = None
    survivors: Mapping[int, tuple[Any, Any]] = {}


class ConfigError(PurerlError, ValueError):
    """A configuration or a command line is invalid."""

    exit_code = USAGE


class UnreadableTable(PurerlError, ValueError):
    """A file is not a table of a run."""

    exit_code = USAGE


class TaskRefused(PurerlError, ValueError):
    """A run of a sweep cannot start with its settings."""

    exit_code = USAGE


class ExperimentFailed(PurerlError, RuntimeError):
    """An experiment did not finish; the message gives the reason and the file with its output."""


class NonFiniteError(PurerlError, FloatingPointError):
    """An environment or an update returned a number that is not finite."""

    exit_code = NOT_FINITE


class Diverged(NonFiniteError):
    """An update produced a number that is not finite."""


class EnvFault(PurerlError, RuntimeError):
    """An environment raised an exception or broke the Gymnasium interface."""

    exit_code = ENVIRONMENT


class EnvWarning(UserWarning):
    """Warning: training in this environment may not give what its user expects."""


class EpisodesCut(EnvWarning):
    """Warning: episodes may be longer than a rollout, which cuts them at its end."""


class AdvanceStopped(PurerlError):
    """An advance was stopped between two steps of the environments."""


class EpisodesLost(EnvWarning):
    """Warning: episodes in progress could not be replayed, so new ones have started."""


class NoTimeLimit(EnvWarning):
    """Warning: the environment declares no time limit, so an episode may never end."""


class ScaledReturns(EnvWarning):
    """Warning: a wrapper scales rewards by running statistics, so returns are scaled too."""


class CountsRounded(UserWarning):
    """Warning: counts of a schedule were rounded up to what ranks and environments can share."""


class StorageError(PurerlError, OSError):
    """A file could not be read or written."""

    exit_code = STORAGE

    def __str__(self) -> str:
        """Return the message without the error number."""
        return self.strerror or super().__str__()


class Damaged(StorageError):
    """A file is missing, was changed, or has an invalid form."""


class RunLost(StorageError):
    """Files of a run were deleted or moved while it was training."""


class OutputClosed(PurerlError, OSError):
    """Standard output or standard error cannot be written: a closed pipe, a full disk."""

    @property
    def code(self) -> int:
        """Exit code: that of a closed pipe, or that of a storage error."""
        return NO_READER if self.errno == errno.EPIPE else STORAGE


class NoCheckpoint(PurerlError, ValueError):
    """No checkpoint of a run can be used."""

    exit_code = NO_CHECKPOINT


class SnapshotMismatch(PurerlError, ValueError):
    """The arrays of a checkpoint do not match the run that should continue from it."""

    exit_code = NO_CHECKPOINT


class MPIUnavailable(PurerlError, RuntimeError):
    """Several ranks were requested, but MPI cannot provide them."""

    exit_code = USAGE


class RanksDisagree(PurerlError, RuntimeError):
    """A value that must be equal on all ranks differs between them."""

    exit_code = RANKS_DISAGREE


class WrongAnswer(PurerlError, ValueError):
    """An answer to an exercise or a bug lab is wrong; the message explains how."""

    exit_code = WRONG_ANSWER


def exit_code_of(error: BaseException) -> int:
    """Return the exit code of a program that ends with an error.

    Example:
        >>> exit_code_of(ConfigError("x")), exit_code_of(KeyboardInterrupt())
        (2, 130)
    """
    if isinstance(error, KeyboardInterrupt):
        return INTERRUPTED
    if isinstance(error, OutputClosed):
        return error.code
    if isinstance(error, PurerlError):
        return error.exit_code
    if isinstance(error, OSError):
        return STORAGE
    return USAGE if isinstance(error, ValueError) else INCOMPLETE
