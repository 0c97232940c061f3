"""The thin Python loop over Gymnasium environments, with its whole state in one carry.

    carry = start(algo, spec, env_fn, schedule, seed)
    carry, record = advance(carry)     # one burst (off-policy), one rollout (on-policy)
    for record in run(...): ...        # one record per epoch

Transitions are collected in NumPy. The device gets them in blocks of one fixed size, and one
compiled call learns from each block. Printing, saving and evaluating happen outside, between two
calls of `advance`.

Several seeds can act and learn in one program, each in environments of its own:

    together = start(algo, spec, env_fn, schedule, seeds=range(4))
    together, records = advance(together)   # records: None, or one for each seed
    carries = split(together)
"""

import typing
from collections.abc import Callable, Generator, Sequence
from types import ModuleType
from typing import Any

import numpy as np

from purerl import algos, checks, mpi, rng
from purerl.errors import AdvanceStopped, NonFiniteError
from purerl.loops import (
    adapters,
    devices,
    faults,
    first_carry,
    offpolicy,
    onpolicy,
    records,
    snapshot,
)
from purerl.loops.acting import make_test_policy
from purerl.loops.carry import Carry, OffPolicyCarry, Record
from purerl.loops.hindsight.rewards import inspect_env
from purerl.loops.seeds import lockstep
from purerl.loops.seeds.together import (
    Together,
    check_seeds,
    close_epochs,
    join,
    refuse_devices,
    split,
)
from purerl.loops.stepwise import steps
from purerl.schedules import ResolvedOnPolicySchedule, Schedule

__all__ = [
    "Carry",
    "Record",
    "Together",
    "advance",
    "evaluate",
    "evaluate_epoch",
    "finish",
    "join",
    "run",
    "split",
    "start",
]


EnvFn = Callable[[], Any]


@typing.overload
def start(algo: ModuleType, spec: Any, env_fn: EnvFn, schedule: Schedule, seed: int) -> Carry: ...


@typing.overload
def start(
    algo: ModuleType,
    spec: Any,
    env_fn: EnvFn | Sequence[EnvFn],
    schedule: Schedule,
    *,
    seeds: Sequence[int],
) -> Together: ...


def start(
    algo: ModuleType,
    spec: Any,
    env_fn: EnvFn | Sequence[EnvFn],
    schedule: Schedule,
    seed: int | None = None,
    seeds: Sequence[int] | None = None,
) -> Carry | Together:
    """Build the learner, the replay buffer and the environments, and reset the environments.

    Args:
        algo: A module of `purerl.algos`, its name, or a custom algorithm.
        spec: Settings of the algorithm, its `Spec`.
        env_fn: Function that returns a new Gymnasium environment; it is called
            `schedule.num_envs` times. Or a function that returns one vector environment of that
            size. With `seeds` it is called for each seed. Or a list of one such function per seed.
        schedule: Schedule of the class of `algo.SCHEDULE`. Counts are rounded up to what fits.
        seed: Integer in 0 .. 2**32 - 1. Seed and other arguments together determine the run.
        seeds: Several seeds instead of one, which act and learn in one program. If their
            environments have goals and rewards in JAX, the functions of the first are used for all.

    Returns:
        A carry; with `seeds` the carries of all seeds, for `advance` and `split`.
    """
    several, is_alone = check_seeds(seed, seeds), seeds is None
    makers: Any = [env_fn] if is_alone else first_carry.list_makers(env_fn, len(several))
    algo = algos.load(algo)
    copies = 1 if is_alone else 2 * len(several)  # `join` copies all of them
    if not is_alone:
        refuse_devices(schedule)
    resolved = first_carry.resolve_schedule(algo, spec, schedule, several[0], copies)
    opened, made = list[adapters.GymEnvs](), list[Carry]()
    try:
        for i, one in enumerate(several):
            envs = first_carry.make_envs(algo, spec, makers[i], resolved, one)
            opened.append(envs)
            first_carry.check_spaces(spec, envs)
            first_carry.check_stride(resolved, envs)
            if is_new := makers[i] not in makers[:i]:  # warn once
                first_carry.check_wrappers(spec, envs, resolved)
            full, relabelling = inspect_env(spec, resolved, envs, schedule.log_info is None)
            if is_new and isinstance(full, ResolvedOnPolicySchedule):
                first_carry.check_cut(full, envs)
            obs = envs.reset()
            made.append(first_carry.make_carry(algo, spec, full, one, envs, obs, relabelling))
        return made[0] if is_alone else join(made)
    except BaseException:
        for envs in opened:  # the caller has no carry to close them with
            envs.close()
        raise


@typing.overload
def advance(
    carry: Carry, should_stop: Callable[[], bool] | None = None
) -> tuple[Carry, Record | None]: ...


@typing.overload
def advance(
    carry: Together, should_stop: Callable[[], bool] | None = None
) -> tuple[Together, list[Record] | None]: ...


def advance(carry: Any, should_stop: Callable[[], bool] | None = None) -> Any:
    """Continue a run by one burst (off-policy), or by one rollout and its updates (on-policy).

    An off-policy advance ends at the next multiple of `update_every`, end of an epoch or end of the
    run, whichever comes first. An on-policy advance is one rollout and its updates.

    If `should_stop` returns True between two steps of the environments on any rank, this advance is
    discarded, and the same carry is returned without a record. The next advance from it, also after
    an exception in `advance`, first replays the episodes in progress.

    Several seeds make their steps together. An error of one of them ends the advance of all, and
    has a note with the seed.

    Args:
        carry: The carry, which is consumed; or the carries of several seeds.
        should_stop: Function that ends the advance between two steps if it returns True.

    Returns:
        The new carry, and a record if an epoch ended, else None. A record has `epoch`, `steps` and
        `updates`, and the `ep_returns` and `ep_lengths` of the episodes that ended. It also has
        the mean of each metric over the updates that computed it. A metric that no update computed
        is absent. A metric with several values in an epoch also has `_std`, `_min` and `_max`. The
        statistics of `val` are over the steps of the epoch. If the epoch had random first steps,
        `random_steps` is their number. For each NAME in `schedule.log_info`,
        `ep_NAME` is a list with the values of the episodes that ended. With several seeds it is a
        list with the record of each.
    """
    carries = carry.carries if isinstance(carry, Together) else (carry,)
    first, schedule = carries[0], carries[0].schedule
    first.get_gym_envs()
    carry.refuse_stale()
    if first.steps >= schedule.steps:
        raise ValueError(
            f"the run is complete: {first.steps} of {schedule.steps} steps are done. Start a run "
            f"with more steps to train longer."
        )
    moved = _collect_and_learn(carry, carries, should_stop)
    if moved is None:
        return carry, None
    if isinstance(moved, Together):
        return close_epochs(moved)
    return records.close_epoch(moved) if records.is_epoch_over(moved) else (moved, None)


def _collect_and_learn(
    carry: Any, carries: Sequence[Carry], should_stop: Callable[[], bool] | None
) -> Any:
    """Return the next carry, or carries of several seeds; None if the advance was stopped."""
    several = [one.get_gym_envs() for one in carries]
    if any(envs.has_moved for envs in several):  # an earlier advance from here was interrupted
        is_alone = not isinstance(carry, Together)
        if is_alone:
            carry = snapshot.cut_episodes(*snapshot.replay_advance(carry))
        else:
            carry = lockstep.replay_advance(carry)
    before = [(envs, envs.calls, envs.mark_episodes()) for envs in several]
    for envs in several:
        envs.has_moved = True
    try:
        if isinstance(carry, Together):
            carry = lockstep.advance(carry, should_stop)
        elif isinstance(carry, OffPolicyCarry) and steps.applies(carry):
            carry = steps.advance(carry, should_stop)
        elif isinstance(carry, OffPolicyCarry):
            carry = offpolicy.advance(carry, should_stop)
        else:
            carry = onpolicy.advance(carry, should_stop)
    except BaseException as error:
        for envs, calls, marks in before:
            envs.calls = calls
            envs.rewind(marks)
        if isinstance(error, AdvanceStopped):
            return None
        raise
    for envs in several:
        envs.has_moved = False
    return carry


def run(
    algo: ModuleType,
    spec: Any,
    env_fn: Callable[[], Any],
    schedule: Schedule,
    seed: int,
    eval_env_fn: Callable[[], Any] | None = None,
) -> Generator[Record, None, Carry]:
    """Train from start to end; yield one record per epoch, and return the last carry.

    With `schedule.num_test_episodes` each record also has `test_returns` and `test_lengths`, of
    episodes in the environment of `eval_env_fn`, or else of `env_fn`.
    """
    carry = start(algo, spec, env_fn, schedule, seed)
    return (yield from finish(carry, eval_env_fn or env_fn))


def finish(carry: Carry, env_fn: Callable[[], Any]) -> Generator[Record, None, Carry]:
    """Continue a run from a carry to its end, as `run` does, and close the environments.

    `env_fn` makes the environment of the test episodes.
    """
    return (yield from records.finish(carry, env_fn, advance, evaluate))


def evaluate_epoch(
    carry: Carry, env_fn: Callable[[], Any], should_stop: Callable[[], bool] = lambda: False
) -> Record:
    """Play the schedule's test episodes on all ranks; return their returns and lengths.

    If `should_stop` returns True between two steps, the evaluation ends and the record is empty.
    """
    return records.evaluate_epoch(carry, env_fn, evaluate, should_stop)


def evaluate(
    algo: ModuleType,
    params: Any,
    env_fn: Callable[[], Any],
    seed: int,
    epoch: int,
    episodes: int,
    max_ep_len: int | None = None,
    deterministic: bool = True,
    should_stop: Callable[[], bool] = lambda: False,
    log_info: tuple[str, ...] = (),
) -> Record:
    """Play whole episodes in new environments.

    Args:
        algo: A module of `purerl.algos`.
        params: The learner's parameters.
        env_fn: Function that makes the environment, as in `start`. A vector environment plays
            several episodes at the same time.
        seed: Seed of the run. The seeds of the episodes are derived from it, from the stream
            `eval` and from `epoch`.
        epoch: Number of the evaluation.
        episodes: Number of episodes on this rank. They are divided over the environments before
            the first step, so that short episodes do not count more often.
        max_ep_len: Length at which episodes are cut, or None for the environment's own limit.
        deterministic: Whether to act by `policy`. Otherwise `act` samples, with one key per step.
        should_stop: Function that is called before each step; True ends the evaluation.
        log_info: Names of values of `info` to read from the last step of each episode.

    Returns:
        A dict of `test_returns` and `test_lengths`, and a list `test_NAME` for each name in
        `log_info`. It is empty if `should_stop` ended the evaluation.
    """
    checks.integer("episodes", episodes, 1)
    checks.integer("epoch", epoch, 0)
    checks.seed(seed)
    algo = algos.load(algo)
    rank, params = mpi.proc_id(), devices.unreplicate(params)
    envs = adapters.make_envs(
        env_fn,
        None,
        lambda i, n: rng.host_seed(seed, rank, "eval", epoch, i, n),
        max_ep_len,
        adapters.InfoRequest(log_info),
    )
    number = envs.num_envs
    left = np.array([episodes // number + (i < episodes % number) for i in range(number)])
    ep_return, ep_length = np.zeros(number), np.zeros(number, np.int64)
    returns: list[float] = []
    lengths: list[int] = []
    logged: list[tuple[float, ...]] = []
    acting = make_test_policy(algo, params, None if deterministic else (seed, rank, epoch))
    try:
        first_carry.check_spaces(params.spec, envs)
        obs = envs.reset()
        while left.any():
            if should_stop():
                return {}
            act = acting(obs)
            if faults.is_finite(obs) and not faults.is_finite(act):
                raise faults.explain_action("in a test episode", act, obs)
            step = envs.step(obs, act)
            obs = step.obs
            for k, i in enumerate(records.count_step(step, ep_return, ep_length)):
                if left[i]:
                    if not np.isfinite(ep_return[i]):
                        raise NonFiniteError(
                            f"the return of environment {i} is {ep_return[i]}, which is not "
                            f"finite. Correct the rewards of the environment."
                        )
                    left[i] -= 1
                    returns.append(float(ep_return[i]))
                    lengths.append(int(ep_length[i]))
                    logged += step.logged[k : k + 1]
                ep_return[i] = ep_length[i] = 0
    finally:
        envs.close()
    named = records.name_info("test", log_info, logged)
    return {"test_returns": returns, "test_lengths": lengths} | named
