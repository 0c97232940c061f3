"""Training in one compiled program, with environments written in JAX.

    carry = start(algo, spec, env, schedule, seed)
    carry, record = advance(carry)     # one program
    for record in run(...): ...        # one record per epoch

Schedules, records, metrics and keys are those of `purerl.loops.gym`. On the same environment both
loops make the same transitions and the same parameters, up to rounding.

One program can train several seeds, which differ only in their numbers:

    together = start(algo, spec, env, schedule, seeds=range(64))
    together, records = advance(together)   # records: None, or one for each seed
    carries = split(together)
"""

from purerl.loops.scan.evaluation import evaluate
from purerl.loops.scan.loop import advance, collect, evaluate_epoch, finish, run, start
from purerl.loops.seeds.together import Together, join, split

__all__ = [
    "Together",
    "advance",
    "collect",
    "evaluate",
    "evaluate_epoch",
    "finish",
    "join",
    "run",
    "split",
    "start",
]
