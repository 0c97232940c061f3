"""Settings: dataclass fields with the metadata that commands and pages show."""

import dataclasses
import functools
from typing import Any

PARTS = ("spec", "schedule", "options")  # parts of a config, each a dataclass of settings


def setting(
    default: Any, help: str, *, flag: str = "", group: str = "Algorithm", rare: bool = False
) -> Any:
    """Declare a field of a `Spec`, a schedule or the options of a run.

    Args:
        default: Default value.
        help: One line that describes the setting.
        flag: Second flag on the command line, in addition to the field's name.
        group: Heading of the setting in `purerl train ALGO --help`.
        rare: Whether only `--help-all` shows the setting.

    Example:
        >>> @dataclasses.dataclass(frozen=True)
        ... class Spec:
        ...     gamma: float = setting(0.99, "discount factor")
        >>> Spec().gamma, dataclasses.fields(Spec)[0].metadata["help"]
        (0.99, 'discount factor')
    """
    metadata = {"help": help, "flag": flag, "group": group, "rare": rare}
    return dataclasses.field(default=default, metadata=metadata)


network_setting = functools.partial(setting, group="Network")
"""Declare a setting in the group `Network`."""
