"""The memory of a run, and what both kinds of loop do with it."""

import dataclasses
import functools
import itertools
from collections.abc import Callable
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from purerl import mpi, rng
from purerl.buffers import replay
from purerl.errors import Diverged, NonFiniteError
from purerl.loops import metrics as tally
from purerl.loops import vector
from purerl.types import OffPolicySchedule, OnPolicySchedule, Transition

Record = dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Carry:
    """Everything a run needs to go on; `advance` consumes it, since environments move."""

    algo: ModuleType
    schedule: OffPolicySchedule | OnPolicySchedule  # with every None filled in
    seed: int
    rank: int
    ranks: int
    learner: Any  # equal on all ranks and devices
    buffer: replay.Replay | None  # off-policy
    metrics: tuple[str, ...]  # names of what is tallied
    tally: jax.Array  # of the metrics since the last record, on the device
    envs: vector.Envs  # with their episodes in progress
    obs: np.ndarray  # [N, ...], to act on next
    surplus: Transition  # rows beyond the last border; only NEXT_STEP environments leave any
    ep_return: np.ndarray  # [N] float64, of the episodes in progress
    ep_length: np.ndarray  # [N] int64
    ep_returns: tuple[float, ...] = ()  # of this rank's episodes that ended since the last record
    ep_lengths: tuple[int, ...] = ()
    steps: int = 0  # transitions handed to the device, over all ranks
    calls: int = 0  # of the environments' step, on this rank
    updates: int = 0
    epoch: int = 0  # records so far


def faster(**options: Any) -> Callable[[Any], Any]:
    """Return `jax.jit` with those of XLA's faster options that the installed version knows.

    Whole registers on CPUs that have them and fewer copies around a conditional make 3-7 % of a
    burst; the lower level of LLVM compiles half a second faster and runs as fast.
    """
    known: dict[str, Any] = {}
    for name, value in _FASTER.items():
        try:
            jax.jit(lambda: 0, compiler_options={name: value}).lower().compile()
        except jax.errors.JaxRuntimeError:
            continue
        known[name] = value
    return functools.partial(jax.jit, compiler_options=known, **options)


ONCE = {"xla_backend_optimization_level": 0}  # for programs run rarely: halves their compile time
_FASTER = {
    "xla_cpu_prefer_vector_width": 512,
    "xla_cpu_copy_insertion_use_region_analysis": True,
    "xla_backend_optimization_level": 2,
}


def spread(body: Callable[..., Any], devices: int) -> Callable[..., Any]:
    """Return a function whose body runs on several devices, each with all of the arguments.

    The axis `mpi.AXIS` is bound in it, so that `mpi.own_rows` and averages work.
    """
    return jax.shard_map(body, mesh=_mesh(devices), in_specs=P(), out_specs=P(), check_vma=False)


def placed(tree: Any, devices: int) -> Any:
    """Return a tree of which each device has a copy."""
    return tree if devices == 1 else jax.device_put(tree, NamedSharding(_mesh(devices), P()))


@functools.cache
def _mesh(devices: int) -> Mesh:
    return Mesh(np.array(jax.local_devices()[:devices]), (mpi.AXIS,))


def local(params: Any) -> Any:
    """Return the first device's copy, for programs that run on one device."""
    leaves = jax.tree.leaves(params)
    if not leaves or not isinstance(leaves[0], jax.Array) or len(leaves[0].devices()) == 1:
        return params
    return jax.tree.map(lambda x: x.addressable_data(0), params)


def act(carry: Carry, params: Any, obs: np.ndarray, calls: int) -> np.ndarray:
    """Act with the key `stream(seed, rank, "act", calls)`: one program from NumPy to NumPy.

    Args:
        carry: whose algorithm, seed and rank count.
        params: the learner's, as `local` returns them.
        obs: `[N, ...]`.
        calls: of the environments' step before this one.
    """
    key = _act_keys(carry.seed, carry.rank, calls - calls % _KEYS)[calls % _KEYS]
    return np.asarray(_act(carry.algo, params, obs, key))


_KEYS = 256  # derived at once: one by one, a key costs a third of an acting call


@functools.lru_cache(maxsize=8)
def _act_keys(seed: int, rank: int, first: int) -> np.ndarray:
    """Return the data of the keys of `_KEYS` calls from `first` on."""
    words = np.array([seed, rank, first >> 32, first & 0xFFFFFFFF], np.uint32)
    return np.asarray(_derive(words))


@functools.partial(jax.jit, compiler_options=ONCE)
def _derive(words: jax.Array) -> jax.Array:
    def one(low: jax.Array) -> jax.Array:
        key = rng.stream(words[0], words[1], "act", jnp.stack([words[2], low]))
        return jax.random.key_data(key)

    return jax.vmap(one)(words[3] + jnp.arange(_KEYS, dtype=jnp.uint32))


@functools.partial(jax.jit, static_argnums=0)
def _act(algo: ModuleType, params: Any, obs: Any, key: Any) -> jax.Array:
    return algo.act(params, obs, jax.random.wrap_key_data(key))


def no_tally(number: int, devices: int) -> jax.Array:
    """Return the tally of no update, on the device."""
    return placed(jax.device_put(tally.empty(number)), devices)


def words(carry: Carry, counter: int) -> np.ndarray:
    """Pack what derives a key: one small array into a jitted call."""
    high, low = counter >> 32, counter & 0xFFFFFFFF
    return np.array([carry.seed, carry.rank, high, low], np.uint32)


def rows(row: Transition, *leading: int) -> Transition:
    """Allocate rows `[*leading, ...]` in NumPy."""
    return Transition(*(np.empty((*leading, *x.shape), x.dtype) for x in row))


class Episodes:
    """Returns and lengths of episodes, in progress and finished, while environments are stepped."""

    def __init__(self, carry: Carry) -> None:
        self.ep_return, self.ep_length = carry.ep_return.copy(), carry.ep_length.copy()
        self.returns, self.lengths = list(carry.ep_returns), list(carry.ep_lengths)

    def add(self, step: vector.Step) -> None:
        """Count one step of all environments."""
        for i in count(step, self.ep_return, self.ep_length):
            self.returns.append(float(self.ep_return[i]))
            self.lengths.append(int(self.ep_length[i]))
            self.ep_return[i] = self.ep_length[i] = 0

    def drop(self) -> None:
        """Forget the episodes in progress."""
        self.ep_return[:] = self.ep_length[:] = 0

    def fields(self) -> dict[str, Any]:
        """Return them as fields of a carry."""
        return {
            "ep_return": self.ep_return,
            "ep_length": self.ep_length,
            "ep_returns": tuple(self.returns),
            "ep_lengths": tuple(self.lengths),
        }


def count(step: vector.Step, ep_return: np.ndarray, ep_length: np.ndarray) -> list[int]:
    """Add a step to the episodes in progress, in place; return the environments that ended one."""
    if step.valid is None:
        ep_return += step.rows.rew
        ep_length += 1
    else:
        ep_return += step.rows.rew * step.valid
        ep_length += step.valid
    return step.ended


def check_rows(rows: Transition, who: np.ndarray, steps: int, ranks: int) -> None:
    """Refuse numbers that are not finite, before they reach the device.

    Args:
        rows: new ones, `[R, ...]`.
        who: environment of each.
        steps: environment steps before the first of them, over all ranks.
        ranks: how many there are.
    """
    bad = {
        name: int((~np.isfinite(new)).reshape(len(new), -1).any(axis=1).argmax())
        for name, new in rows._asdict().items()
        if new.dtype.kind == "f" and not np.isfinite(new).all()
    }
    if bad:
        name = min(bad, key=bad.__getitem__)
        row = bad[name]
        raise NonFiniteError(
            f"{name} of environment {who[row]} is not finite at environment step "
            f"{steps + row * ranks + 1}: {getattr(rows, name)[row]}. Nothing of this block was "
            f"stored."
        )


def check_learner(carry: Carry, updates: int, finite: Any) -> None:
    """Refuse what `updates` updates made of a learner if not everything in it is finite."""
    if finite:  # the only value read off the device per burst
        return
    means = zip(carry.metrics, np.asarray(carry.tally)[1], strict=True)
    bad = [name for name, x in means if not np.isfinite(x)]
    raise Diverged(
        f"learning diverged between updates {carry.updates} and {carry.updates + updates} "
        f"(environment step {carry.steps}): {', '.join(bad) or 'parameters'} not finite. Lower "
        f"the learning rates or scale the rewards."
    )


def all_finite(tree: Any) -> jax.Array:
    """Say on the device whether all numbers of a tree are finite."""
    return jnp.stack([jnp.isfinite(x).all() for x in jax.tree.leaves(tree)]).all()


def record(carry: Carry) -> tuple[Carry, Record]:
    """Close the epoch: means of the metrics, finished episodes, and a carry that starts anew.

    Over all ranks, and the same on all of them.
    """
    if carry.ranks > 1:
        mpi.assert_in_sync(local(carry.learner), f"the learner after {carry.updates} updates")
    mine = (np.asarray(carry.tally, np.float64), carry.ep_returns, carry.ep_lengths)
    tallies, ep_returns, ep_lengths = zip(*mpi.allgather(mine), strict=True)
    total = functools.reduce(functools.partial(tally.merge, xp=np), tallies)
    record: Record = {
        "epoch": carry.epoch + 1,
        "steps": carry.steps,
        "updates": carry.updates,
        "ep_returns": list(itertools.chain(*ep_returns)),
        "ep_lengths": list(itertools.chain(*ep_lengths)),
        **tally.read(carry.metrics, total, single=carry.ranks),
    }
    carry = dataclasses.replace(
        carry,
        tally=no_tally(len(carry.metrics), carry.schedule.devices),
        ep_returns=(),
        ep_lengths=(),
        epoch=carry.epoch + 1,
    )
    return carry, record
