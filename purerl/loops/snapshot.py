"""Turn a carry into arrays and plain numbers, and back: everything that a resumed run needs.

    frozen = freeze(carry, since=0)            # since: first row of the replay buffer to copy
    carry, lost = thaw(start(...), frozen)     # start with the same arguments

Keys and seeds are derived from counters, so a snapshot has no states of generators, except for the
global ones of Python and NumPy if an environment draws from them. It stores an
episode in progress as its seed and the actions so far. `thaw` replays these actions and compares
the observations, rewards and flags bit for bit. Episodes in progress of environments in JAX are
arrays, which are stored as they are. This module does not touch the disk.
"""

import dataclasses
import warnings
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from purerl.buffers import goals, replay, return_replay
from purerl.errors import EpisodesLost, SnapshotMismatch
from purerl.loops.adapters import Episodes, JaxEnvs, generators
from purerl.loops.carry import Carry, OffPolicyCarry, OnPolicyCarry, SequenceCarry
from purerl.loops.devices import read_own, replicate, replicate_own, split_rows, unreplicate
from purerl.loops.stepwise import steps
from purerl.types import ExtendedTransition, SequenceBatch, list_arrays, make_rows

_COUNTERS = ("steps", "calls", "updates", "epoch")
_HOST = ("obs", "ep_return", "ep_length")
_ENDED = {"ep_returns": np.float64, "ep_lengths": np.int64}  # arrays of any length


class Frozen(NamedTuple):
    """The content of a carry, except for what `start` builds from its arguments."""

    learner: dict[str, np.ndarray]  # path of each leaf -> array
    host: dict[str, np.ndarray]  # observations, returns, lengths, surplus rows, tally, actions
    facts: dict[str, Any]  # counters and lists that JSON can hold
    rows: dict[str, np.ndarray] | None  # rows `first` .. `stop` of each field of the replay buffer
    first: int = 0
    stop: int = 0


def freeze(carry: Carry, since: int = 0, copy: bool = True) -> Frozen:
    """Copy the content of a carry to the host.

    Args:
        carry: The carry to copy.
        since: First row of the replay buffer to include.
        copy: Whether to copy the rows of the replay buffer too. Otherwise they may share memory
            with the carry, so use them before the next `advance`. Copying a million rows takes as
            long as writing them to disk.
    """
    carry.refuse_stale()
    learner = _list_leaves(unreplicate(carry.learner))
    host = {name: read_own(getattr(carry, name)) for name in _HOST}
    host["tally"] = np.asarray(unreplicate(carry.tally))
    host |= {f"surplus.{k}": np.array(v) for k, v in list_arrays(carry.surplus).items()}
    facts: dict[str, Any] = {name: getattr(carry, name) for name in _COUNTERS}
    host |= {name: np.array(getattr(carry, name), dtype) for name, dtype in _ENDED.items()}
    if names := carry.schedule.log_info:
        host["ep_infos"] = np.array(carry.ep_infos, np.float64).reshape(-1, len(names))
    if isinstance(carry.envs, JaxEnvs):
        host |= _list_episodes(carry)
    else:
        facts["episodes"], actions, facts["digests"] = carry.envs.list_episodes()
        host |= generators.read_if_new(carry.envs.generators)
        host |= {f"actions.{i}": taken for i, taken in enumerate(actions)}
    if isinstance(carry, OnPolicyCarry):
        return Frozen(learner, host, facts, None)
    if isinstance(carry, OffPolicyCarry) and carry.next_act is not None:
        host["next_act"] = np.array(carry.next_act)
    host |= _list_returns(carry.buffer)
    stop = _count_rows(carry)
    data = unreplicate(carry.buffer.data)
    first = max(since, stop - len(data.rew))
    rows = {
        name: _read_ring(np.asarray(x), first, stop, copy) for name, x in list_arrays(data).items()
    }
    return Frozen(learner, host, facts, rows, first, stop)


def thaw(carry: Carry, frozen: Frozen) -> tuple[Carry, list[int]]:
    """Fill a new carry from `start` with the content of a snapshot.

    Args:
        carry: A carry of the same algorithm, spec, schedule, seed and environments.
        frozen: The snapshot, with all rows that the replay buffer held. Older rows are ignored.

    Returns:
        The carry, and the indices of environments whose episode could not be replayed exactly.
        They start a new episode.

    Raises:
        SnapshotMismatch: if an array does not fit. The message names the first such array.
    """
    old = unreplicate(carry.learner)
    leaves = _fit_arrays("learner", _list_leaves(old), frozen.learner)
    learner = jax.tree.unflatten(jax.tree.structure(old), [jnp.asarray(x) for x in leaves])
    wanted = {name: read_own(getattr(carry, name)) for name in _HOST}
    wanted["tally"] = np.asarray(unreplicate(carry.tally))
    fitted = _fit_arrays("host ", wanted, frozen.host)
    fields: dict[str, Any] = dict(zip(wanted, fitted, strict=True))
    devices = carry.schedule.devices
    fields["tally"] = replicate(jnp.asarray(fields["tally"]), devices)
    rows = {name: np.empty(0, dtype) for name, dtype in _ENDED.items()}
    rows |= {f"surplus.{k}": x for k, x in list_arrays(carry.surplus).items()}
    if names := carry.schedule.log_info:
        rows["ep_infos"] = np.empty((0, len(names)))
    if isinstance(carry.envs, JaxEnvs):
        playing = _list_episodes(carry)
        saved = _fit_arrays("host ", playing, frozen.host)
        leaves, tree = jax.tree.flatten(carry.episodes)
        arrays = [_wrap_like(old, x) for old, x in zip(leaves, saved, strict=True)]
        fields["episodes"] = split_rows(jax.tree.unflatten(tree, arrays), devices)
        actions: list[np.ndarray] = []
    else:
        actions = carry.envs.list_episodes()[1]
        rows |= {f"actions.{i}": x for i, x in enumerate(actions)}
    if "next_act" in frozen.host:
        rows["next_act"] = carry.surplus.act
    long = {k: x for k, x in frozen.host.items() if k not in wanted}
    _fit_arrays("host ", _drop_rows(rows), _drop_rows(long))
    fields |= {name: tuple(long[name].tolist()) for name in _ENDED}
    if names:
        fields["ep_infos"] = tuple(map(tuple, long["ep_infos"].tolist()))
    surplus = {name: long[f"surplus.{name}"] for name in list_arrays(carry.surplus)}
    fields["surplus"] = make_rows(surplus)
    fields |= _check_counters(frozen.facts, len(actions))
    if not isinstance(carry, OnPolicyCarry):
        fields["buffer"] = _fill_replay(carry, frozen)
    carry = dataclasses.replace(carry, learner=replicate(learner, devices), **fields)
    if isinstance(carry.envs, JaxEnvs):
        return carry, []
    actions = [long[f"actions.{i}"] for i in range(len(actions))]
    numbers, digests = frozen.facts["episodes"], frozen.facts.get("digests")
    carry, lost = replay_episodes(carry, numbers, actions, digests)
    carry = cut_episodes(carry, lost)
    if "next_act" in long and not lost:
        steps.set_next_act(carry, long["next_act"])
    generators.restore(frozen.host)  # after the replay, which may draw from them
    return carry, lost


def replay_episodes(
    carry: Carry, numbers: list[int], actions: list[np.ndarray], digests: list[int] | None
) -> tuple[Carry, list[int]]:
    """Bring the environments of a carry to its observations; return those that could not."""
    saved = Episodes(numbers, actions, carry.obs, carry.ep_return, carry.ep_length, digests)
    envs = carry.get_gym_envs()
    obs, lost = envs.replay_episodes(saved)
    envs.calls = carry.calls
    if not lost:
        return carry, []
    ep_return, ep_length = carry.ep_return.copy(), carry.ep_length.copy()
    ep_return[lost] = ep_length[lost] = 0
    return dataclasses.replace(carry, obs=obs, ep_return=ep_return, ep_length=ep_length), lost


def cut_episodes(carry: Carry, lost: list[int]) -> Carry:
    """Truncate the episodes of environments in the replay buffer, if it looks beyond one row."""
    if not lost or not isinstance(carry.buffer, return_replay.ReturnReplay):
        return carry
    return dataclasses.replace(carry, buffer=return_replay.cut_episodes(carry.buffer, lost))


def replay_advance(carry: Carry) -> tuple[Carry, list[int]]:
    """Bring environments to where an interrupted advance found them; return those that cannot.

    They start new episodes. `cut_episodes` tells that to the replay buffer.
    """
    envs = carry.get_gym_envs()
    if not envs.has_moved:
        return carry, []
    marks = envs.mark_episodes()
    try:
        carry, lost = replay_episodes(carry, *envs.list_episodes())
    except BaseException:
        envs.rewind(marks)
        raise
    if lost:
        warnings.warn(
            f"an interrupted advance has moved environments {lost}, whose episodes cannot be "
            f"replayed exactly. They start new episodes.",
            EpisodesLost,
            stacklevel=4,
        )
    return carry, lost


def select_shared(carry: Carry) -> dict[str, Any]:
    """Return the parts that must be equal on all ranks: the learner, and counters as strings."""
    counters = {name: str(getattr(carry, name)) for name in _COUNTERS}
    return {"learner": unreplicate(carry.learner), **counters}


def _check_counters(facts: dict[str, Any], number: int) -> dict[str, int]:
    """Return the counters, after checking them and the numbers of the episodes in progress."""
    values = [(name, facts.get(name)) for name in _COUNTERS]
    for name in ("episodes", "digests") if number else ():
        found = facts.get(name, [0] * number if name == "digests" else None)  # old ones have none
        if not isinstance(found, list) or len(found) != number:
            raise SnapshotMismatch(
                f"{name} must be a list with a number for each of {number} episodes, got {found!r}."
            )
        values += [(name, one) for one in found]
    for name, value in values:
        if not isinstance(value, int) or not 0 <= value < 2**63:
            raise SnapshotMismatch(f"{name} must be an integer of at least 0, got {value!r}.")
    return {name: facts[name] for name in _COUNTERS}


def _count_rows(carry: OffPolicyCarry | SequenceCarry) -> int:
    """Return how many rows this rank has added to its replay buffer: transitions, or sequences."""
    length = carry.schedule.rollout_length if isinstance(carry, SequenceCarry) else 1
    return carry.steps // (carry.ranks * length)


def _fill_replay(
    carry: OffPolicyCarry | SequenceCarry, frozen: Frozen
) -> replay.Replay | goals.GoalReplay:
    """Build a replay buffer with every row at its old position."""
    if frozen.rows is None:
        raise SnapshotMismatch("the replay buffer is missing.")
    data = unreplicate(carry.buffer.data)
    capacity = len(data.rew)
    first = max(0, frozen.stop - capacity)
    if frozen.first > first or len(frozen.rows["rew"]) != frozen.stop - frozen.first:
        raise SnapshotMismatch(
            f"the replay buffer must hold rows {first} .. {frozen.stop}, got "
            f"{len(frozen.rows['rew'])} rows from row {frozen.first} on."
        )
    empty = _drop_rows(list_arrays(data))
    _fit_arrays("replay ", empty, _drop_rows(frozen.rows))
    returns, given, filled = _list_returns(carry.buffer), frozen.rows, {}
    if returns:
        given = given | {"truncated": _find_cuts(given, carry.schedule.num_envs)}
    for name, none in empty.items():
        kept = given[name][first - frozen.first :]
        start = first % capacity
        tail = min(len(kept), capacity - start)  # the other rows go to the beginning of the ring
        filled[name] = np.zeros((capacity, *none.shape[1:]), none.dtype)
        filled[name][start : start + tail] = kept[:tail]
        filled[name][: len(kept) - tail] = kept[tail:]
    arrays = {name: jnp.asarray(x) for name, x in filled.items()}
    rows = SequenceBatch(**arrays) if isinstance(data, SequenceBatch) else make_rows(arrays)
    place = jnp.int32(frozen.stop % capacity), jnp.int32(min(frozen.stop, capacity))
    ring: replay.Replay | goals.GoalReplay = replay.Replay(rows, *place)
    if returns:
        ret, moments = map(jnp.asarray, _fit_arrays("host ", returns, frozen.host))
        ring = dataclasses.replace(
            carry.buffer, data=rows, position=place[0], stored=place[1], ret=ret, moments=moments
        )
    if isinstance(rows, ExtendedTransition) and isinstance(carry.buffer, goals.GoalReplay):
        ring = goals.rebuild(rows, *place, carry.schedule.num_envs)
    return replicate_own(ring, carry.schedule.devices)


def _find_cuts(rows: dict[str, np.ndarray], number: int) -> np.ndarray:
    """Return which rows end by truncation, also where an episode was lost after an interruption.

    The files of a checkpoint may have been written before that. The next row of such an
    environment begins with another observation. `number` is the number of environments.
    """
    differs = rows["next_obs"][:-number] != rows["obs"][number:]
    lost = differs.any(axis=tuple(range(1, differs.ndim))) & ~rows["terminated"][:-number]
    truncated = rows["truncated"].copy()
    truncated[:-number] |= lost
    return truncated


def _read_ring(x: np.ndarray, first: int, stop: int, copy: bool) -> np.ndarray:
    """Return the rows `first` .. `stop` of a ring, where row i is at i modulo its length."""
    start, number = first % len(x), stop - first
    tail = x[start : start + number]
    if len(tail) == number and not copy:
        return tail
    return np.concatenate([tail, x[: number - len(tail)]])


def _list_returns(buffer: Any) -> dict[str, np.ndarray]:
    """Return the running returns of a return replay buffer and their moments."""
    if not isinstance(buffer, return_replay.ReturnReplay):
        return {}
    return {f"buffer.{name}": read_own(getattr(buffer, name)) for name in ("ret", "moments")}


def _list_episodes(carry: Carry) -> dict[str, np.ndarray]:
    """Return the episodes in progress of environments in JAX."""
    return {f"episodes{path}": x for path, x in _list_leaves(carry.episodes).items()}


def _list_leaves(tree: Any) -> dict[str, np.ndarray]:
    pairs = jax.tree_util.tree_leaves_with_path(tree)
    return {jax.tree_util.keystr(path): read_own(leaf) for path, leaf in pairs}


def _wrap_like(old: Any, x: np.ndarray) -> jax.Array:
    """Return an array on the device, as keys if the old ones were keys."""
    if not _is_key(old):
        return jnp.asarray(x)
    return jax.random.wrap_key_data(jnp.asarray(x), impl=jax.random.key_impl(old))


def _is_key(x: Any) -> bool:
    return jnp.issubdtype(jnp.result_type(x), jax.dtypes.prng_key)


def _drop_rows(fields: dict[str, Any]) -> dict[str, np.ndarray]:
    """Return arrays without their rows, to compare the rest of their shapes."""
    return {name: x[:0] if np.ndim(x) else x for name, x in fields.items()}


def _fit_arrays(
    what: str, wanted: dict[str, np.ndarray], given: dict[str, np.ndarray]
) -> list[np.ndarray]:
    """Return the given arrays in the wanted order, if each has the wanted shape and dtype."""
    for name, x in wanted.items():
        if name not in given:
            raise SnapshotMismatch(f"{what}{name} is missing.")
        found = given[name]
        if (found.shape, found.dtype) != (x.shape, x.dtype):
            raise SnapshotMismatch(
                f"{what}{name} must be {x.dtype} of shape {x.shape}, got {found.dtype} of shape "
                f"{found.shape}."
            )
    extra = sorted(set(given) - set(wanted))
    if extra and what != "host ":
        raise SnapshotMismatch(f"{what}{extra[0]} is not part of this run.")
    return [np.array(given[name]) for name in wanted]
