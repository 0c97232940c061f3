"""The thin Python loop over Gymnasium environments, with its whole state in one carry.

    carry = start(algo, spec, env_fn, schedule, seed)
    carry, record = advance(carry)     # one burst (off-policy), one rollout (on-policy)
    for record in run(...): ...        # one record per epoch

Transitions are collected in NumPy. The device gets them in blocks of one fixed size, and one
compiled call learns from each block. Printing, saving and evaluating happen outside, between two
calls of `advance`.
"""

import warnings
from collections.abc import Callable, Generator
from types import ModuleType
from typing import Any

import numpy as np

from purerl import algos, checks, mpi, rng
from purerl.buffers.goals import make_example
from purerl.errors import AdvanceStopped, CountsRounded, EpisodesLost, NonFiniteError
from purerl.loops import adapters, devices, faults, offpolicy, onpolicy, records, snapshot
from purerl.loops.acting import make_test_policy
from purerl.loops.carry import Carry, OffPolicyCarry, OnPolicyCarry, Record, SequenceCarry
from purerl.loops.hindsight.rewards import Relabelling, inspect_env
from purerl.schedules import (
    ResolvedOffPolicySchedule,
    ResolvedOnPolicySchedule,
    ResolvedSchedule,
    ResolvedSequenceSchedule,
    Schedule,
    choose_her,
    describe_rounding,
)

__all__ = [
    "Carry",
    "Record",
    "advance",
    "evaluate",
    "evaluate_epoch",
    "finish",
    "run",
    "start",
]


def start(
    algo: ModuleType,
    spec: Any,
    env_fn: Callable[[], Any],
    schedule: Schedule,
    seed: int,
) -> Carry:
    """Build the learner, the replay buffer and the environments, and reset the environments.

    Args:
        algo: A module of `purerl.algos`, its name, or a custom algorithm.
        spec: Settings of the algorithm, its `Spec`.
        env_fn: Function that returns a new Gymnasium environment; it is called
            `schedule.num_envs` times. Or a function that returns one vector environment of that
            size.
        schedule: Schedule of the class of `algo.SCHEDULE`. Counts are rounded up to what fits.
        seed: Integer in 0 .. 2**32 - 1. Seed and other arguments together determine the run.
    """
    checks.seed(seed)
    devices.check_platform()
    algo = algos.load(algo)
    algos.check_settings(algo, spec, schedule)
    ranks, rank = mpi.num_procs(), mpi.proc_id()
    resolved = choose_her(schedule, spec.env.goal_size).resolve(ranks)
    replays_goals = isinstance(resolved, ResolvedOffPolicySchedule) and resolved.her
    if rounded := describe_rounding(schedule, resolved):
        warnings.warn(rounded, CountsRounded, stacklevel=2)
    # Check on every rank before any rank allocates memory.
    devices.check_memory(spec.env, resolved, None, ranks)
    devices.check_world(algo, spec, resolved, seed)
    envs = adapters.make_envs(
        env_fn,
        resolved.num_envs,
        lambda i, episode: rng.host_seed(seed, rank, "env", i, episode),
        resolved.max_ep_len,
        adapters.InfoRequest(resolved.log_info, algos.find_stored_info(algo, spec), replays_goals),
    )
    try:
        _check_env(spec, envs)
        if isinstance(envs, adapters.SingleEnvs):
            faults.check_env(envs.envs[0], spec, needs_limit=resolved.max_ep_len is None)
        else:
            faults.check_env(envs.env, spec, needs_limit=False)
        resolved, relabelling = inspect_env(spec, resolved, envs, schedule.log_info is None)
        return _init_carry(algo, spec, resolved, seed, envs, relabelling)
    except BaseException:
        envs.close()  # the caller has no carry to close them with
        raise


def _init_carry(
    algo: ModuleType,
    spec: Any,
    schedule: ResolvedSchedule,
    seed: int,
    envs: adapters.Envs,
    relabelling: Relabelling | None,
) -> Carry:
    """Build the first carry of a run; the class of the schedule decides its class."""
    ranks, rank, number = mpi.num_procs(), mpi.proc_id(), schedule.num_envs
    words = np.array([seed, rank], np.uint32)
    if isinstance(schedule, ResolvedOnPolicySchedule):
        onpolicy.check_cut(schedule, envs)
        learner = onpolicy.init(algo, spec, words)
        metrics = onpolicy.list_metrics(algo, learner, schedule)
    else:
        goal_envs = number if relabelling else 0
        rows = schedule.replay_size // ranks
        learner, buffer = offpolicy.init(algo, spec, rows, words, goal_envs)
        metrics = offpolicy.list_metrics(algo, learner, buffer, schedule.batch_size)
    row = make_example(spec.env) if relabelling else algos.make_row(algo, spec)
    fields: dict[str, Any] = {
        **{"algo": algo, "seed": seed, "rank": rank, "ranks": ranks, "envs": envs},
        "obs": envs.reset(),
        "learner": devices.replicate(mpi.sync(learner), schedule.devices),
        "metrics": metrics,
        "tally": devices.init_tally(len(metrics), schedule.devices),
        "surplus": records.allocate_rows(row, 0),
        "ep_return": np.zeros(number),
        "ep_length": np.zeros(number, np.int64),
    }
    if isinstance(schedule, ResolvedSequenceSchedule) and schedule.replay_ratio:
        buffer = onpolicy.make_buffer(algo, learner, schedule, ranks)
        buffer = devices.replicate(buffer, schedule.devices)
        return SequenceCarry(schedule=schedule, buffer=buffer, **fields)
    if isinstance(schedule, ResolvedOnPolicySchedule):
        return OnPolicyCarry(schedule=schedule, **fields)
    buffer = devices.replicate(buffer, schedule.devices)
    return OffPolicyCarry(schedule=schedule, buffer=buffer, relabelling=relabelling, **fields)


def advance(
    carry: Carry, should_stop: Callable[[], bool] | None = None
) -> tuple[Carry, Record | None]:
    """Continue a run by one burst (off-policy), or by one rollout and its updates (on-policy).

    An off-policy advance ends at the next multiple of `update_every`, end of an epoch or end of the
    run, whichever comes first. An on-policy advance is one rollout and its updates.

    If `should_stop` returns True between two steps of the environments on any rank, this advance is
    discarded: the same carry is returned, without a record. The next advance from it, also after an
    exception in `advance`, first replays the episodes in progress.

    Returns:
        The new carry, and a record if an epoch ended, else None. A record has `epoch`, `steps` and
        `updates`, and the `ep_returns` and `ep_lengths` of the episodes that ended. It also has
        the mean of each metric over the updates that computed it. A metric that no update computed
        is absent. A metric with several values in an epoch also has `_std`, `_min` and `_max`. The
        statistics of `val` are over the steps of the epoch. If the epoch had random first steps,
        `random_steps` is their number. For each NAME in `schedule.log_info`,
        `ep_NAME` is a list with the values of the episodes that ended.
    """
    schedule = carry.schedule
    if carry.is_stale:
        raise ValueError(
            "this carry was consumed by an earlier advance. Continue with the carry that advance "
            "returned."
        )
    if carry.steps >= schedule.steps:
        raise ValueError(
            f"the run is complete: {carry.steps} of {schedule.steps} steps are done. Start a run "
            f"with more steps to train longer."
        )
    moved = _collect_and_learn(carry, should_stop)
    if moved is None:
        return carry, None
    carry = moved
    ended = carry.steps % schedule.steps_per_epoch == 0 or carry.steps == schedule.steps
    return records.close_epoch(carry) if ended else (carry, None)


def _collect_and_learn(carry: Carry, should_stop: Callable[[], bool] | None) -> Carry | None:
    """Return the next carry, or None if the advance was stopped."""
    envs = carry.envs
    if envs.has_moved:  # an earlier advance from this carry was interrupted
        carry, lost = snapshot.replay_episodes(carry, *envs.list_episodes())
        if lost:
            warnings.warn(
                f"an interrupted advance has moved environments {lost}, whose episodes cannot be "
                f"replayed exactly. They start new episodes.",
                EpisodesLost,
                stacklevel=3,
            )
    marks, envs.has_moved = envs.mark_episodes(), True
    try:
        if isinstance(carry, OffPolicyCarry):
            carry = offpolicy.advance(carry, should_stop)
        else:
            carry = onpolicy.advance(carry, should_stop)
    except BaseException as error:
        envs.rewind(marks)
        if isinstance(error, AdvanceStopped):
            return None
        raise
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
    schedule = carry.schedule
    try:
        while carry.steps < schedule.steps:
            carry, record = advance(carry)
            if record is None:
                continue
            if schedule.num_test_episodes:
                record |= evaluate_epoch(carry, env_fn)
            yield record
        return carry
    finally:
        carry.envs.close()


def evaluate_epoch(
    carry: Carry, env_fn: Callable[[], Any], should_stop: Callable[[], bool] = lambda: False
) -> Record:
    """Play the schedule's test episodes on all ranks; return their returns and lengths.

    If `should_stop` returns True between two steps, the evaluation ends and the record is empty.
    """
    schedule = carry.schedule
    own: Record = {"test_returns": [], "test_lengths": []}
    own |= records.name_info("test", schedule.log_info, ())
    episodes = len(range(carry.rank, schedule.num_test_episodes, carry.ranks))
    if episodes:
        args = (carry.seed, carry.epoch, episodes, schedule.max_ep_len, True)
        params, rest = carry.learner.params, (should_stop, schedule.log_info)
        own = evaluate(carry.algo, params, env_fn, *args, *rest)
    everyone = mpi.allgather(own)
    if not all(everyone):  # a rank was stopped
        return {}
    return {name: [x for one in everyone for x in one[name]] for name in own}


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
        _check_env(params.spec, envs)
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


def _check_env(spec: Any, envs: adapters.Envs) -> None:
    """Refuse environments with other spaces than the spec."""
    if envs.spec != spec.env:
        raise ValueError(
            f"spec.env must equal the spaces of the environment, {envs.spec}, got {spec.env}. Make "
            f"the spec with EnvSpec.of(env), or use the environment that it was made for."
        )
