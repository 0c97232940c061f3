"""Several seeds on environments of Gymnasium: all of them act, and then learn, in one program."""

import dataclasses
import operator
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from purerl.buffers import return_replay
from purerl.errors import AdvanceStopped
from purerl.loops import acting, offpolicy, onpolicy, snapshot
from purerl.loops.carry import Carry, OffPolicyCarry, SequenceCarry
from purerl.loops.hindsight.rewards import Relabelling
from purerl.loops.seeds.together import Data, Together, check_learners, name_seed

Turn = tuple[np.ndarray, int, bool]  # observations, calls of `step`, whether to act at random


def advance(together: Together, should_stop: Callable[[], bool] | None = None) -> Together:
    """Continue the runs of all seeds by one burst, or by one rollout and its updates."""
    if isinstance(together.carries[0], OffPolicyCarry):
        return _advance_bursts(together, should_stop)
    return _advance_rollouts(together, should_stop)


def replay_advance(together: Together) -> Together:
    """Return the environments of all seeds to where an interrupted advance found them."""
    carries, buffer = [], together.data.buffer
    for i, one in enumerate(together.carries):
        with name_seed(one.seed):
            carry, lost = snapshot.replay_advance(one)
        carries.append(carry)
        if lost and isinstance(buffer, return_replay.ReturnReplay):
            cut = return_replay.cut_episodes(jax.tree.map(operator.itemgetter(i), buffer), lost)
            buffer = jax.tree.map(lambda x, new, i=i: x.at[i].set(new), buffer, cut)
    return Together(tuple(carries), together.data._replace(buffer=buffer))


def _advance_bursts(together: Together, should_stop: Callable[[], bool] | None) -> Together:
    carries: Any = together.carries
    first = carries[0]
    border, number = offpolicy.plan_burst(first)
    steps = [offpolicy.step_envs(one, border - first.steps) for one in carries]
    carries, blocks, counts = zip(*collect(together, steps, should_stop), strict=True)
    learner, buffer, tally, finite = offpolicy.run_burst(
        first.algo,
        number,
        first.schedule.batch_size,
        1,
        *together.data[:3],
        _stack(blocks),
        counts[0],
        _stack([acting.pack_key_words(one, one.updates) for one in carries]),
        _share_relabelling(carries),
    )
    data = Data(learner, buffer, tally, None)
    return _finish(carries, border, [number] * len(carries), data, finite)


def _advance_rollouts(together: Together, should_stop: Callable[[], bool] | None) -> Together:
    carries: Any = together.carries
    first = carries[0]
    schedule = first.schedule
    steps = [onpolicy.step_envs(one, schedule.rollout_length) for one in carries]
    carries, rollouts = zip(*collect(together, steps, should_stop), strict=True)
    words = _stack([acting.pack_key_words(one, one.updates) for one in carries])
    learner, buffer, tally, _ = together.data
    rollout, updates = _stack(rollouts), [1] * len(carries)
    if isinstance(first, SequenceCarry):
        plan = onpolicy.plan_replay(first.schedule, 1)
        learner, buffer, tally, counted = onpolicy.learn_and_replay(
            first.algo, 1, plan, learner, buffer, tally, rollout, words
        )
        updates, finite = np.asarray(counted).T.tolist()
    else:
        learner, tally, finite = onpolicy.learn(first.algo, 1, learner, tally, rollout, words)
    border = first.steps + schedule.rollout_steps
    data = Data(learner, buffer, tally, None)
    return _finish(carries, border, updates, data, finite)


def _finish(
    carries: Sequence[Carry], border: int, updates: Sequence[int], data: Data, finite: Any
) -> Together:
    """Return the carries after a program, with their new counters; refuse a diverged learner."""
    counted = (
        dataclasses.replace(one, steps=border, updates=one.updates + number)
        for one, number in zip(carries, updates, strict=True)
    )
    together = Together(tuple(counted), data)
    check_learners(together, updates, finite)
    return together


def _stack(trees: Sequence[Any]) -> Any:
    return jax.tree.map(lambda *x: np.stack(x), *trees)


def collect(
    together: Together, steps: Sequence[acting.Steps], should_stop: Callable[[], bool] | None
) -> list[Any]:
    """Step the environments of all seeds, with one program per step; return the results.

    Args:
        together: The carries.
        steps: Collection of each seed, from `step_envs`.
        should_stop: Function that is called before each step; True raises `AdvanceStopped`.
    """
    turns: list[Turn] = [(one.obs, one.calls, False) for one in together.carries]
    left, results = list(range(len(turns))), list[Any](turns)
    chosen: Any = [None] * len(turns)
    while True:
        for i in [*left]:  # vector environments of mode NEXT_STEP take different numbers of steps
            try:
                turns[i] = steps[i].send(chosen[i])
            except StopIteration as end:
                results[i] = end.value
                left.remove(i)
            except Exception as error:  # raised again, with the seed
                with name_seed(together.carries[i].seed):
                    raise error
        if not left:
            return results
        if should_stop and should_stop():
            raise AdvanceStopped
        chosen = choose_actions(together, turns)


def choose_actions(together: Together, turns: Sequence[Turn]) -> Any:
    """Choose the actions of all seeds, exploring or random, in one program for each kind."""
    carries, params = together.carries, together.data.learner.params
    obs, calls, random = zip(*turns, strict=True)
    drawn = chosen = None
    if any(random):
        words = [acting.pack_key_words(*pair) for pair in zip(carries, calls, strict=True)]
        number = carries[0].schedule.num_envs
        drawn = np.asarray(acting.draw_random_actions(params.spec.env, number, np.stack(words)))
    if not all(random):
        chosen = acting.act_together(carries, params, np.stack(obs), calls)
    if drawn is None or chosen is None:
        return drawn if chosen is None else chosen
    return [x if flag else y for flag, x, y in zip(random, drawn, chosen, strict=True)]


def _share_relabelling(carries: Sequence[Any]) -> Relabelling | None:
    """Return how all seeds replace goals: in JAX as the first, on the host each by its own."""
    several = [one.relabelling for one in carries]
    first = several[0]
    if first is None or first.in_jax:
        return first
    names = ("reward",) if first.terminated is None else ("reward", "terminated")
    seeds = [one.seed for one in carries]
    shared = {name: _combine(seeds, [getattr(one, name) for one in several]) for name in names}
    return dataclasses.replace(first, **shared)


def _combine(seeds: Sequence[int], functions: Sequence[Any]) -> Callable[..., np.ndarray]:
    """Return a function of rows of all seeds that calls the function of each seed on its rows."""

    def compute(*rows: np.ndarray) -> np.ndarray:
        parts = zip(*(np.split(x, len(seeds)) for x in rows), strict=True)
        found = []
        for seed, function, part in zip(seeds, functions, parts, strict=True):
            with name_seed(seed):
                found.append(function(*part))
        return np.concatenate(found)

    return compute
