"""The thin Python loop over Gymnasium environments, with its whole memory in one carry.

    carry = start(algo, spec, env_fn, schedule, seed)
    carry, record = advance(carry)          # one block of transitions, then one burst of updates
    for record in run(...): ...             # one record per epoch

Transitions are staged in NumPy and handed to the device in blocks of one fixed size; one jitted,
donating call adds the block to the replay memory and does the updates of the burst. Printing,
saving and evaluating happen between two calls of `advance`, outside.
"""

import dataclasses
import functools
from collections.abc import Callable, Generator
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from purerl import checks, mpi, rng
from purerl.buffers import replay
from purerl.loops import vector
from purerl.types import Box, EnvSpec, OffPolicySchedule, Transition

Record = dict[str, Any]


class NonFiniteError(FloatingPointError):
    """A number that is not finite came from an environment or out of an update."""


@dataclasses.dataclass(frozen=True)
class Carry:
    """Everything a run needs to go on; `advance` consumes it, since environments move."""

    algo: ModuleType
    schedule: OffPolicySchedule  # with every None filled in
    seed: int
    rank: int
    ranks: int
    learner: Any
    buffer: replay.Replay
    metrics: tuple[str, ...]  # names of the sums
    sums: jax.Array  # of each metric since the last record, on the device
    envs: vector.Envs  # with their episodes in progress
    obs: np.ndarray  # [N, ...], to act on next
    surplus: Transition  # rows beyond the last border; only NEXT_STEP environments leave any
    ep_return: np.ndarray  # [N] float64, of the episodes in progress
    ep_length: np.ndarray  # [N] int64
    ep_returns: tuple[float, ...] = ()  # of the episodes that ended since the last record
    ep_lengths: tuple[int, ...] = ()
    steps: int = 0  # transitions handed to the replay memory, over all ranks
    calls: int = 0  # of the environments' step, on this rank
    updates: int = 0
    updates_recorded: int = 0  # of them, up to the last record
    epoch: int = 0  # records so far


def start(
    algo: ModuleType,
    spec: Any,
    env_fn: Callable[[], Any],
    schedule: OffPolicySchedule,
    seed: int,
) -> Carry:
    """Build learner, replay memory and environments, and reset the environments.

    Args:
        algo: an off-policy module of `purerl.algos`.
        spec: its `Spec`.
        env_fn: returns a Gymnasium environment, called `schedule.num_envs` times, or one vector
            environment of that many.
        schedule: when to act and learn.
        seed: 0 .. 2**32 - 1; with the rest of the arguments it determines the run.
    """
    checks.seed(seed)
    if not isinstance(schedule, OffPolicySchedule):
        raise ValueError(f"schedule must be an OffPolicySchedule, got {schedule!r}.")
    ranks, rank = mpi.num_procs(), mpi.proc_id()
    schedule = schedule.resolve(ranks)
    envs = vector.make(
        env_fn,
        schedule.num_envs,
        lambda i, episode: rng.host_seed(seed, rank, "env", i, episode),
        schedule.max_ep_len,
    )
    try:
        _check_env(spec, envs)
        words = np.array([seed, rank], np.uint32)
        learner, buffer = _init(algo, spec, schedule.replay_size // ranks, words)
        metrics = _metric_names(algo, learner, buffer, schedule.batch_size)
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
        learner=mpi.broadcast(learner),
        buffer=buffer,
        metrics=metrics,
        sums=_zeros(len(metrics)),
        envs=envs,
        obs=obs,
        surplus=_rows(spec.env.example(), 0),
        ep_return=np.zeros(schedule.num_envs),
        ep_length=np.zeros(schedule.num_envs, np.int64),
    )


def advance(carry: Carry) -> tuple[Carry, Record | None]:
    """Collect transitions up to the next border, learn if a burst is due there.

    Borders are the multiples of `update_every`, the ends of epochs and the end of the run.

    Returns:
        The new carry, and a record where an epoch ended, else None: `epoch`, `steps`, `updates`,
        `ep_returns` and `ep_lengths` of the episodes that ended in it, and the means of the
        metrics over the updates that computed them, absent where none did.
    """
    schedule = carry.schedule
    assert schedule.update_every
    assert schedule.updates_per_burst
    if carry.buffer.position.is_deleted():
        raise ValueError("this carry was consumed by an earlier advance; go on with its result.")
    if carry.steps >= schedule.steps:
        raise ValueError(f"the run is complete: {carry.steps} of {schedule.steps} steps are done.")
    every, epoch = schedule.update_every, schedule.steps_per_epoch
    border = min(carry.steps - carry.steps % n + n for n in (every, epoch))
    border = min(border, schedule.steps)
    carry, block, count = _collect(carry, (border - carry.steps) // carry.ranks)
    due = border % every == 0 and border >= schedule.update_after
    number = schedule.updates_per_burst if due else 0
    learner, buffer, sums, finite = burst(
        carry.algo,
        number,
        schedule.batch_size,
        carry.learner,
        carry.buffer,
        carry.sums,
        block,
        count,
        _words(carry, carry.updates),
    )
    if not finite:  # the only value read off the device per burst
        bad = [
            n for n, x in zip(carry.metrics, np.asarray(sums), strict=True) if not np.isfinite(x)
        ]
        raise NonFiniteError(
            f"learning diverged between updates {carry.updates} and {carry.updates + number} "
            f"(environment step {border}): {', '.join(bad) or 'parameters'} not finite. Lower "
            f"the learning rates or scale the rewards."
        )
    carry = dataclasses.replace(
        carry,
        learner=learner,
        buffer=buffer,
        sums=sums,
        steps=border,
        updates=carry.updates + number,
    )
    ended = border % epoch == 0 or border == schedule.steps
    return _record(carry) if ended else (carry, None)


def run(
    algo: ModuleType,
    spec: Any,
    env_fn: Callable[[], Any],
    schedule: OffPolicySchedule,
    seed: int,
) -> Generator[Record, None, Carry]:
    """Train from start to end; yields one record per epoch, returns the last carry.

    With `schedule.num_test_episodes` each record also has `test_returns` and `test_lengths`.
    """
    carry = start(algo, spec, env_fn, schedule, seed)
    try:
        while carry.steps < schedule.steps:
            carry, record = advance(carry)
            if record is None:
                continue
            if episodes := schedule.num_test_episodes:
                params, limit = carry.learner.params, schedule.max_ep_len
                record |= evaluate(algo, params, env_fn, seed, carry.epoch, episodes, limit)
            yield record
        return carry
    finally:
        carry.envs.close()


def evaluate(
    algo: ModuleType,
    params: Any,
    env_fn: Callable[[], Any],
    seed: int,
    epoch: int,
    episodes: int,
    max_ep_len: int | None = None,
) -> Record:
    """Play whole episodes with the deterministic policy in environments of their own.

    Args:
        algo: module with `policy`.
        params: of the learner.
        env_fn: as in `start`; a vector environment plays its episodes side by side.
        seed: of the run; the episodes' seeds come from the stream `eval` and `epoch`.
        epoch: number of the evaluation.
        episodes: how many, divided over the environments beforehand, so that short episodes do
            not count more often.
        max_ep_len: cut episodes at this length, or None for the environment's own limit.

    Returns:
        `test_returns` and `test_lengths`.
    """
    checks.integer("episodes", episodes, 1)
    checks.integer("epoch", epoch, 0)
    checks.seed(seed)
    rank = mpi.proc_id()
    envs = vector.make(
        env_fn, None, lambda i, n: rng.host_seed(seed, rank, "eval", epoch, i, n), max_ep_len
    )
    number = envs.num_envs
    left = np.array([episodes // number + (i < episodes % number) for i in range(number)])
    ep_return, ep_length = np.zeros(number), np.zeros(number, np.int64)
    returns: list[float] = []
    lengths: list[int] = []
    try:
        _check_env(params.spec, envs)
        obs = envs.reset()
        while left.any():
            step = envs.step(obs, np.asarray(algo.policy(params, obs)))
            obs = step.obs
            for i in _count(step, ep_return, ep_length):
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


def burst(
    algo: ModuleType,
    updates: int,
    batch_size: int,
    learner: Any,
    buffer: replay.Replay,
    sums: jax.Array,
    block: Transition,
    count: Any,
    words: Any,
) -> tuple[Any, replay.Replay, jax.Array, jax.Array]:
    """Store a block, then sample and update `updates` times: the hot path, one compiled program.

    The same as `add` and then `sample` and `update` in a loop with the keys
    `split(stream(seed, rank, "sample", updates done before), updates)`; indices, rows and noise
    of all batches are drawn before the loop.

    Returns:
        Learner, buffer and sums, and whether all parameters and metrics are finite. All are
        donated; without updates the buffer alone.
    """
    static = (algo, updates, batch_size)
    if not updates:  # a learner that goes in and out of a program costs up to 0.4 ms
        buffer, finite = _compiled_burst()(*static, None, buffer, None, block, count, words)
        return learner, buffer, sums, finite
    result: tuple[Any, replay.Replay, jax.Array, jax.Array] = _compiled_burst()(
        *static, learner, buffer, sums, block, count, words
    )
    return result


@functools.cache
def _compiled_burst() -> Any:
    """Jit the burst with those of XLA's faster options that the installed version knows."""
    known: dict[str, Any] = {}
    for name, value in _FASTER.items():
        try:
            jax.jit(lambda: 0, compiler_options={name: value}).lower().compile()
        except jax.errors.JaxRuntimeError:
            continue
        known[name] = value
    return jax.jit(
        _burst, static_argnums=(0, 1, 2), donate_argnums=(3, 4, 5), compiler_options=known
    )


# Whole registers on CPUs that have them, and fewer copies around a conditional: 3-7 % of a burst.
_FASTER = {"xla_cpu_prefer_vector_width": 512, "xla_cpu_copy_insertion_use_region_analysis": True}


def _burst(
    algo: ModuleType,
    updates: int,
    batch_size: int,
    learner: Any,
    buffer: replay.Replay,
    sums: jax.Array,
    block: Transition,
    count: jax.Array,
    words: jax.Array,
) -> tuple[Any, ...]:
    buffer = replay.add(buffer, block, count)
    if not updates:
        return buffer, jnp.bool_(True)
    keys = jax.random.split(rng.stream(words[0], words[1], "sample", words[2:]), updates)
    batches = jax.vmap(functools.partial(_batch, algo, learner, buffer, batch_size))(keys)
    learner, info = jax.lax.scan(algo.update, learner, batches)
    sums = sums + jnp.stack([info[name].sum() for name in sorted(info)])
    checked = jax.tree.leaves((learner.params, sums))
    return learner, buffer, sums, jnp.stack([jnp.isfinite(x).all() for x in checked]).all()


def _batch(
    algo: ModuleType, learner: Any, buffer: replay.Replay, batch_size: int, key: jax.Array
) -> Any:
    batch = replay.sample(buffer, key, batch_size)
    if not algo.NOISE_DRAWS:
        return batch
    dim = learner.params.spec.env.act_dim
    return batch._replace(noise=rng.noise(batch, algo.NOISE_DRAWS, dim))


# Run once, so compile time is all that counts: level 0 halves it.
@functools.partial(
    jax.jit, static_argnums=(0, 1, 2), compiler_options={"xla_backend_optimization_level": 0}
)
def _init(algo: ModuleType, spec: Any, capacity: int, words: jax.Array) -> tuple[Any, Any]:
    learner = algo.init(rng.stream(words[0], words[1], "init"), spec)
    return learner, replay.init(spec.env.example(), capacity)


@functools.partial(jax.jit, static_argnums=0)
def _act(algo: ModuleType, params: Any, obs: Any, key: Any) -> jax.Array:
    return algo.act(params, obs, jax.random.wrap_key_data(key))


def _act_key(carry: Carry, call: int) -> np.ndarray:
    """Return the raw key `rng.stream(seed, rank, "act", call)`."""
    keys: np.ndarray = _act_keys(carry.seed, carry.rank, call - call % _KEYS)[call % _KEYS]
    return keys


_KEYS = 256  # derived at once: one by one, a key costs a third of an acting call


@functools.lru_cache(maxsize=8)
def _act_keys(seed: int, rank: int, first: int) -> np.ndarray:
    words = np.array([seed, rank, first >> 32, first & 0xFFFFFFFF], np.uint32)
    return np.asarray(_derive(words))


@jax.jit
def _derive(words: jax.Array) -> jax.Array:
    def one(low: jax.Array) -> jax.Array:
        key = rng.stream(words[0], words[1], "act", jnp.stack([words[2], low]))
        return jax.random.key_data(key)

    return jax.vmap(one)(words[3] + jnp.arange(_KEYS, dtype=jnp.uint32))


@functools.partial(jax.jit, static_argnums=(0, 1))
def _random_act(env: EnvSpec, number: int, words: jax.Array) -> jax.Array:
    """Draw uniform actions `[number, ...]` in the environment's units."""
    key = rng.stream(words[0], words[1], "start", words[2:])
    if isinstance(env.action, Box):
        shape = (number, *(env.action.shape or ()))
        return env.from_unit(jax.random.uniform(key, shape, minval=-1.0, maxval=1.0))
    start = env.action.start
    return start + jax.random.randint(key, (number,), 0, env.action.n)


def _metric_names(
    algo: ModuleType, learner: Any, buffer: replay.Replay, batch_size: int
) -> tuple[str, ...]:
    """Return the names of what `update` reports, in the order of the sums."""

    def metrics(learner: Any, buffer: replay.Replay) -> Any:
        batch = _batch(algo, learner, buffer, batch_size, jax.random.key(0))
        return algo.update(learner, batch)[1]

    return tuple(sorted(jax.eval_shape(metrics, learner, buffer)))


def _check_env(spec: Any, envs: vector.Envs) -> None:
    if envs.spec != spec.env:
        raise ValueError(f"spec.env must be that of env_fn, {envs.spec}, got {spec.env}.")


def _zeros(number: int) -> jax.Array:
    return jax.device_put(np.zeros(number, np.float32))


def _words(carry: Carry, counter: int) -> np.ndarray:
    """Pack what derives a key: one small array into a jitted call."""
    high, low = counter >> 32, counter & 0xFFFFFFFF
    return np.array([carry.seed, carry.rank, high, low], np.uint32)


def _rows(row: Transition, number: int) -> Transition:
    return Transition(*(np.empty((number, *x.shape), x.dtype) for x in row))


def _collect(carry: Carry, needed: int) -> tuple[Carry, Transition, np.int32]:
    """Step the environments until `needed` rows are there: a block of fixed size, and a count."""
    schedule, envs = carry.schedule, carry.envs
    assert schedule.update_every
    size, number = schedule.update_every // carry.ranks, schedule.num_envs
    stage = _rows(envs.spec.example(), size + number)
    who = np.empty(size + number, np.int64)  # environment of each row, for messages
    filled = len(carry.surplus.rew)
    for rows, kept in zip(stage, carry.surplus, strict=True):
        rows[:filled] = kept
    everyone = np.arange(number)
    ep_return, ep_length = carry.ep_return.copy(), carry.ep_length.copy()
    returns, lengths = list(carry.ep_returns), list(carry.ep_lengths)
    obs, calls, params = carry.obs, carry.calls, carry.learner.params
    while filled < needed:
        if carry.steps + filled * carry.ranks < schedule.start_steps:
            act = _random_act(envs.spec, number, _words(carry, calls))
        else:
            act = _act(carry.algo, params, obs, _act_key(carry, calls))
        step = envs.step(obs, np.asarray(act))
        obs, calls = step.obs, calls + 1
        for i in _count(step, ep_return, ep_length):
            returns.append(float(ep_return[i]))
            lengths.append(int(ep_length[i]))
            ep_return[i] = ep_length[i] = 0
        real = slice(None) if step.valid.all() else step.valid
        end = filled + int(step.valid.sum())
        who[filled:end] = everyone[real]
        for rows, new in zip(stage, step.rows, strict=True):
            rows[filled:end] = new[real]
        filled = end
    _check_finite(stage, who, len(carry.surplus.rew), filled, carry.steps)
    carry = dataclasses.replace(
        carry,
        obs=obs,
        calls=calls,
        surplus=Transition(*(rows[needed:filled].copy() for rows in stage)),
        ep_return=ep_return,
        ep_length=ep_length,
        ep_returns=tuple(returns),
        ep_lengths=tuple(lengths),
    )
    return carry, Transition(*(rows[:size] for rows in stage)), np.int32(needed)


def _count(step: vector.Step, ep_return: np.ndarray, ep_length: np.ndarray) -> list[int]:
    """Add a step to the episodes in progress, in place; return the environments that ended one."""
    rows = step.rows
    ep_return += rows.rew * step.valid
    ep_length += step.valid
    done = (rows.terminated | rows.truncated) & step.valid
    return np.flatnonzero(done).tolist() if done.any() else []


def _check_finite(stage: Transition, who: np.ndarray, begin: int, end: int, steps: int) -> None:
    """Refuse numbers that are not finite in the new rows, before they enter the replay memory."""
    bad = {
        name: begin + int((~np.isfinite(new)).reshape(end - begin, -1).any(axis=1).argmax())
        for name, new in ((name, rows[begin:end]) for name, rows in stage._asdict().items())
        if new.dtype.kind == "f" and not np.isfinite(new).all()
    }
    if bad:
        name = min(bad, key=bad.__getitem__)
        row = bad[name]
        raise NonFiniteError(
            f"{name} of environment {who[row]} is not finite at environment step "
            f"{steps + row + 1}: {getattr(stage, name)[row]}. Nothing of this block was stored."
        )


def _record(carry: Carry) -> tuple[Carry, Record]:
    """Close the epoch: means of the metrics, finished episodes, and a carry that starts anew."""
    sums = dict(zip(carry.metrics, np.asarray(carry.sums, np.float64).tolist(), strict=True))
    updates = carry.updates - carry.updates_recorded
    record: Record = {
        "epoch": carry.epoch + 1,
        "steps": carry.steps,
        "updates": carry.updates,
        "ep_returns": list(carry.ep_returns),
        "ep_lengths": list(carry.ep_lengths),
    }
    for name, total in sums.items():
        count = sums.get(f"{name}_count", updates)
        if count and not name.endswith("_count"):
            record[name] = total / count
    carry = dataclasses.replace(
        carry,
        sums=_zeros(len(carry.metrics)),
        ep_returns=(),
        ep_lengths=(),
        updates_recorded=carry.updates,
        epoch=carry.epoch + 1,
    )
    return carry, record
