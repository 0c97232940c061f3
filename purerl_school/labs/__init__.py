"""Bug labs: copies of algorithms with one planted error each, for students to find.

`planted` contains a table of errors for each algorithm. None of these modules imports JAX but
`training`, which runs a copy.
"""

from typing import TYPE_CHECKING

from purerl.lazy import load_on_use

if TYPE_CHECKING:
    from purerl_school.labs import folder, pictures, planted, planting, training

__all__ = ["folder", "pictures", "planted", "planting", "training"]

__getattr__ = load_on_use(__name__, __all__)
