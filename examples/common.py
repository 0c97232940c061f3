"""Code shared by the examples: parse the command line, train, and print one line per epoch."""

import os
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

import purerl
from purerl import algos, mpi
from purerl.cli import options, values
from purerl.loops import choose_loop
from purerl.loops.hindsight.rewards import SUCCESS
from purerl.runs.settings import aliases, environments, presets
from purerl.runs.settings import config as configs
from purerl.runs.training.reporting import report_warnings

METRICS = ("loss_q", "q1", "q", "alpha", "epsilon", "loss_v", "kl", "entropy")  # to print


def train(
    algo: ModuleType,
    doc: str,
    env: str,
    argv: Sequence[str] | None = None,
) -> float:
    """Train with the settings of the command line; return the last mean return.

    All other settings are those of `purerl train`: the preset of the environment, if there is one,
    and the defaults of the algorithm.

    Args:
        algo: Module of `purerl.algos`.
        doc: Text of `--help`.
        env: Default environment: a Gymnasium id, or a name such as jax:CartPole-v1.
        argv: Arguments of the command line. None: the arguments of this process.
    """
    mpi.init()  # first: from here on, a rank that fails ends the job
    # Make one flag for each setting of the algorithm and of the schedule.
    parser = make_parser(doc)
    parser.add_argument("--env", default=env, help=f"Gymnasium id ({env})")
    text = "preset of settings; none: the algorithm's defaults (that of the environment)"
    parser.add_argument("--preset", metavar="NAME", help=text)
    options.add_settings(parser, algo.Spec, algo.SCHEDULE)
    args = parser.parse_args(argv)
    # Check the settings before any rank starts.
    name = algos.get_name(algo)
    known, ranks = aliases.list_settings(algo), args.num_cpu or mpi.num_procs()
    given = {key: value for key, value in vars(args).items() if key in known}
    env_fn = environments.make_env_fn(args.env)
    try:
        preset = presets.choose_preset(name, args.env, args.preset)
        tuned = aliases.build_configuration(algo, preset.settings) if preset else None
        content = aliases.build_configuration(algo, given, tuned)
        config, rounded = configs.settle(configs.from_json(content, env_fn), ranks)
        config.schedule.resolve(ranks)
        mpi.fork(args.num_cpu)
    except (ValueError, mpi.MPIUnavailable) as error:
        parser.error(str(error))
    # Make the learner, the buffer and the environments.
    spec, schedule = config.spec, config.schedule
    env = environments.choose_training_env(env_fn, args.env, None)
    loop = choose_loop(env)
    purerl.setup(devices=schedule.devices)
    notes = [presets.describe_preset(preset)] if preset else []
    notes += [rounded] if rounded else []
    try:
        with report_warnings(notes.append):
            carry = loop.start(algo, spec, env, schedule, args.seed)
    except ValueError as error:  # settings that do not fit together
        parser.error(str(error))
    line = f"{name} on {args.env}, seed {args.seed}: {schedule.steps:,} steps"
    if carry.ranks > 1:
        line += f" on {carry.ranks} ranks, processes {mpi.allgather(os.getpid())}"
    for one in (line, *notes):
        say(one)
    # Train: the loop yields one record per epoch.
    began, score = time.monotonic(), float("nan")
    for record in loop.finish(carry, env):
        rate = record["steps"] / (time.monotonic() - began)
        line = f"step {record['steps']:>9,}  {rate:>7,.0f} steps/s"
        if record["ep_returns"]:
            score = statistics.fmean(record["ep_returns"])
            what = "random" if "random_steps" in record else "return"
            line += f"  {what} {score:>9.1f}"
        if "test_returns" in record:
            score = statistics.fmean(record["test_returns"])
            line += f"  test return {score:>9.1f}"
        for name in SUCCESS:
            if record.get(f"test_{name}"):
                line += f"  success {statistics.fmean(record[f'test_{name}']):.2f}"
        for metric in METRICS:
            if metric in record:
                line += f"  {metric} {record[metric]:.3f}"
        say(line)
    say(f"return {score:.1f} after {time.monotonic() - began:.0f} s")
    return score


def begin(doc: str, steps: int = 10_000) -> tuple[int, int]:
    """Parse `--steps`, `--seed` and `--num-cpu`, and start the ranks; return steps and seed."""
    mpi.init()
    parser = make_parser(doc)
    text = f"environment steps on each rank ({steps})"
    parser.add_argument("--steps", type=values.parse_integer, default=steps, help=text)
    args = parser.parse_args()
    try:
        mpi.fork(args.num_cpu)
    except (ValueError, mpi.MPIUnavailable) as error:
        parser.error(str(error))
    purerl.setup()
    return args.steps, args.seed


def make_parser(doc: str) -> options.Parser:
    """Return a parser with the flags that all scripts have."""
    parser = options.Parser("", doc, prog=Path(sys.argv[0]).name)
    text = "seed of the run, 0 .. 2**32 - 1 (0)"
    parser.add_argument("--seed", type=values.parse_seed, default=0, help=text)
    text = "number of MPI ranks (1, or as many as mpiexec started)"
    parser.add_argument("--num-cpu", "--cpu", type=values.parse_ranks, metavar="N", help=text)
    return parser


def say(line: str) -> None:
    """Print a line, on one rank only."""
    if mpi.is_root():
        print(line, flush=True)
