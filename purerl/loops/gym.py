"""The thin Python loop over Gymnasium environments, with its whole memory in one carry.

    carry = start(algo, spec, env_fn, schedule, seed)
    carry, record = advance(carry)     # one burst (off-policy), one rollout and update (on-policy)
    for record in run(...): ...        # one record per epoch

Transitions are staged in NumPy and handed to the device in blocks of one fixed size; one jitted,
donating call learns from them. Printing, saving and evaluating happen between two calls of
`advance`, outside.
"""

import importlib.metadata
import os
import re
import warnings
from collections.abc import Callable, Generator
from types import ModuleType
from typing import Any

import jax
import numpy as np

from purerl import checks, mpi, rng
from purerl.errors import EpisodesCut, NonFiniteError
from purerl.loops import devices, offpolicy, onpolicy, records, vector
from purerl.loops.acting import make_test_policy
from purerl.loops.carry import Carry, Record
from purerl.schedules import OffPolicySchedule, OnPolicySchedule

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

Schedule = OffPolicySchedule | OnPolicySchedule


def start(
    algo: ModuleType,
    spec: Any,
    env_fn: Callable[[], Any],
    schedule: Schedule,
    seed: int,
) -> Carry:
    """Build learner, replay memory and environments, and reset the environments.

    Args:
        algo: a module of `purerl.algos`; one with `prepare` is on-policy.
        spec: its `Spec`.
        env_fn: returns a Gymnasium environment, called `schedule.num_envs` times, or one vector
            environment of that many.
        schedule: when to act and learn, of the kind of `algo.SCHEDULE`.
        seed: 0 .. 2**32 - 1; with the rest of the arguments it determines the run.
    """
    checks.seed(seed)
    if not hasattr(algo, "Spec"):
        raise ValueError(f"algo must be a module such as purerl.algos.sac, got {algo!r}.")
    checks.spec(spec, algo.Spec)
    kind = OnPolicySchedule if hasattr(algo, "prepare") else OffPolicySchedule
    if not isinstance(schedule, kind):
        raise ValueError(
            f"schedule of {algo.__name__} must be an {kind.__name__}, got {schedule!r}."
        )
    ranks, rank = mpi.num_procs(), mpi.proc_id()
    schedule = schedule.resolve(ranks)
    devices.check_memory(
        spec.env, schedule, None, ranks
    )  # on all ranks before one of them takes any of it
    _check_world(algo, spec, schedule, seed)
    envs = vector.make(
        env_fn,
        schedule.num_envs,
        lambda i, episode: rng.host_seed(seed, rank, "env", i, episode),
        schedule.max_ep_len,
    )
    try:
        _check_env(spec, envs)
        words = np.array([seed, rank], np.uint32)
        buffer = None
        if isinstance(schedule, OnPolicySchedule):
            length = schedule.steps_per_epoch // ranks // schedule.num_envs
            _check_cut(schedule, envs, length)
            learner = onpolicy.init(algo, spec, words)
            shape = (length, schedule.num_envs, schedule.devices)
            metrics = onpolicy.list_metrics(algo, learner, *shape)
        else:
            learner, buffer = offpolicy.init(algo, spec, schedule.replay_size // ranks, words)
            metrics = offpolicy.list_metrics(algo, learner, buffer, schedule.batch_size)
        obs = envs.reset()
    except BaseException:
        envs.close()  # nobody else will
        raise
    return Carry(
        algo=algo,
        schedule=schedule,
        seed=seed,
        rank=rank,
        ranks=ranks,
        learner=devices.replicate(mpi.sync(learner), schedule.devices),
        buffer=devices.replicate(buffer, schedule.devices),
        metrics=metrics,
        tally=devices.init_tally(len(metrics), schedule.devices),
        envs=envs,
        obs=obs,
        surplus=records.allocate_rows(spec.env.example(), 0),
        ep_return=np.zeros(schedule.num_envs),
        ep_length=np.zeros(schedule.num_envs, np.int64),
    )


def advance(carry: Carry) -> tuple[Carry, Record | None]:
    """Go on by one burst (off-policy), or by one rollout and update (on-policy).

    Off-policy that is up to the next multiple of `update_every`, end of an epoch or of the run.

    Returns:
        The new carry, and a record where an epoch ended, else None: `epoch`, `steps`, `updates`,
        `ep_returns` and `ep_lengths` of the episodes that ended in it, and the means of the
        metrics over the updates that computed them, absent where none did; with several values
        in an epoch also their `_std`, `_min` and `_max`. Those of `val` are over its steps.
    """
    schedule = carry.schedule
    device = carry.learner if carry.buffer is None else carry.buffer  # what every call donates
    if any(leaf.is_deleted() for leaf in jax.tree.leaves(device)):
        raise ValueError("this carry was consumed by an earlier advance; go on with its result.")
    if carry.steps >= schedule.steps:
        raise ValueError(f"the run is complete: {carry.steps} of {schedule.steps} steps are done.")
    if isinstance(schedule, OnPolicySchedule):
        return records.close_epoch(onpolicy.advance(carry))
    carry = offpolicy.advance(carry)
    ended = carry.steps % schedule.steps_per_epoch == 0 or carry.steps == schedule.steps
    return records.close_epoch(carry) if ended else (carry, None)


def run(
    algo: ModuleType,
    spec: Any,
    env_fn: Callable[[], Any],
    schedule: Schedule,
    seed: int,
) -> Generator[Record, None, Carry]:
    """Train from start to end; yields one record per epoch, returns the last carry.

    With `schedule.num_test_episodes` each record also has `test_returns` and `test_lengths`.
    """
    return (yield from finish(start(algo, spec, env_fn, schedule, seed), env_fn))


def finish(carry: Carry, env_fn: Callable[[], Any]) -> Generator[Record, None, Carry]:
    """Go on from a carry to the end of its run, as `run` does; closes its environments."""
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


def evaluate_epoch(carry: Carry, env_fn: Callable[[], Any]) -> Record:
    """Evaluate as the schedule of a carry says, with the test episodes divided over ranks."""
    schedule = carry.schedule
    own: Record = {"test_returns": [], "test_lengths": []}
    episodes = len(range(carry.rank, schedule.num_test_episodes, carry.ranks))
    if episodes:
        args = (carry.seed, carry.epoch, episodes, schedule.max_ep_len)
        own = evaluate(carry.algo, carry.learner.params, env_fn, *args)
    everyone = mpi.allgather(own)
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
) -> Record:
    """Play whole episodes in environments of their own.

    Args:
        algo: module with `policy`.
        params: of the learner.
        env_fn: as in `start`; a vector environment plays its episodes side by side.
        seed: of the run; the episodes' seeds come from the stream `eval` and `epoch`.
        epoch: number of the evaluation.
        episodes: how many on this rank, divided over the environments beforehand, so that short
            episodes do not count more often.
        max_ep_len: cut episodes at this length, or None for the environment's own limit.
        deterministic: act by `policy`; else by `act`, with a key of the stream `eval` per step.

    Returns:
        `test_returns` and `test_lengths`.
    """
    checks.integer("episodes", episodes, 1)
    checks.integer("epoch", epoch, 0)
    checks.seed(seed)
    rank, params = mpi.proc_id(), devices.unreplicate(params)
    envs = vector.make(
        env_fn, None, lambda i, n: rng.host_seed(seed, rank, "eval", epoch, i, n), max_ep_len
    )
    number = envs.num_envs
    left = np.array([episodes // number + (i < episodes % number) for i in range(number)])
    ep_return, ep_length = np.zeros(number), np.zeros(number, np.int64)
    returns: list[float] = []
    lengths: list[int] = []
    acting = make_test_policy(algo, params, None if deterministic else (seed, rank, epoch))
    try:
        _check_env(params.spec, envs)
        obs = envs.reset()
        while left.any():
            step = envs.step(obs, acting(obs))
            obs = step.obs
            for i in records.count_step(step, ep_return, ep_length):
                if left[i]:
                    if not np.isfinite(ep_return[i]):
                        raise NonFiniteError(f"the return of environment {i} is {ep_return[i]}.")
                    left[i] -= 1
                    returns.append(float(ep_return[i]))
                    lengths.append(int(ep_length[i]))
                ep_return[i] = ep_length[i] = 0
    finally:
        envs.close()
    return {"test_returns": returns, "test_lengths": lengths}


def _check_env(spec: Any, envs: vector.Envs) -> None:
    if envs.spec != spec.env:
        raise ValueError(f"spec.env must be that of env_fn, {envs.spec}, got {spec.env}.")


def _check_world(algo: ModuleType, spec: Any, schedule: Schedule, seed: int) -> None:
    """Refuse devices that are not there, and ranks that were not started alike."""
    there = jax.local_device_count()
    if schedule.devices > there:
        raise ValueError(
            f"devices is {schedule.devices} and JAX sees {there}. On a CPU, "
            f"purerl.setup(devices={schedule.devices}) before the first computation makes as many."
        )
    if schedule.devices > 1 and mpi.num_procs() > 1:
        raise ValueError(
            f"devices={schedule.devices} and {mpi.num_procs()} ranks do not go together: each "
            f"device would call MPI. Start one rank per device, with devices=1."
        )
    if mpi.num_procs() > 1:
        about = {
            "algorithm": algo.__name__,
            "spec": re.sub(r" at 0x[0-9a-f]+", "", repr(spec)),
            "schedule": repr(schedule),
            "seed": str(seed),
            "threads": os.environ.get("NPROC", "all"),
        }
        packages = ("purerl", "jax", "jaxlib", "flax", "optax", "gymnasium", "numpy")
        about |= {name: importlib.metadata.version(name) for name in packages}
        mpi.assert_in_sync(about, "what they were started with")


def _check_cut(schedule: OnPolicySchedule, envs: vector.Envs, length: int) -> None:
    """Refuse environments that cannot start anew, warn of episodes longer than a rollout."""
    if schedule.continue_episodes:
        return
    if not isinstance(envs, vector.OwnEnvs):
        raise ValueError(
            "continue_episodes=False needs environments that the loop resets, not a vector "
            "environment: return single ones from env_fn and set num_envs, or set "
            "continue_episodes=True."
        )
    own = getattr(getattr(envs.envs[0], "spec", None), "max_episode_steps", None)
    limit = min((n for n in (own, schedule.max_ep_len) if n is not None), default=0)
    if limit > length:
        warnings.warn(
            f"with continue_episodes=False episodes of more than {length:,} steps are cut at the "
            f"end of a rollout and start anew, and here they may have {limit:,}: REINFORCE, which "
            f"learns only from episodes that end, learns nothing if all are that long; raise "
            f"steps_per_epoch or lower num_envs.",
            EpisodesCut,
            stacklevel=3,
        )
