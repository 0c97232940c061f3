"""Declare the fields of a settings dataclass with what commands and pages show of them."""

import dataclasses
from typing import Any


def setting(
    default: Any, help: str, *, flag: str = "", group: str = "Algorithm", rare: bool = False
) -> Any:
    """Declare a field of a `Spec`, a schedule or the options of a run.

    Args:
        default: default value.
        help: one line that describes the setting.
        flag: second flag on the command line, besides the field's name.
        group: heading of the setting in `purerl train ALGO --help`.
        rare: show the setting only in `--help-all`.

    Example:
        >>> @dataclasses.dataclass(frozen=True)
        ... class Spec:
        ...     gamma: float = setting(0.99, "discount factor")
        >>> Spec().gamma, dataclasses.fields(Spec)[0].metadata["help"]
        (0.99, 'discount factor')
    """
    metadata = {"help": help, "flag": flag, "group": group, "rare": rare}
    return dataclasses.field(default=default, metadata=metadata)
