"""The loop over environments in JAX: `start`, `advance`, `run` and `evaluate`."""

import typing
from collections.abc import Callable, Generator, Sequence
from dataclasses import replace
from types import ModuleType
from typing import Any

import jax
import numpy as np

from purerl import algos, mpi, rng
from purerl.envs.protocol import JaxEnv
from purerl.errors import EnvFault, NonFiniteError
from purerl.loops import devices, faults, first_carry, onpolicy, records
from purerl.loops.adapters import in_jax
from purerl.loops.adapters.in_jax import JaxEnvs
from purerl.loops.carry import Carry, OffPolicyCarry, Record, SequenceCarry
from purerl.loops.hindsight import rewards
from purerl.loops.hindsight.rewards import Relabelling, has_clipped_targets
from purerl.loops.onpolicy import RolloutCarry
from purerl.loops.scan import programs, sharing, stepping
from purerl.loops.scan.evaluation import evaluate
from purerl.loops.scan.programs import BurstPlan, BurstTimes, Outcome, RolloutPlan
from purerl.loops.scan.stepping import Clock, World
from purerl.loops.seeds.together import (
    Data,
    Together,
    check_learners,
    check_seeds,
    close_epochs,
    join,
    name_seed,
    read_data,
    refuse_devices,
    write_data,
)
from purerl.schedules import (
    ResolvedOffPolicySchedule,
    ResolvedOnPolicySchedule,
    ResolvedSchedule,
    Schedule,
)

MOST_ROWS = 2**16  # transitions of a program, unless a rollout is longer


@typing.overload
def start(algo: ModuleType, spec: Any, env: JaxEnv, schedule: Schedule, seed: int) -> Carry: ...


@typing.overload
def start(
    algo: ModuleType, spec: Any, env: JaxEnv, schedule: Schedule, *, seeds: Sequence[int]
) -> Together: ...


def start(
    algo: ModuleType,
    spec: Any,
    env: JaxEnv,
    schedule: Schedule,
    seed: int | None = None,
    seeds: Sequence[int] | None = None,
) -> Carry | Together:
    """Build the learner and the replay buffer, and reset the environments.

    Args:
        algo: A module of `purerl.algos`, its name, or a custom algorithm.
        spec: Settings of the algorithm, its `Spec`.
        env: Environment in JAX, for example `purerl.envs.classic.cartpole.CartPole()`.
        schedule: Schedule of the class of `algo.SCHEDULE`. Counts are rounded up to what fits.
        seed: Integer in 0 .. 2**32 - 1. Seed and other arguments together determine the run.
        seeds: Several seeds instead of one, which one program trains together.

    Returns:
        A carry; with `seeds` the carries of all seeds, for `advance` and `split`.
    """
    several = check_seeds(seed, seeds)
    if seeds is not None:
        refuse_devices(schedule)
    copies = 1 if seeds is None else 2 * len(several)  # `join` copies all of them
    algo, env = algos.load(algo), in_jax.check_env(env)
    resolved = first_carry.resolve_schedule(algo, spec, schedule, several[0], copies, in_jax=True)
    if spec.env != env.spec:
        raise ValueError(
            f"spec.env must equal the spaces of the environment, {env.spec}, got {spec.env}. Make "
            f"the spec with Spec(env.spec), or use the environment that it was made for."
        )
    sharing.check_devices(resolved)
    resolved, relabelling = rewards.inspect_jax_env(spec, resolved, env, schedule.log_info is None)
    max_steps = in_jax.limit_steps(env, resolved.max_ep_len)
    envs = JaxEnvs(env, resolved.num_envs, max_steps)
    if isinstance(resolved, ResolvedOnPolicySchedule):
        first_carry.check_cut(resolved, envs)
    made = [_make_carry(algo, spec, resolved, envs, relabelling, one) for one in several]
    return made[0] if seeds is None else join(made)


def _make_carry(
    algo: ModuleType,
    spec: Any,
    schedule: ResolvedSchedule,
    envs: JaxEnvs,
    relabelling: Relabelling | None,
    seed: int,
) -> Carry:
    """Build the first carry of one seed."""
    world = _describe_world(algo, spec, schedule, envs)
    words = np.array([seed, mpi.proc_id()], np.uint32)
    whole = world._replace(num_envs=envs.num_envs, devices=1)
    episodes = stepping.reset(whole, envs.env.params, words)
    episodes = sharing.split_episodes(episodes, world)
    fields: dict[str, Any] = {
        "ep_return": episodes.ret,
        "ep_length": episodes.length,
        "episodes": episodes,
    }
    args = (algo, spec, schedule, seed, envs, episodes.obs, relabelling)
    return first_carry.make_carry(*args, **fields)


def _describe_world(
    algo: ModuleType, spec: Any, schedule: ResolvedSchedule, envs: JaxEnvs
) -> World:
    """Return what programs need to know of the environments."""
    goals = isinstance(schedule, ResolvedOffPolicySchedule) and schedule.her
    stored = algos.find_stored_info(algo, spec) or {}
    store = tuple(stepping.Stored(name, x.shape, str(x.dtype)) for name, x in stored.items())
    kinds = (goals, has_clipped_targets(spec))
    number = envs.num_envs // schedule.devices
    how = (schedule.log_info, store, *kinds, schedule.devices)
    return World(envs.env, number, envs.max_steps, *how)


@typing.overload
def advance(
    carry: Carry, should_stop: Callable[[], bool] | None = None
) -> tuple[Carry, Record | None]: ...


@typing.overload
def advance(
    carry: Together, should_stop: Callable[[], bool] | None = None
) -> tuple[Together, list[Record] | None]: ...


def advance(carry: Any, should_stop: Callable[[], bool] | None = None) -> Any:
    """Continue a run by one compiled program, at most to the end of the epoch.

    The first programs are short. The next ones take about half a second each, so that a run can be
    stopped soon. The number of steps of a program never changes the results.

    Args:
        carry: The carry, which is consumed; or the carries of several seeds.
        should_stop: Ignored: a program is never interrupted.

    Returns:
        The new carry, and a record as of `purerl.loops.gym.advance` if an epoch ended, else None.
        With several seeds it is a list with the record of each.
    """
    first = carry.carries[0] if isinstance(carry, Together) else carry
    schedule, envs = first.schedule, first.get_jax_envs()
    carry.refuse_stale()
    if first.steps >= schedule.steps:
        raise ValueError(
            f"the run is complete: {first.steps} of {schedule.steps} steps are done. Start a run "
            f"with more steps to train longer."
        )
    if isinstance(carry, Together):
        return _advance_together(carry, envs)
    steps, program = _plan_program(carry, envs)
    data, outcome = program(read_data(carry), _read_clock(carry))
    outcome = jax.device_get(devices.unreplicate(outcome))
    envs.pace.note_steps(steps)
    carry = _note_outcome(write_data(carry, data), outcome, steps)
    records.check_learner(carry, int(outcome.updates), outcome.finite)
    return records.close_epoch(carry) if records.is_epoch_over(carry) else (carry, None)


def _advance_together(together: Together, envs: JaxEnvs) -> tuple[Together, list[Record] | None]:
    """Continue the runs of all seeds by one program."""
    carries = together.carries
    steps, program = _plan_program(carries[0], envs, is_together=True)
    clocks = jax.tree.map(lambda *x: np.stack(x), *map(_read_clock, carries))
    clocks = clocks._replace(rank=clocks.rank[0], calls=clocks.calls[0])
    data, outcome = program(together.data, clocks)
    outcome = jax.device_get(outcome)
    envs.pace.note_steps(steps)
    made, failed = list(carries), {}
    for i, carry in enumerate(carries):
        try:
            with name_seed(carry.seed):
                made[i] = _note_outcome(carry, jax.tree.map(lambda x, i=i: x[i], outcome), steps)
        except (EnvFault, NonFiniteError) as error:
            failed[i] = error
    together = Together(tuple(made), data)
    check_learners(together, outcome.updates.tolist(), outcome.finite, failed)
    return close_epochs(together)


def _plan_program(
    carry: Carry, envs: JaxEnvs, is_together: bool = False
) -> tuple[int, Callable[[Data, Clock], tuple[Data, Outcome]]]:
    """Return the number of steps of each environment in the next program, and the program."""
    schedule, stride = carry.schedule, carry.ranks * envs.num_envs
    epoch = schedule.steps_per_epoch
    border = min(carry.steps - carry.steps % epoch + epoch, schedule.steps)
    left = (border - carry.steps) // stride
    if isinstance(schedule, ResolvedOffPolicySchedule):
        unit = schedule.update_every // stride
    else:
        unit = schedule.rollout_length
    most = max(unit, MOST_ROWS // envs.num_envs // unit * unit)
    steps = envs.pace.choose_steps(unit, min(left, most))
    if carry.ranks > 1:
        steps = int(mpi.pmin(steps))
    world = _describe_world(carry.algo, carry.learner.params.spec, schedule, envs)
    args: tuple[Any, ...]
    times: Any
    if isinstance(carry, OffPolicyCarry):
        run = programs.compile_bursts(is_together)
        plan, times = _plan_bursts(carry, stride, steps)
        args = (carry.algo, world, plan, most)
    else:
        run = programs.compile_rollouts(is_together)
        args, times = (carry.algo, world, _plan_rollouts(carry), most), np.int32(steps // unit)
    return steps, lambda data, clock: run(*args, data, envs.env.params, clock, times)


def _note_outcome(carry: Carry, outcome: Outcome, steps: int) -> Carry:
    """Return a carry with the counters and the episodes after a program; refuse bad rows."""
    _check_rows(carry, outcome.fault)
    ended = outcome.ends.ended
    # XLA does not split an array without numbers, as `infos` may be, over ranks.
    ends = jax.tree.map(lambda x: x[:, : ended.shape[1]][ended], outcome.ends)
    return replace(
        carry,
        ep_returns=carry.ep_returns + tuple(ends.returns.tolist()),
        ep_lengths=carry.ep_lengths + tuple(ends.lengths.tolist()),
        ep_infos=carry.ep_infos + tuple(map(tuple, ends.infos.tolist())),
        steps=carry.steps + steps * carry.ranks * carry.envs.num_envs,
        calls=carry.calls + steps,
        updates=carry.updates + int(outcome.updates),
    )


def _read_clock(carry: Carry) -> Clock:
    words = (rng.words(carry.calls), rng.words(carry.updates))
    return Clock(np.uint32(carry.seed), np.uint32(carry.rank), *words)


def collect(carry: Carry, length: int) -> Any:
    """Collect the next rows `[length, N, ...]` without learning; the carry stays as it is."""
    schedule, envs = carry.schedule, carry.get_jax_envs()
    stride = carry.ranks * envs.num_envs
    world = _describe_world(carry.algo, carry.learner.params.spec, schedule, envs)
    random = 0
    if isinstance(schedule, ResolvedOffPolicySchedule):
        random = max(schedule.start_steps - carry.steps, 0) // stride
    world = world._replace(num_envs=envs.num_envs, devices=1)
    data = jax.device_put((carry.learner, carry.episodes), jax.local_devices()[0])
    args = (*data, envs.env.params, _read_clock(carry), np.int32(random))
    return programs.collect_rows(carry.algo, world, length, *args)


def _plan_bursts(carry: OffPolicyCarry, stride: int, steps: int) -> tuple[BurstPlan, BurstTimes]:
    """Return how an off-policy program learns, and when."""
    schedule, done = carry.schedule, carry.steps // stride
    every = schedule.update_every // stride
    plan = BurstPlan(every, schedule.updates_per_burst, schedule.batch_size, carry.relabelling)
    random, quiet = (
        min(max(count - carry.steps, 0) // stride, steps + 1)
        for count in (schedule.start_steps, schedule.update_after)
    )
    place = carry.calls * carry.envs.num_envs % len(carry.buffer.data.rew)
    return plan, BurstTimes(*map(np.int32, (steps, done % every, random, quiet, place)))


def _plan_rollouts(carry: RolloutCarry) -> RolloutPlan:
    """Return how an on-policy program collects and learns."""
    schedule, replayed = carry.schedule, None
    if isinstance(carry, SequenceCarry):
        replayed = onpolicy.plan_replay(carry.schedule, carry.ranks)
    return RolloutPlan(schedule.rollout_length, schedule.continue_episodes, replayed)


def _check_rows(carry: Carry, fault: stepping.Fault) -> None:
    """Refuse the row of a fault: a number that is not finite, or a reward that is not sparse."""
    place, number = fault.place.item(), carry.envs.num_envs
    if place < 0:
        return
    first = carry.steps + place * carry.ranks
    faults.check_rows(fault.row, np.array([place % number]), first, carry.ranks)
    faults.check_sparse(fault.row.rew, first, carry.ranks)


def run(
    algo: ModuleType,
    spec: Any,
    env: JaxEnv,
    schedule: Schedule,
    seed: int,
    eval_env: JaxEnv | None = None,
) -> Generator[Record, None, Carry]:
    """Train from start to end; yield one record per epoch, and return the last carry.

    With `schedule.num_test_episodes` each record also has `test_returns` and `test_lengths`, of
    episodes in `eval_env`, or else in `env`.
    """
    return (yield from finish(start(algo, spec, env, schedule, seed), eval_env or env))


def finish(carry: Carry, env: JaxEnv) -> Generator[Record, None, Carry]:
    """Continue a run from a carry to its end, as `run` does; test episodes are in `env`."""
    return (yield from records.finish(carry, env, advance, evaluate))


def evaluate_epoch(
    carry: Carry, env: JaxEnv, should_stop: Callable[[], bool] = lambda: False
) -> Record:
    """Play the schedule's test episodes on all ranks; return their returns and lengths.

    If `should_stop` returns True between two programs, the evaluation ends and the record is empty.
    """
    return records.evaluate_epoch(carry, env, evaluate, should_stop)
