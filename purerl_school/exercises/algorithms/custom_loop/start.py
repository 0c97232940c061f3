"""Exercise 3.7: one step of a custom loop.

Fill in `advance`. Then check it:

    purerl exercise check 3.7
"""

from purerl.types import Transition
from purerl_school.exercises.algorithms.custom_loop.parts import Carry, Parts


def advance(parts: Parts, carry: Carry) -> Carry:
    """Make one step in the environment, store it, and do the updates that are due.

    Args:
        parts: Functions and numbers of the loop.
        carry: State of the loop, which does not change.

    Returns:
        The next state of the loop.
    """
    raise NotImplementedError("write advance, and delete this line")
