"""`purerl sweep`: every combination of values, each run in a process of its own.

Importing this imports no JAX; reading the settings of an algorithm does.
"""

import argparse
import shlex
import sys
from collections.abc import Mapping
from typing import Any

from purerl import algos, errors
from purerl.cli import values
from purerl.cli.options import Axes, Parser, read_axes, split_values
from purerl.errors import ConfigError
from purerl.runs.console import print_lines, write_text
from purerl.runs.record.files import to_json
from purerl.runs.settings import names
from purerl.runs.sweeps import tasks
from purerl.runs.sweeps.grid import ExperimentGrid, run_variants
from purerl.runs.sweeps.jobs import Plan
from purerl.runs.sweeps.results import format_results

HELP = f"""usage: purerl sweep ALGO --env ID --grid KEY=VALUE,VALUE [--seed 0 1 2] [settings]

Train with every combination of values, each in a process of its own, several at a time.

  --grid KEY=V,V    values of a setting; a tuple is in brackets: hidden=[64,64],[32]. KEY[word]=
                    calls the setting `word` in the names of runs
  --seed S S        one run of each combination for each seed
  --jobs N          runs at a time (as many as there are cores for)
  --timeout S       seconds that each run may take (no limit)
  --name NAME       name of the sweep and its folder (env-algo)
  --dry-run         show what would be run

All settings of `purerl train ALGO` are known, for all runs alike: purerl sweep ALGO --help.
ALGO is one of {", ".join(algos.NAMES)}.

  purerl sweep ppo --env CartPole-v1 --grid hidden=[32],[64,64] --seed 0 1 2 --jobs 2
  purerl sweep sac --env Pendulum-v1 --steps 2e4 --grid lr=3e-4,1e-3 --grid polyak=0.99,0.995

Run again, it does only what is missing: finished runs stay, stopped and killed ones continue,
failed ones start again. docs/grids.md has more.
"""
ONCE = (*names.COMMAND, "name")  # settings that no grid varies


def main(words: list[str]) -> int:
    """Run a sweep; return 0 if all runs are done, 1 if not, 75 if it was asked to stop."""
    algo = words[0] if words else ""
    if not algo or algo.startswith("-") or algo == "help":
        write_text(sys.stdout, HELP)
        return errors.DONE if words and not algo.startswith("--grid") else errors.USAGE
    algos.check(algo)
    from purerl.cli.commands import train_and_resume  # which imports JAX

    args = make_sweep_parser(algo).parse_args(words[1:])
    settings, base = train_and_resume.read_settings(algo, args)
    pairs = [word.partition("=") for words in args.grid or [] for word in words]
    items = [(f"--grid {k}{eq}{v}", k if eq else "", split_values(v)) for k, eq, v in pairs]
    name = settings.pop("name", base.get("name", ""))
    axes: Axes = {key: (None, [value]) for key, value in settings.items()}
    axes |= read_axes(algo, items, ONCE, settings)
    axes["seed"] = (None, args.seed or [base.get("seed", 0)])
    return run_grid(algo, make_grid(algo, name, axes, base), args, base)


def make_sweep_parser(algo: str, prog: str = "purerl sweep") -> Parser:
    """Return the parser of `purerl sweep ALGO`: that of `purerl train`, and three more flags."""
    from purerl.cli.commands import train_and_resume  # which imports JAX

    parser = train_and_resume.make_train_parser(algo, prog)
    parser.usage = f"{parser.prog} --env ID --grid KEY=VALUE,VALUE [settings]; --help lists them"
    parser.epilog = (parser.epilog or "").replace("purerl train", "purerl sweep")
    add = parser.group("Sweep").add_argument
    # fmt: off
    add("--grid", action="append", nargs="+", metavar="KEY=V,V",
        help="values of a setting; tuples in brackets: hidden=[8],[64,64]")
    add("--jobs", type=values.parse_integer, metavar="N", help="runs at a time (as cores allow)")
    add("--timeout", type=values.parse_float, metavar="S",
        help="seconds that each run may take (no limit)")
    # fmt: on
    return parser


def make_grid(algo: str, name: str, axes: Axes, base: Mapping[str, Any]) -> ExperimentGrid:
    """Make a grid of key -> (shorthand, values); print which values are dropped as equal."""
    from purerl.runs.settings import config as configs

    envs = [
        env for k, (_, v) in axes.items() if names.resolve_name(algo, k).name == "env" for env in v
    ]
    envs = envs or [base[k] for k in ("env",) if base.get(k)]
    if not envs:
        raise ConfigError("--env is needed, as --env CartPole-v1.")
    grid = ExperimentGrid(name or (configs.choose_name(algo, envs[0]) if len(envs) == 1 else algo))
    for key, (shorthand, given) in axes.items():
        different, dropped = names.drop_duplicates(key, given)
        if dropped:
            print_lines(dropped)
        grid.add(key, different, shorthand, in_name=shorthand is not None)
    return grid


def run_grid(
    algo: str, grid: ExperimentGrid, args: argparse.Namespace, base: Mapping[str, Any] | None = None
) -> int:
    """Show a grid, run it unless this is a dry run, and show what became of each run."""
    stamp = bool(args.datestamp)
    plan = Plan(args.num_cpu or 1, args.data_dir, stamp, args.jobs, args.timeout)
    named = grid.name_runs()
    refused: dict[str, str] = {}
    for name, seed, settings in named:
        try:
            content = names.build_configuration(algo, settings, base)
            tasks.complete_config(content | {"seed": seed, "name": name})
        except ConfigError as error:
            refused[name] = str(error)
    if len(refused) == len({name for name, *_ in named}):
        raise ConfigError("\n".join(dict.fromkeys(refused.values())))
    grid.print()
    if args.dry_run:
        for name, seed, settings in named:
            text = "  ".join(f"{k}={to_json(v)}" for k, v in settings.items())
            print_lines(f"{name}  seed {seed}  {refused.get(name, text)}")
        return errors.DONE
    try:
        sweep = run_variants(named, grid.name, algo, plan, grid.values, base)
    except KeyboardInterrupt as error:
        error.add_note(f"left at once. Continue: {shlex.join(get_own_command())}")
        raise
    print_lines(format_results(sweep))
    if sweep.code:
        print_lines(f"Do what is missing: {shlex.join(get_own_command())}")
    return sweep.code


def get_own_command() -> list[str]:
    """Return the command that this process was started with."""
    words = sys.orig_argv[1:]
    return ["python", *words] if words[:1] == ["-m"] else sys.argv
