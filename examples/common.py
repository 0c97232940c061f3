"""What the `run_*.py` scripts share: options from dataclasses, the loop, one line per epoch."""

import argparse
import statistics
import time
from collections.abc import Sequence
from types import ModuleType
from typing import Any

import gymnasium

from purerl import cli
from purerl.loops import gym as loop

METRICS = ("loss_q", "q1", "q", "alpha", "epsilon", "loss_v", "kl", "entropy")  # where there are


def train(
    algo: ModuleType,
    doc: str,
    env: str,
    schedule: Any,
    argv: Sequence[str] | None = None,
    **settings: Any,
) -> float:
    """Train as the command line says; return the mean return reached last.

    Args:
        algo: module of `purerl.algos`.
        doc: text of `--help`.
        env: Gymnasium id unless `--env` gives another.
        schedule: defaults of the schedule's options.
        argv: words of the command line; None for those of the process.
        **settings: defaults of the algorithm's options that differ from its own.
    """
    parser = argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--env", default=env, help=f"Gymnasium id (default: {env})")
    parser.add_argument("--seed", type=cli.seed, default=0, help="0 .. 2**32 - 1 (default: 0)")
    cli.add_fields(parser, algo.Spec, schedule, **settings)
    args = parser.parse_args(argv)
    schedule = cli.build(parser, schedule, args)
    spec = cli.build(parser, algo.Spec, args, env=cli.env_spec(parser, args.env))

    def env_fn() -> gymnasium.Env[Any, Any]:
        return gymnasium.make(args.env)

    try:
        carry = loop.start(algo, spec, env_fn, schedule, args.seed)
    except ValueError as error:  # settings that do not fit together
        parser.error(str(error))
    name = algo.__name__.rpartition(".")[2]
    print(f"{name} on {args.env}, seed {args.seed}: {schedule.steps:,} steps", flush=True)
    began, score = time.monotonic(), float("nan")
    for record in loop.finish(carry, env_fn):
        rate = record["steps"] / (time.monotonic() - began)
        line = f"step {record['steps']:>9,}  {rate:>7,.0f} steps/s"
        if record["ep_returns"]:
            score = statistics.fmean(record["ep_returns"])
            line += f"  return {score:>9.1f}"
        if "test_returns" in record:
            score = statistics.fmean(record["test_returns"])
            line += f"  test return {score:>9.1f}"
        for metric in METRICS:
            if metric in record:
                line += f"  {metric} {record[metric]:.3f}"
        print(line, flush=True)
    print(f"return {score:.1f} after {time.monotonic() - began:.0f} s")
    return score
