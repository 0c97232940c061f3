"""Several seeds in one program: their carries, joined and split.

together = join(carries)      # of one algorithm, spec and schedule
carries = split(together)     # each as if it had been trained alone, up to rounding
"""

import contextlib
import dataclasses
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from purerl import algos, checks, mpi
from purerl.errors import PurerlError
from purerl.loops import adapters, records
from purerl.loops.carry import BaseCarry, Carry, Record


class Data(NamedTuple):
    """Everything that programs change; of several seeds with a leading axis."""

    learner: Any
    buffer: Any  # replay buffer, or None
    tally: Any
    episodes: Any  # episodes in progress of environments in JAX, or None


@dataclasses.dataclass(frozen=True)
class Together:
    """Carries of k seeds that are trained by one program."""

    carries: tuple[Carry, ...]  # counters and statistics; in the place of arrays are their shapes
    data: Data  # with a leading axis k

    @property
    def is_stale(self) -> bool:
        """Whether these carries were consumed by an `advance`, of all seeds or of one of them."""
        is_consumed = any(x.is_deleted() for x in jax.tree.leaves(self.data))
        return is_consumed or any(carry.is_behind for carry in self.carries)

    def refuse_stale(self) -> None:
        """Refuse carries that were consumed."""
        if self.is_stale:
            raise ValueError(
                "these carries were consumed by an earlier advance. Continue with those that "
                "advance returned."
            )


def read_data(carry: Carry) -> Data:
    """Return the arrays of a carry that programs change."""
    return Data(carry.learner, carry.buffer, carry.tally, carry.episodes)


def write_data(carry: Carry, data: Data) -> Carry:
    """Return a carry with these arrays."""
    fields: dict[str, Any] = data._asdict()
    if data.episodes is not None:
        fields |= {"obs": data.episodes.obs, "ep_return": data.episodes.ret}
        fields |= {"ep_length": data.episodes.length}
    return dataclasses.replace(carry, **fields)


def join(carries: Sequence[Carry]) -> Together:
    """Join carries that differ only in their seed, and in what they have learned.

    Args:
        carries: Carries of `start` of one loop, at the same step. They are consumed.
    """
    refuse_ranks()
    for one in carries:
        if not isinstance(one, BaseCarry):
            raise ValueError(f"carries must be a list of carries, got {type(one).__name__} in it.")
        one.refuse_stale()
        refuse_devices(one.schedule)
    if not carries:
        raise ValueError("join needs at least one carry, got none.")
    first = carries[0]
    for other in carries[1:]:
        _check_pair(first, other)
    if first.episodes is None and len({id(one.envs) for one in carries}) < len(carries):
        raise ValueError(
            "carries must have environments of their own, got two with the same. Join the carries "
            "that start or split returned, each once."
        )
    data = jax.tree.map(_stack, *map(read_data, carries))
    return Together(tuple(map(_drop_arrays, carries)), data)


def _stack(*arrays: jax.Array) -> jax.Array:
    """Stack arrays on the host, which compiles no program for each shape."""
    if jnp.issubdtype(arrays[0].dtype, jax.dtypes.prng_key):
        return jnp.stack(arrays)
    return jnp.asarray(np.stack(arrays))


def _check_pair(first: Carry, other: Carry) -> None:
    """Refuse two carries that one program cannot train."""
    spec, own = first.learner.params.spec, other.learner.params.spec
    if own != spec:
        raise ValueError(
            f"seeds in one program share one spec, because it is part of the program, got {spec} "
            f"and {own}. Start a process for each spec: purerl sweep."
        )
    kinds = [isinstance(one.envs, adapters.JaxEnvs) for one in (first, other)]
    if kinds[0] != kinds[1]:
        raise ValueError(
            "carries in one program must be of the same loop, got some of purerl.loops.gym and "
            "some of purerl.loops.scan. Join those of each loop."
        )
    equal = ("algo", "schedule", "steps", *(("envs",) if kinds[0] else ()))
    if wrong := [x for x in equal if getattr(other, x) != getattr(first, x)]:
        raise ValueError(
            f"carries of {algos.get_name(first.algo)} in one program must have the same "
            f"{wrong[0]}, got {getattr(first, wrong[0])} and {getattr(other, wrong[0])}."
        )


def _drop_arrays(carry: Carry) -> Any:
    """Return a carry with only the shapes of what programs change, which frees the memory.

    Otherwise its old learner could be taken for the one that is trained.
    """
    return dataclasses.replace(carry, **jax.eval_shape(lambda: read_data(carry))._asdict())


def split(together: Together) -> list[Carry]:
    """Return the carry of each seed.

    The argument stays usable until one of them is advanced, if the environments are of Gymnasium:
    both have the same environments. With environments in JAX it always stays usable.
    """
    if together.is_stale:
        raise ValueError(
            "these carries were consumed by an earlier advance. Split what advance returned."
        )
    return [select_seed(together, i) for i in range(len(together.carries))]


def select_seed(together: Together, i: int) -> Carry:
    """Return the carry of the seed at index `i`."""
    return write_data(together.carries[i], jax.tree.map(lambda x: x[i], together.data))


def close_epochs(together: Together) -> tuple[Together, list[Record] | None]:
    """Make the record of each seed if an epoch ended, and start the statistics of the next one."""
    if not records.is_epoch_over(together.carries[0]):
        return together, None
    tallies = np.asarray(together.data.tally)
    closed = []
    for carry, tally in zip(together.carries, tallies, strict=True):
        closed.append(records.close_epoch(dataclasses.replace(carry, tally=tally)))
    data = together.data._replace(tally=jnp.stack([carry.tally for carry, _ in closed]))
    shapes = [one.tally for one in together.carries]
    carries = tuple(
        dataclasses.replace(carry, tally=shape)
        for (carry, _), shape in zip(closed, shapes, strict=True)
    )
    return Together(carries, data), [record for _, record in closed]


def check_learners(
    together: Together,
    updates: Sequence[int],
    finite: Any,
    failed: Mapping[int, PurerlError] = MappingProxyType({}),
) -> None:
    """Raise `Diverged` for the first seed with numbers that are not finite.

    The error has the carries of the other seeds, and their records if an epoch ended.

    Args:
        together: The carries after the updates.
        updates: Number of the last updates of each seed.
        finite: Whether the numbers of each seed are finite, `[k]`.
        failed: Errors of seeds that have failed before. Then the first of all errors is raised.
    """
    failed = dict(failed)
    for i in np.flatnonzero(~np.asarray(finite, bool)).tolist():
        try:
            with name_seed(together.carries[i].seed):
                records.check_learner(select_seed(together, i), updates[i], False)
        except PurerlError as error:
            failed.setdefault(i, error)
    if not failed:
        return
    first, good = failed[min(failed)], np.array([i not in failed for i in range(len(updates))])
    if good.any():
        carries = tuple(itertools.compress(together.carries, good))
        data = jax.tree.map(lambda x: x[good], together.data)
        others, made = close_epochs(Together(carries, data))
        ended: Sequence[Record | None] = made or [None] * len(carries)
        pairs = zip(split(others), ended, strict=True)
        first.survivors = dict(zip(np.flatnonzero(good).tolist(), pairs, strict=True))
    raise first


@contextlib.contextmanager
def name_seed(seed: int) -> Iterator[None]:
    """Add the seed to errors."""
    try:
        yield
    except Exception as error:  # of any class: it only gets a note
        error.add_note(f"The seed is {seed}.")
        if isinstance(error, PurerlError):
            error.seed = seed
        raise


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
    if seeds is not None:
        refuse_ranks()
    return list(several)


def refuse_ranks() -> None:
    """Refuse several seeds on several ranks."""
    if mpi.num_procs() > 1:
        raise ValueError(
            f"several seeds in one program need one rank, got {mpi.num_procs()}. Start the seeds "
            f"one after the other, or without mpiexec."
        )


def refuse_devices(schedule: Any) -> None:
    """Refuse several seeds on several devices."""
    devices = getattr(schedule, "devices", 1)
    if devices > 1:
        raise ValueError(
            f"several seeds in one program need one device, got devices={devices}. Set devices=1, "
            f"or start a process for each seed."
        )
