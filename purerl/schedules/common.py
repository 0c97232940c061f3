"""Parts of both kinds of schedule: numbers, settings, and checks of the fields they share."""

import functools
from typing import Any

from purerl import checks
from purerl.fields import setting

EPOCH = 4_000  # Spinning Up's steps_per_epoch; shorter runs have 20 epochs
ROLLOUT = 1_000
SEQUENCE = 20  # steps of a replayed sequence
FEWEST_ROWS = 20  # rows of the log in a short run

# Settings of both kinds of schedule.
devices_setting = functools.partial(
    setting,
    1,
    "local devices that split each batch, and environments in JAX",
    group="Compute",
    rare=True,
)
log_info_setting = functools.partial(
    setting,
    None,
    "values of info to log from the last step of each episode, for example is_success",
    group="Logging and checkpoints",
    rare=True,
)


def round_up(count: int, unit: int) -> int:
    """Return the smallest multiple of `unit` that is at least `count`."""
    return -(-count // unit) * unit


def round_down(count: int, unit: int) -> int:
    """Return the largest multiple of `unit` up to `count`, but at least `unit`."""
    return max(unit, count // unit * unit)


def portion(steps: int, parts: int, most: int) -> int:
    """Return one of `parts` parts of a run, between 1 and `most` steps."""
    return max(1, min(most, steps // parts))


def _check_names(setting: str, names: tuple[str, ...]) -> None:
    """Refuse anything but a tuple of different texts that no other list of a record has."""
    if not isinstance(names, tuple) or not all(isinstance(one, str) and one for one in names):
        raise ValueError(f"{setting} must be a tuple of names, got {names!r}.")
    if len(set(names)) < len(names) or {"returns", "lengths"} & set(names):
        raise ValueError(
            f"{setting} must have each name once, and neither returns nor lengths, which are "
            f"always logged, got {names!r}."
        )


def check_common(schedule: Any) -> None:
    """Check the fields that both kinds of schedule have."""
    checks.integer("steps", schedule.steps, 1, checks.COUNTER)
    checks.each(schedule, ("num_envs", "devices"), checks.integer, 1)
    checks.integer("num_test_episodes", schedule.num_test_episodes, 0)
    checks.each(schedule, ("log_info",), _check_names, optional=True)
    checks.each(schedule, ("max_ep_len",), checks.integer, 1, optional=True)
