"""Several seeds in one program: their carries, joined and split.

together = join(carries)      # of one algorithm, spec, schedule and environment
carries = split(together)     # each as if it had been trained alone, up to rounding
"""

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from purerl import algos, checks, mpi
from purerl.loops.carry import BaseCarry, Carry
from purerl.loops.scan.programs import Data
from purerl.loops.scan.sharing import check_devices

_EQUAL = ("algo", "schedule", "envs", "steps")  # among carries that are joined


@dataclasses.dataclass(frozen=True)
class Together:
    """Carries of k seeds that are trained by one program."""

    carries: tuple[Carry, ...]  # counters and statistics; in the place of arrays are their shapes
    data: Any  # `Data` with a leading axis k

    @property
    def is_stale(self) -> bool:
        """Whether an `advance` has consumed these carries."""
        return any(x.is_deleted() for x in jax.tree.leaves(self.data.learner))


def read_data(carry: Carry) -> Data:
    """Return the arrays of a carry that programs change."""
    return Data(carry.learner, carry.buffer, carry.tally, carry.episodes)


def write_data(carry: Carry, data: Data) -> Carry:
    """Return a carry with these arrays."""
    fields: dict[str, Any] = {"obs": data.episodes.obs, "ep_return": data.episodes.ret}
    fields |= {"ep_length": data.episodes.length}
    return dataclasses.replace(carry, **data._asdict(), **fields)


def join(carries: Sequence[Carry]) -> Together:
    """Join carries that differ only in their seed, and in what they have learned.

    Args:
        carries: Carries of `purerl.loops.scan.start`, at the same step. They are consumed.
    """
    if mpi.num_procs() > 1:
        raise ValueError(
            f"several seeds in one program need one rank, got {mpi.num_procs()}. Start the seeds "
            f"one after the other, or without mpiexec."
        )
    for one in carries:
        if not isinstance(one, BaseCarry):
            raise ValueError(f"carries must be a list of carries, got {type(one).__name__} in it.")
        one.get_jax_envs()
        one.refuse_stale()
    if not carries:
        raise ValueError("join needs at least one carry, got none.")
    first = carries[0]
    check_devices(first.schedule, together=True)
    spec = first.learner.params.spec
    for other in carries[1:]:
        if other.learner.params.spec != spec:
            raise ValueError(
                f"seeds in one program share one spec, because it is part of the program, got "
                f"{spec} and {other.learner.params.spec}. Start a process for each spec: purerl "
                f"sweep."
            )
        if wrong := [x for x in _EQUAL if getattr(other, x) != getattr(first, x)]:
            name = wrong[0]
            raise ValueError(
                f"carries of {algos.get_name(first.algo)} in one program must have the same "
                f"{name}, got {getattr(first, name)} and {getattr(other, name)}."
            )
    data = jax.tree.map(lambda *x: jnp.stack(x), *map(read_data, carries))
    return Together(tuple(map(_drop_arrays, carries)), data)


def _drop_arrays(carry: Carry) -> Any:
    """Return a carry with only the shapes of what programs change, which frees the memory.

    Otherwise its old learner could be taken for the one that is trained.
    """
    names = ("learner", "buffer", "episodes")
    shapes = {x: jax.eval_shape(lambda x=x: getattr(carry, x)) for x in names}
    return dataclasses.replace(carry, **shapes)


def split(together: Together) -> list[Carry]:
    """Return the carry of each seed; the argument stays usable."""
    if together.is_stale:
        raise ValueError(
            "these carries were consumed by an earlier advance. Split what advance returned."
        )
    return [select_seed(together, i) for i in range(len(together.carries))]


def select_seed(together: Together, i: int) -> Carry:
    """Return the carry of the seed at index `i`."""
    return write_data(together.carries[i], jax.tree.map(lambda x: x[i], together.data))


def check_seeds(seed: int | None, seeds: Sequence[int] | None) -> list[int]:
    """Return the seeds of `start`; refuse both or none of its arguments."""
    if (seed is None) == (seeds is None):
        raise ValueError(f"give either seed or seeds, got seed={seed} and seeds={seeds}.")
    several: Any = [seed] if seeds is None else seeds
    several = list(several) if isinstance(several, Iterable) else several
    if np.ndim(several) != 1:
        raise ValueError(f"seeds must be integers such as range(8) or (0, 3), got {seeds!r}.")
    several = [x.item() if isinstance(x, np.generic | jax.Array) else x for x in several]
    if not several:
        raise ValueError("seeds must have at least one seed, got none.")
    if len(set(several)) < len(several):
        raise ValueError(f"seeds must be different, got {seeds}.")
    for one in several:
        checks.seed(one)
    return list(several)
