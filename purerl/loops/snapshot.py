"""A carry as arrays and plain numbers, and back: everything that a resumed run needs.

    frozen = freeze(carry, since=0)            # since: rows of the replay memory saved before
    carry = thaw(start(...), frozen)           # of the same arguments

Keys and seeds are derived from counters, so counters stand for generators, and the episode in
progress is its seed and the actions so far: they are played again and the observation reached is
compared bit for bit. Nothing here touches a disk.
"""

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from purerl.buffers import replay
from purerl.errors import SnapshotMismatch
from purerl.loops.carry import Carry
from purerl.loops.devices import replicate, unreplicate

_COUNTERS = ("steps", "calls", "updates", "epoch")
_HOST = ("obs", "ep_return", "ep_length")
_ENDED = {"ep_returns": np.float64, "ep_lengths": np.int64}  # of any number


class Frozen(NamedTuple):
    """What a carry holds, without what its configuration says."""

    learner: dict[str, np.ndarray]  # path of each leaf -> array
    host: dict[str, np.ndarray]  # observations, returns, lengths, surplus rows, tally, actions
    facts: dict[str, Any]  # counters and lists, as JSON knows them
    rows: dict[str, np.ndarray] | None  # of the replay memory: field -> rows `first` .. `stop`
    first: int = 0
    stop: int = 0


def freeze(carry: Carry, since: int = 0, copy: bool = True) -> Frozen:
    """Copy what a carry holds to the host.

    Args:
        carry: what to copy.
        since: first row wanted of the replay memory.
        copy: its rows too; without, they may be those of the carry, and are to be used before it
            goes on: new memory for a million rows costs as much time as writing them.
    """
    learner = _leaves(unreplicate(carry.learner))
    host = {name: np.array(getattr(carry, name)) for name in _HOST}
    host["tally"] = np.asarray(unreplicate(carry.tally))
    host |= {f"surplus.{k}": np.array(v) for k, v in carry.surplus._asdict().items()}
    facts: dict[str, Any] = {name: getattr(carry, name) for name in _COUNTERS}
    host |= {name: np.array(getattr(carry, name), dtype) for name, dtype in _ENDED.items()}
    facts["episodes"], actions = carry.envs.progress()
    host |= {f"actions.{i}": taken for i, taken in enumerate(actions)}
    if carry.buffer is None:
        return Frozen(learner, host, facts, None)
    stop = carry.steps // carry.ranks
    data = unreplicate(carry.buffer.data)
    first = max(since, stop - len(data.rew))
    rows = {name: _ring(np.asarray(x), first, stop, copy) for name, x in data._asdict().items()}
    return Frozen(learner, host, facts, rows, first, stop)


def thaw(carry: Carry, frozen: Frozen) -> tuple[Carry, list[int]]:
    """Fill a carry that was just started with what was frozen.

    Args:
        carry: from `start`, of the same algorithm, spec, schedule, seed and environments.
        frozen: with all rows the replay memory held; older ones are left out.

    Returns:
        The carry, and the environments whose episode could not be played again and starts anew.

    Raises:
        Mismatch: naming the first array that does not fit.
    """
    old = unreplicate(carry.learner)
    leaves = _fit_arrays("learner", _leaves(old), frozen.learner)
    learner = jax.tree.unflatten(jax.tree.structure(old), [jnp.asarray(x) for x in leaves])
    wanted = {name: np.asarray(getattr(carry, name)) for name in _HOST}
    wanted["tally"] = np.asarray(unreplicate(carry.tally))
    fitted = _fit_arrays("host ", wanted, frozen.host)
    fields: dict[str, Any] = dict(zip(wanted, fitted, strict=True))
    devices = carry.schedule.devices
    fields["tally"] = replicate(jnp.asarray(fields["tally"]), devices)
    rows = {name: np.empty(0, dtype) for name, dtype in _ENDED.items()}
    rows |= {f"surplus.{k}": x for k, x in carry.surplus._asdict().items()}
    episodes, taken = carry.envs.progress()
    rows |= {f"actions.{i}": x for i, x in enumerate(taken)}
    long = {k: x for k, x in frozen.host.items() if k not in wanted}
    _fit_arrays("host ", _rows_of(rows), _rows_of(long))
    fields |= {name: tuple(long[name].tolist()) for name in _ENDED}
    fields["surplus"] = type(carry.surplus)(*(long[f"surplus.{k}"] for k in carry.surplus._fields))
    fields |= _check_counters(frozen.facts, len(episodes))
    buffer = _fill_replay(carry, frozen)
    actions = [long[f"actions.{i}"] for i in range(len(taken))]
    fields["obs"], lost = carry.envs.go_on(frozen.facts["episodes"], actions, fields["obs"])
    fields["ep_return"][lost] = 0
    fields["ep_length"][lost] = 0
    learner = replicate(learner, devices)
    return dataclasses.replace(carry, learner=learner, buffer=buffer, **fields), lost


def select_shared(carry: Carry) -> dict[str, Any]:
    """Return what must be equal on all ranks: the learner, and counters as words."""
    counters = {name: str(getattr(carry, name)) for name in _COUNTERS}
    return {"learner": unreplicate(carry.learner), **counters}


def _check_counters(facts: dict[str, Any], number: int) -> dict[str, int]:
    """Return the counters, if they and the numbers of the episodes in progress are any."""
    episodes = facts.get("episodes")
    if not isinstance(episodes, list) or len(episodes) != number:
        raise SnapshotMismatch(f"episodes must be the numbers of {number}, got {episodes!r}.")
    counters = {name: facts.get(name) for name in _COUNTERS}
    for name, value in (*counters.items(), *(("episodes", n) for n in episodes)):
        if not isinstance(value, int) or not 0 <= value < 2**63:
            raise SnapshotMismatch(f"{name} must be an integer of at least 0, got {value!r}.")
    return {name: facts[name] for name in _COUNTERS}


def _fill_replay(carry: Carry, frozen: Frozen) -> replay.Replay | None:
    """Return the ring with the rows where they were."""
    if carry.buffer is None:
        return None
    if frozen.rows is None:
        raise SnapshotMismatch("the replay memory is missing.")
    data = unreplicate(carry.buffer.data)
    capacity = len(data.rew)
    first = max(0, frozen.stop - capacity)
    if frozen.first > first or len(frozen.rows["rew"]) != frozen.stop - frozen.first:
        raise SnapshotMismatch(
            f"the replay memory must hold rows {first} .. {frozen.stop}, got "
            f"{len(frozen.rows['rew'])} rows from {frozen.first} on."
        )
    empty = _rows_of(data._asdict())
    _fit_arrays("replay ", empty, _rows_of(frozen.rows))
    filled = {}
    for name, none in empty.items():
        kept = frozen.rows[name][first - frozen.first :]
        start = first % capacity
        tail = min(len(kept), capacity - start)  # the others are at the beginning
        filled[name] = np.zeros((capacity, *none.shape[1:]), none.dtype)
        filled[name][start : start + tail] = kept[:tail]
        filled[name][: len(kept) - tail] = kept[tail:]
    ring = replay.Replay(
        type(data)(**{name: jnp.asarray(x) for name, x in filled.items()}),
        jnp.int32(frozen.stop % capacity),
        jnp.int32(min(frozen.stop, capacity)),
    )
    return replicate(ring, carry.schedule.devices)


def _ring(x: np.ndarray, first: int, stop: int, copy: bool) -> np.ndarray:
    """Return the rows `first` .. `stop`, of which row i is at i modulo the length."""
    start, number = first % len(x), stop - first
    tail = x[start : start + number]
    if len(tail) == number and not copy:
        return tail
    return np.concatenate([tail, x[: number - len(tail)]])


def _leaves(tree: Any) -> dict[str, np.ndarray]:
    pairs = jax.tree_util.tree_leaves_with_path(tree)
    return {jax.tree_util.keystr(path): np.array(leaf) for path, leaf in pairs}


def _rows_of(fields: dict[str, Any]) -> dict[str, np.ndarray]:
    """Return fields without rows: what of their shapes must agree."""
    return {name: x[:0] if np.ndim(x) else x for name, x in fields.items()}


def _fit_arrays(
    what: str, wanted: dict[str, np.ndarray], given: dict[str, np.ndarray]
) -> list[np.ndarray]:
    """Return the given arrays in the wanted order, if each has the wanted shape and dtype."""
    for name, x in wanted.items():
        if name not in given:
            raise SnapshotMismatch(f"{what}{name} is missing.")
        came = given[name]
        if (came.shape, came.dtype) != (x.shape, x.dtype):
            raise SnapshotMismatch(
                f"{what}{name} must be {x.dtype} of shape {x.shape}, got {came.dtype} of shape "
                f"{came.shape}."
            )
    extra = sorted(set(given) - set(wanted))
    if extra and what != "host ":
        raise SnapshotMismatch(f"{what}{extra[0]} is not part of this run.")
    return [np.array(given[name]) for name in wanted]
