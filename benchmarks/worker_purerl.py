"""Run purerl as a contender of `compare.py`: print a rate for every line read."""

import dataclasses
import sys
import time
from collections.abc import Callable
from types import ModuleType
from typing import Any

import gymnasium
import jax
import numpy as np

import purerl
from purerl import algos
from purerl.envs import names
from purerl.loops import gym as loop
from purerl.loops import offpolicy, onpolicy, scan
from purerl.loops.devices import init_tally, replicate
from purerl.schedules import OffPolicySchedule, OnPolicySchedule, SequenceSchedule
from purerl.spaces import Box, EnvSpec
from purerl.types import Rollout, Transition

ENVS = {"halfcheetah": "HalfCheetah-v5", "pendulum": "Pendulum-v1", "cartpole": "CartPole-v1"}
HALFCHEETAH = EnvSpec((17,), Box((-1.0,) * 6, (1.0,) * 6))

# Tasks with environments in JAX, with the settings of `worker_rejax.py`: steps of a window, `Spec`
# and schedule. Rejax always learns the temperature of SAC.
SCAN: dict[str, tuple[int, dict[str, Any], Any]] = {
    "ppo": (
        102_400,
        {"hidden": (64, 64), "train_pi_iters": 4, "train_v_iters": 4, "minibatch_size": 128}
        | {"target_kl": None, "value_target": "lambda", "max_grad_norm": 0.5, "vf_lr": 3e-4},
        OnPolicySchedule(num_envs=4, rollout_steps=512),
    ),
    "dqn": (
        10_000,
        {"hidden": (64, 64), "lr": 1e-3},
        OffPolicySchedule(
            num_envs=10, update_every=10, updates_per_burst=5, batch_size=100, replay_size=50_000
        ),
    ),
    "sac": (
        2_000,
        {"hidden": (64, 64), "alpha": "auto"},
        OffPolicySchedule(update_every=1, batch_size=256, replay_size=10_000),
    ),
    "td3": (
        4_000,
        {"hidden": (64, 64)},
        OffPolicySchedule(update_every=1, batch_size=100, replay_size=10_000),
    ),
}  # fmt: skip


def make_updates_window(algo: ModuleType, batch_size: int, devices: int = 1) -> Callable[[], float]:
    """Return a function that does 200 updates from 1e6 rows and returns updates per second.

    It times whole bursts of the loop, of 50 updates and a block of 50 new rows. `devices` devices
    split each batch.
    """
    rng = np.random.default_rng(0)
    rows, size = 1_000_000, 50

    def block(number: int) -> Transition:
        floats = rng.standard_normal((number, 41), np.float32)
        obs, act, next_obs = floats[:, :17], np.tanh(floats[:, 17:23]), floats[:, 23:40]
        flags = np.zeros(number, bool)
        return Transition(obs, act, floats[:, 40], next_obs, flags, flags)

    words = np.array([0, 0, 0, 0], np.uint32)
    learner, buffer = offpolicy.init(algo, algo.Spec(HALFCHEETAH), rows, words)
    tally = init_tally(len(offpolicy.list_metrics(algo, learner, buffer, batch_size)), devices)
    learner, buffer = replicate((learner, buffer), devices)
    filled, number = 0, 50_000
    while filled < rows:
        learner, buffer, tally, _ = offpolicy.run_burst(
            algo, 0, batch_size, devices, learner, buffer, tally, block(number), np.int32(number),
            words,
        )  # fmt: skip
        filled += number
    fresh, state, done = block(size), (learner, buffer, tally), [0]

    def window() -> float:
        nonlocal state
        began = time.perf_counter()
        for _ in range(4):
            words[3] = done[0]
            *rest, finite = offpolicy.run_burst(
                algo, size, batch_size, devices, *state, fresh, np.int32(size), words
            )
            state = tuple(rest)
            assert finite
            done[0] += size
        return 4 * size / (time.perf_counter() - began)

    return window


def make_run_window(
    algo: ModuleType, env_id: str, every: int = 50, batch_size: int = 100
) -> Callable[[], float]:
    """Return a function that times 1000 steps, with a burst of updates every `every` steps."""

    def env_fn() -> object:
        return gymnasium.make(env_id)

    spec = algo.Spec(EnvSpec.of(env_fn()))
    schedule = OffPolicySchedule(
        steps=10**9, steps_per_epoch=1_000, start_steps=100, update_after=max(100, batch_size),
        update_every=every, batch_size=batch_size, num_test_episodes=0,
    )  # fmt: skip
    return make_steps_window(loop.start(algo, spec, env_fn, schedule, 0))


def make_cartpole_window(algo: ModuleType, every: int) -> Callable[[], float]:
    """Return a function that times 1000 steps of CartPole-v1, with the peers' network."""

    def env_fn() -> object:
        return gymnasium.make("CartPole-v1")

    spec = algo.Spec(
        EnvSpec.of(env_fn()), hidden=(120, 84), target_every=500, double=False, eps_start=0.05,
        eps_end=0.05,
    )  # fmt: skip
    schedule = OffPolicySchedule(
        steps=10**9, steps_per_epoch=1_000, start_steps=0, update_after=200, update_every=every,
        batch_size=128, replay_size=100_000, num_test_episodes=0,
    )  # fmt: skip
    return make_steps_window(loop.start(algo, spec, env_fn, schedule, 0))


def make_steps_window(
    carry: loop.Carry, steps: int = 1_000, advance: Callable[..., Any] = loop.advance
) -> Callable[[], float]:
    """Return a function that runs environment steps and returns steps per second."""
    state = [carry]

    def window() -> float:
        began, first = time.perf_counter(), state[0].steps
        while state[0].steps < first + steps:
            state[0], _ = advance(state[0])
        return (state[0].steps - first) / (time.perf_counter() - began)

    return window


def make_sequence_window(algo: ModuleType, env_id: str) -> Callable[[], float]:
    """Return a function that times 20,000 steps with the defaults, after replay has begun."""

    def env_fn() -> object:
        return gymnasium.make(env_id)

    schedule = dataclasses.replace(algo.SCHEDULE, steps=10**9, replay_start=1_600)
    carry = loop.start(algo, algo.Spec(EnvSpec.of(env_fn())), env_fn, schedule, 0)
    while carry.steps < 1_600:
        carry, _ = loop.advance(carry)
    return make_steps_window(carry, 20_000)


def make_on_policy_window(algo: ModuleType, env_id: str, schedule: str) -> Callable[[], float]:
    """Return a function that runs one epoch and returns steps per second.

    `full` is Spinning Up's schedule (4000 steps, 80 full-batch steps of each network, no early
    stop), `small` is SB3's (2048 steps, 10 passes of 32 minibatches).
    """

    def env_fn() -> object:
        return gymnasium.make(env_id)

    env, length = EnvSpec.of(env_fn()), 4_000 if schedule == "full" else 2_048
    settings: dict[str, Any] = {"target_kl": None} if algo is algos.load("ppo") else {}
    if schedule == "small":
        settings |= {"train_pi_iters": 10, "train_v_iters": 10, "minibatch_size": 64}
        settings |= {"vf_lr": 3e-4, "max_grad_norm": 0.5, "value_target": "lambda"}
    rollouts = OnPolicySchedule(steps=length * 10**5, steps_per_epoch=length)
    state = [loop.start(algo, algo.Spec(env, **settings), env_fn, rollouts, 0)]

    def window() -> float:
        began = time.perf_counter()
        state[0], _ = loop.advance(state[0])
        return length / (time.perf_counter() - began)

    return window


def make_update_window(algo: ModuleType) -> Callable[[], float]:
    """Return a function that prepares and updates on 4000 rows, and returns updates per second."""
    rng, length = np.random.default_rng(0), 4_000
    settings: dict[str, Any] = {"target_kl": None} if algo is algos.load("ppo") else {}
    learner = onpolicy.init(algo, algo.Spec(HALFCHEETAH, **settings), np.zeros(2, np.uint32))
    floats = rng.standard_normal((length, 1, 41), np.float32)
    none = np.zeros((length, 1), bool)
    rollout = Rollout(
        floats[..., :17], floats[..., 17:23], floats[..., 23], floats[..., 24:], none, none
    )
    schedule = OnPolicySchedule(rollout_steps=length).resolve(1)
    metrics = onpolicy.list_metrics(algo, learner, schedule)
    state = (learner, init_tally(len(metrics), 1))

    def window() -> float:
        nonlocal state
        began = time.perf_counter()
        *new, finite = onpolicy.learn(algo, 1, *state, rollout, np.zeros(4, np.uint32))
        state = (new[0], new[1])
        assert finite
        return 1 / (time.perf_counter() - began)

    return window


def make_scan_window(name: str, env_id: str) -> Callable[[], float]:
    """Return a function that trains in one program and returns steps per second."""
    algo, env = algos.load(name), names.make(f"jax:{env_id}")
    steps, settings, schedule = SCAN[name]
    length = {"steps": 10**5 * steps, "steps_per_epoch": steps, "num_test_episodes": 0}
    if isinstance(schedule, OffPolicySchedule):
        length |= {"start_steps": 1_000, "update_after": 1_000}
    schedule = dataclasses.replace(schedule, **length)
    carry = scan.start(algo, algo.Spec(env.spec, **settings), env, schedule, 0)
    return make_steps_window(carry, steps, scan.advance)


def train_seeds(name: str, env_id: str, number: int, steps: int) -> None:
    """Train several seeds in one program, compilation included."""
    algo, env = algos.load(name), names.make(f"jax:{env_id}")
    _, settings, schedule = SCAN[name]
    schedule = dataclasses.replace(schedule, steps=steps, num_test_episodes=0)
    spec = algo.Spec(env.spec, **settings)
    together = scan.start(algo, spec, env, schedule, seeds=range(number))
    while together.carries[0].steps < schedule.steps:
        together, _ = scan.advance(together)


def make_limit_window() -> Callable[[], float]:
    """Return a function that measures the GFLOP/s of a 1024 x 1024 matrix product."""
    product = jax.jit(lambda x: jax.lax.fori_loop(0, 20, lambda _, y: (y @ x) * 1e-2, x))
    x = jax.random.normal(jax.random.key(0), (1024, 1024))

    def window() -> float:
        began = time.perf_counter()
        product(x).block_until_ready()
        return 20 * 2 * 1024**3 / (time.perf_counter() - began) / 1e9

    return window


def run_first_update(algo: ModuleType) -> None:
    """Train on Pendulum-v1 until the first update, after 100 steps."""

    def env_fn() -> object:
        return gymnasium.make("Pendulum-v1")

    schedule = OffPolicySchedule(start_steps=100, update_after=100)
    carry = loop.start(algo, algo.Spec(EnvSpec.of(env_fn())), env_fn, schedule, 0)
    while carry.updates == 0:
        carry, _ = loop.advance(carry)
    print("updated", flush=True)


def make_window(task: str) -> Callable[[], float]:
    """Set up JAX, and return the function that runs one window of a task."""
    name, _, what = task.partition("-")
    what, _, devices = what.partition("-devices")
    purerl.setup(threads=1, devices=int(devices or 1))
    if name == "limit":
        return make_limit_window()
    if what.endswith("-scan"):
        return make_scan_window(name, ENVS[what.removesuffix("-scan")])
    algo = algos.load(name)
    if what == "update":
        return make_update_window(algo)
    if what.startswith("updates-"):
        return make_updates_window(algo, int(what.removeprefix("updates-")), int(devices or 1))
    if isinstance(algo.SCHEDULE, SequenceSchedule):
        return make_sequence_window(algo, ENVS[what])
    if isinstance(algo.SCHEDULE, OnPolicySchedule):
        env, _, schedule = what.partition("-")
        return make_on_policy_window(algo, ENVS[env], schedule)
    if what.startswith("cartpole"):
        return make_cartpole_window(algo, 1 if what == "cartpole1" else 50)
    if what.endswith("1"):
        return make_run_window(algo, ENVS[what[:-1]], every=1, batch_size=256)
    return make_run_window(algo, ENVS[what])


def main() -> None:
    task = sys.argv[1]
    if task.endswith("-start"):
        purerl.setup(threads=1)
        return run_first_update(algos.load(task.removesuffix("-start")))
    if "-seeds" in task:
        what, _, number = task.partition("-seeds")
        name, env = what.removesuffix("-scan").split("-")
        purerl.setup(threads=1)
        train_seeds(name, ENVS[env], int(number), 100_000)
        return print("done", flush=True)
    window = make_window(task)
    window()
    print("ready", flush=True)
    for _ in sys.stdin:
        print("rate", window(), flush=True)


if __name__ == "__main__":
    main()
