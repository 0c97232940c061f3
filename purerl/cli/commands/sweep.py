"""`purerl sweep`: train with all combinations of values, each run in its own process."""

import argparse
import shlex
import sys
from collections.abc import Mapping
from typing import Any

from purerl import algos, errors
from purerl.cli.checkpoint_arguments import parse_algo
from purerl.cli.options import Axes, read_axes, split_pairs
from purerl.errors import ConfigError
from purerl.runs.console import print_lines, write_text
from purerl.runs.record.files import to_json
from purerl.runs.settings import aliases
from purerl.runs.settings import config as configs
from purerl.runs.settings.presets import describe_preset
from purerl.runs.sweeps import tasks
from purerl.runs.sweeps.grid import ExperimentGrid, run_variants
from purerl.runs.sweeps.jobs import Plan
from purerl.runs.sweeps.results import format_results

HELP = f"""usage: purerl sweep ALGO --env ID --grid KEY=VALUE,VALUE [--seed 0 1 2] [settings]

Train with all combinations of values. Several runs at a time, each in its own process.

  --grid KEY=V,V    values of a setting, with tuples in brackets: hidden=[64,64],[32];
                    KEY[word]=V,V puts `word` into the names of runs
  --jobs N          number of runs at a time (as cores allow)
  --timeout S       time limit of each run in seconds (no limit)
  --dry-run         show the runs, start none

Settings of `purerl train` apply to every run; `purerl sweep ALGO --help` lists them.
ALGO is one of {", ".join(algos.NAMES)}.

  purerl sweep ppo --env CartPole-v1 --grid hidden=[32],[64,64] --seed 0 1 2 --jobs 2
  purerl sweep sac --env Pendulum-v1 --steps 2e4 --grid lr=3e-4,1e-3 --grid polyak=0.99,0.995

Run the same command again to complete a sweep: finished runs stay, stopped and killed
runs continue, failed runs start again. See docs/guides/grids.md.
"""
ONCE = (*aliases.COMMAND, "name")  # settings that a grid cannot vary


def main(words: list[str]) -> int:
    """Run a sweep; return 0 if all runs are done, 1 if not, 75 if it was stopped on request."""
    name = words[0] if words else "--grid"
    if name.startswith("-") or name == "help":
        write_text(sys.stdout, HELP)
        return errors.USAGE if name.startswith("--grid") else errors.DONE
    algo = parse_algo(name)
    from purerl.cli.commands import train_and_resume  # imports JAX

    args = train_and_resume.make_parser(algo, words, "purerl sweep").parse_args(words[1:])
    settings, base, preset = train_and_resume.read_settings(algo, args)
    if preset:
        print_lines(describe_preset(preset))
    items = split_pairs("--grid", args.grid, several=True)
    axes: Axes = {key: (None, [value]) for key, value in settings.items()}
    axes |= read_axes(algo, items, ONCE, settings)
    return run_grid(algo, axes, args, base)


def make_grid(algo: Any, axes: Axes, base: Mapping[str, Any]) -> ExperimentGrid:
    """Make a grid from settings; print which equal values are dropped."""
    _, (name,) = axes.pop("name", (None, [base.get("name")]))
    given = {aliases.resolve_name(algo, key).name: axis for key, (_, axis) in axes.items()}
    ids = given.get("env") or [*filter(None, [base.get("env")])]
    if not ids:
        raise ConfigError("--env is missing. Give one, for example --env CartPole-v1.")
    word = algos.get_name(algo)
    grid = ExperimentGrid(name or (configs.choose_name(word, ids[0]) if len(ids) == 1 else word))
    for key, (shorthand, axis) in axes.items():
        different, dropped = aliases.drop_duplicates(key, axis)
        if dropped:
            print_lines(dropped)
        grid.add(key, different, shorthand, in_name=shorthand is not None)
    return grid


def run_grid(algo: Any, axes: Axes, args: argparse.Namespace, base: Mapping[str, Any]) -> int:
    """Print a grid, run it unless this is a dry run, and print the result of each run."""
    seeds = args.seed or [base.get("seed", 0)]
    grid = make_grid(algo, axes | {"seed": (None, seeds)}, base)
    plan = Plan(args.num_cpu or 1, args.data_dir, bool(args.datestamp), args.jobs, args.timeout)
    named = grid.name_runs()
    refused: dict[str, str] = {}
    for name, seed, settings in named:
        try:
            content = aliases.build_configuration(algo, settings, base)
            tasks.complete_config(content | {"seed": seed, "name": name}, algo, plan.num_cpu)
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
    words = sys.orig_argv[1:]
    again = shlex.join(["python", *words] if words[:1] == ["-m"] else sys.argv)
    try:
        sweep = run_variants(named, grid.name, algos.get_name(algo), plan, grid.values, base)
    except KeyboardInterrupt as error:
        error.add_note(f"the runs were ended without saving. To continue: {again}")
        raise
    print_lines(format_results(sweep))
    if sweep.code:
        print_lines(f"To complete the sweep: {again}")
    return sweep.code
