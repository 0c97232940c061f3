"""One program for several seeds."""

import functools
from collections.abc import Callable
from typing import Any

import jax

from purerl.loops.scan.stepping import Clock


def map_program(run: Callable[..., Any]) -> Callable[..., Any]:
    """Map a program over seeds, whose data have a leading axis; they share all counters but one.

    Only numbers of updates may differ between seeds. So conditions on steps stay conditions, and
    places in replay buffers stay numbers.
    """

    def run_all(*args: Any) -> Any:
        data, params, clock, times = args[4:]
        axes = (0, None, Clock(0, None, None, 0), None)
        body = jax.vmap(functools.partial(run, *args[:4]), axes)
        number = len(clock.seed)
        group = choose_group(number) if data.buffer is None else number
        if group == number:
            return body(data, params, clock, times)

        def run_group(part: Any) -> Any:
            data, seed, updates = part
            return body(data, params, clock._replace(seed=seed, updates=updates), times)

        every = (data, clock.seed, clock.updates)
        parts = jax.tree.map(lambda x: x.reshape(-1, group, *x.shape[1:]), every)
        done = jax.lax.map(run_group, parts)
        return jax.tree.map(lambda x: x.reshape(number, *x.shape[2:]), done)

    return run_all


def choose_group(seeds: int) -> int:
    """Return how many seeds run at once: the numbers of about eight stay in the cache of a core.

    Replay buffers are not divided into groups, because each call would copy them.
    """
    return next((n for n in (8, 7, 6, 5, 4) if seeds % n == 0), seeds)
