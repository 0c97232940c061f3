"""Exercises that check themselves, and labs with planted errors, for students and teachers.

It uses the public names of purerl only. `purerl exercise` and `purerl lab` start its commands.
"""

from typing import TYPE_CHECKING

from purerl.lazy import load_on_use

if TYPE_CHECKING:
    from purerl_school import exercises, labs

__all__ = ["exercises", "labs"]

__getattr__ = load_on_use(__name__, __all__)
