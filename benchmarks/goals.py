"""Cost of goals in hindsight: bursts of SAC with a plain buffer, and with new goals on both ways.

    taskset -c 1 python -m benchmarks.goals

Networks of 2x256, batches of 256, bursts of 50 updates, a buffer of 1e6 rows, the shapes of
FetchReach-v4. The three kinds take turns. The table has the best and the median of all rounds.
"""

import statistics
import time
from typing import Any

import jax
import numpy as np

import purerl
from purerl.algos import sac
from purerl.buffers import goals
from purerl.loops import offpolicy
from purerl.loops.devices import init_tally
from purerl.loops.hindsight.rewards import HostFunction, Relabelling
from purerl.spaces import Box, EnvSpec
from purerl.types import ExtendedTransition, Transition

ENV = EnvSpec((13,), Box((-1.0,) * 4, (1.0,) * 4), goal_size=3)
ROWS, UPDATES, BATCH, BLOCK, ROUNDS = 1_000_000, 50, 256, 50, 12
WORDS = np.zeros(4, np.uint32)


def compute_reward(achieved: Any, desired: Any, info: Any) -> Any:
    """Return 0 near the goal and -1 elsewhere, for NumPy and JAX."""
    return ((((achieved - desired) ** 2).sum(-1) ** 0.5) <= 0.05).astype(np.float32) - np.float32(1)


def compute_terminated(achieved: Any, desired: Any, info: Any) -> Any:
    """Return one flag for any number of goals, as FetchReach-v4 does."""
    return False


def make_block(number: int, has_goals: bool) -> Any:
    """Return rows of episodes of 50 steps."""
    rng = np.random.default_rng(0)
    obs, next_obs = (rng.normal(size=(number, 13)).astype(np.float32) for _ in range(2))
    act = rng.uniform(-1, 1, (number, 4)).astype(np.float32)
    never = np.zeros(number, bool)
    rows = Transition(obs, act, -np.ones(number, np.float32), next_obs, never, never)
    achieved = rng.normal(size=(number, 3)).astype(np.float32)
    step = np.arange(number, dtype=np.int32) % 50
    extra = {"achieved_goal": achieved, "env": np.zeros(number, np.int32), "step": step}
    return ExtendedTransition(*rows, extra=extra) if has_goals else rows


def make_burst(kind: str) -> Any:
    """Return a function that does one burst, with everything that it carries on."""
    in_jax, has_goals = kind == "jax", kind != "plain"
    how: Any = (compute_reward, None)
    if kind == "numpy":
        how = (
            HostFunction("compute_reward", compute_reward, np.float32, one_by_one=False),
            HostFunction("compute_terminated", compute_terminated, np.bool_, one_by_one=True),
        )
    relabelling = Relabelling("future", 4.0, in_jax, *how) if has_goals else None
    learner, buffer = offpolicy.init(sac, sac.Spec(ENV), ROWS, WORDS, int(has_goals))
    tally = init_tally(len(offpolicy.list_metrics(sac, learner, buffer, BATCH)), 1)
    assert has_goals == isinstance(buffer, goals.GoalReplay)
    static = (sac, 0, BATCH, 1)
    many = make_block(20_000, has_goals)
    for _ in range(5):
        _, buffer, _, _ = offpolicy.run_burst(
            *static, learner, buffer, tally, many, np.int32(20_000), WORDS
        )
    block = make_block(BLOCK, has_goals)
    state: Any = [learner, buffer, tally]

    def burst() -> None:
        args: Any = (*state, block, np.int32(BLOCK), WORDS, relabelling)
        *state[:], finite = offpolicy.run_burst(sac, UPDATES, BATCH, 1, *args)
        assert finite

    return burst


def main() -> None:
    purerl.setup()
    bursts = {kind: make_burst(kind) for kind in ("plain", "jax", "numpy")}
    for burst in bursts.values():  # compile
        burst()
        burst()
    times: dict[str, list[float]] = {kind: [] for kind in bursts}
    for _ in range(ROUNDS):
        for kind, burst in bursts.items():
            began = time.perf_counter()
            for _ in range(3):
                burst()
            times[kind].append((time.perf_counter() - began) / 3)
    best, middle = min(times["plain"]), statistics.median(times["plain"])
    print(f"burst of {UPDATES} updates of SAC, batch {BATCH}, milliseconds: best / median")
    for kind, found in times.items():
        low, mid = min(found), statistics.median(found)
        more = f"  {low / best - 1:+.1%} / {mid / middle - 1:+.1%}"
        print(f"{kind:<6} {low * 1e3:7.1f} / {mid * 1e3:7.1f}{more}")
    print(f"jax {jax.__version__}")


if __name__ == "__main__":
    main()
