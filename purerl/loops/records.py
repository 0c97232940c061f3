"""Records of an epoch: returns and lengths of episodes, and means of the metrics."""

import dataclasses
import functools
import itertools
from collections.abc import Callable, Generator, Iterable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from purerl import mpi
from purerl.errors import Diverged
from purerl.loops import adapters
from purerl.loops.carry import Carry, OffPolicyCarry, Record
from purerl.loops.devices import init_tally, unreplicate
from purerl.loops.metrics import merge_tallies, read_tally
from purerl.types import Rows, map_rows

SMALL = 16_384  # numbers of an array that is checked together with others
SHOWN = 3  # most arrays to name in an error
_CHECKED = ("params", "opt_state")  # fields of a learner


def allocate_rows(row: Rows, *leading: int) -> Rows:
    """Allocate uninitialised NumPy arrays `[*leading, ...]` for the fields of a row."""
    return map_rows(lambda x: np.empty((*leading, *x.shape), x.dtype), row)


class Episodes:
    """Returns, lengths and logged values of episodes while the environments are stepped."""

    def __init__(self, carry: Carry) -> None:
        self.ep_return, self.ep_length = carry.ep_return.copy(), carry.ep_length.copy()
        self.returns, self.lengths = list(carry.ep_returns), list(carry.ep_lengths)
        self.infos = list(carry.ep_infos)

    def add(self, step: adapters.Step) -> None:
        """Count one step of all environments."""
        for i in count_step(step, self.ep_return, self.ep_length):
            self.returns.append(float(self.ep_return[i]))
            self.lengths.append(int(self.ep_length[i]))
            self.ep_return[i] = self.ep_length[i] = 0
        self.infos += step.logged

    def drop(self) -> None:
        """Discard the episodes in progress."""
        self.ep_return[:] = self.ep_length[:] = 0

    def to_fields(self) -> dict[str, Any]:
        """Return the statistics as fields of a carry."""
        return {
            "ep_return": self.ep_return,
            "ep_length": self.ep_length,
            "ep_returns": tuple(self.returns),
            "ep_lengths": tuple(self.lengths),
            "ep_infos": tuple(self.infos),
        }


def count_step(step: adapters.Step, ep_return: np.ndarray, ep_length: np.ndarray) -> list[int]:
    """Add a step to the episodes in progress, in place; return the indices of those that ended."""
    if step.valid is None:
        ep_return += step.rows.rew
        ep_length += 1
    else:
        ep_return += step.rows.rew * step.valid
        ep_length += step.valid
    return step.ended


def is_epoch_over(carry: Carry) -> bool:
    """Return whether an epoch or the run ends at this carry."""
    schedule = carry.schedule
    return carry.steps % schedule.steps_per_epoch == 0 or carry.steps == schedule.steps


def count_episodes(carry: Carry, step: adapters.Step) -> dict[str, Any]:
    """Return the fields of a carry that one step of all environments changes."""
    if step.ended or step.valid is not None:
        episodes = Episodes(carry)
        episodes.add(step)
        return episodes.to_fields()
    return {"ep_return": carry.ep_return + step.rows.rew, "ep_length": carry.ep_length + 1}


def close_epoch(carry: Carry) -> tuple[Carry, Record]:
    """Make the record of an epoch over all ranks, and start the statistics of the next one.

    The record is the same on all ranks. It has the means of the metrics and the episodes that
    ended.
    """
    if carry.ranks > 1:
        mpi.assert_in_sync(unreplicate(carry.learner), f"the learner after {carry.updates} updates")
    tally = np.asarray(carry.tally, np.float64)
    mine = (tally, carry.ep_returns, carry.ep_lengths, carry.ep_infos)
    tallies, ep_returns, ep_lengths, ep_infos = zip(*mpi.allgather(mine), strict=True)
    total = functools.reduce(functools.partial(merge_tallies, xp=np), tallies)
    record: Record = {
        "epoch": carry.epoch + 1,
        "steps": carry.steps,
        "updates": carry.updates,
        "ep_returns": list(itertools.chain(*ep_returns)),
        "ep_lengths": list(itertools.chain(*ep_lengths)),
        **name_info("ep", carry.schedule.log_info, itertools.chain(*ep_infos)),
        **read_tally(carry.metrics, total, single=carry.ranks),
    }
    if isinstance(carry, OffPolicyCarry):
        began = (carry.steps - 1) // carry.schedule.steps_per_epoch * carry.schedule.steps_per_epoch
        random = min(carry.steps, carry.schedule.start_steps) - began
        record |= {"random_steps": random} if random > 0 else {}
    carry = dataclasses.replace(
        carry,
        tally=init_tally(len(carry.metrics), carry.schedule.devices),
        ep_returns=(),
        ep_lengths=(),
        ep_infos=(),
        epoch=carry.epoch + 1,
    )
    return carry, record


def finish(
    carry: Carry, env: Any, advance: Callable[..., Any], evaluate: Callable[..., Record]
) -> Generator[Record, None, Carry]:
    """Continue a run to its end with the functions of a loop; yield one record per epoch.

    Args:
        carry: The carry to start from. Its environments are closed at the end.
        env: What makes or is the environment of the test episodes.
        advance: Function `advance` of the loop.
        evaluate: Function `evaluate` of the loop.
    """
    try:
        while carry.steps < carry.schedule.steps:
            carry, record = advance(carry)
            if record is None:
                continue
            if carry.schedule.num_test_episodes:
                record |= evaluate_epoch(carry, env, evaluate)
            yield record
        return carry
    finally:
        carry.envs.close()


def evaluate_epoch(
    carry: Carry,
    env: Any,
    evaluate: Callable[..., Record],
    should_stop: Callable[[], bool] = lambda: False,
) -> Record:
    """Play the schedule's test episodes on all ranks; return their returns and lengths.

    If `should_stop` ended the evaluation of a rank, the record is empty.
    """
    schedule = carry.schedule
    own: Record = {"test_returns": [], "test_lengths": []}
    own |= name_info("test", schedule.log_info, ())
    episodes = len(range(carry.rank, schedule.num_test_episodes, carry.ranks))
    if episodes:
        args = (carry.seed, carry.epoch, episodes, schedule.max_ep_len, True)
        params, rest = carry.learner.params, (should_stop, schedule.log_info)
        own = evaluate(carry.algo, params, env, *args, *rest)
    everyone = mpi.allgather(own)
    if not all(everyone):  # a rank was stopped
        return {}
    return {name: [x for one in everyone for x in one[name]] for name in own}


def name_info(
    kind: str, names: Sequence[str], logged: Iterable[tuple[float, ...]]
) -> dict[str, list[float]]:
    """Return the logged values of episodes by name, as `ep_success` or `test_success`."""
    rows = list(logged)
    return {f"{kind}_{name}": [row[k] for row in rows] for k, name in enumerate(names)}


def check_learner(carry: Carry, updates: int, finite: Any) -> None:
    """Raise `Diverged` if the last `updates` updates produced numbers that are not finite."""
    if finite:  # the only value that each burst copies from the device
        return
    means = zip(carry.metrics, np.asarray(carry.tally)[1], strict=True)
    bad = [name for name, x in means if not np.isfinite(x)]
    if not bad:
        numbers = list_numbers(unreplicate(carry.learner))
        arrays = [name.lstrip(".") for name, x in numbers.items() if not np.isfinite(x).all()]
        bad = arrays[:SHOWN]
        bad += [f"and {len(arrays) - SHOWN} more"] if len(arrays) > SHOWN else []
    raise Diverged(
        f"learning diverged between updates {carry.updates - updates} and {carry.updates} "
        f"(environment step {carry.steps}): {', '.join(bad)} not finite. Lower the learning rates "
        f"or scale the rewards."
    )


def list_numbers(learner: Any) -> dict[str, jax.Array]:
    """Return the arrays of a learner that must be finite, by their paths.

    These are all parameters, and the arrays of the optimizers. If a second moment of Adam is
    infinite, its parameters stay finite but never change again. A scalar of an optimizer may be
    infinite, because it may be a bound or the norm of a skipped gradient. Only if a parameter of
    its group is a scalar too, it may be a moment.
    """
    states = learner.opt_state if isinstance(learner.opt_state, dict) else {}
    scalars = {
        (jax.tree_util.DictKey(group),)
        for group in states
        if not all(map(jnp.ndim, jax.tree.leaves(getattr(learner.params, group, ()))))
    }
    found = {}
    for path, x in jax.tree_util.tree_leaves_with_path(learner):
        is_param, is_moment = (path[0] == jax.tree_util.GetAttrKey(name) for name in _CHECKED)
        is_moment = is_moment and (jnp.ndim(x) > 0 or path[1:2] in scalars)
        if (is_param or is_moment) and jnp.issubdtype(x.dtype, jnp.inexact):
            found[jax.tree_util.keystr(path)] = x
    return found


def are_all_finite(tree: Any) -> jax.Array:
    """Return whether all numbers of a tree are finite, as a boolean on the device.

    A sum of floats is several times as fast on CPUs as `all`. Small arrays are checked as one,
    because each sum costs a microsecond.
    """
    leaves = jax.tree.leaves(tree)
    small = [x.ravel() for x in leaves if x.size <= SMALL]
    arrays = [x for x in leaves if x.size > SMALL] + ([jnp.concatenate(small)] if small else [])
    bad = [jnp.where(jnp.isfinite(x), 0.0, 1.0).sum() for x in arrays]
    return jnp.stack(bad).sum() == 0
