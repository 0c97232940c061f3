"""Use a trained policy: evaluate, film, export."""

from typing import TYPE_CHECKING

from purerl.lazy import load_on_use

if TYPE_CHECKING:
    from purerl.runs.policy import evaluation, export, numpy_policy, run, video

__all__ = ["evaluation", "export", "numpy_policy", "run", "video"]

__getattr__ = load_on_use(__name__, __all__)
