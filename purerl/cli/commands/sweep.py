"""`purerl sweep`: every combination of values, each run in a process of its own.

Importing this imports no JAX; the types of an algorithm's settings do.
"""

import argparse
import functools
import re
import shlex
import sys
from collections.abc import Mapping
from typing import Any

from purerl import algos, errors
from purerl.errors import ConfigError
from purerl.runs.console import print_lines, write_text
from purerl.runs.settings import names
from purerl.runs.sweeps import tasks
from purerl.runs.sweeps.grid import ExperimentGrid, check_limits, run_variants
from purerl.runs.sweeps.results import format_results, to_plain

HELP = f"""usage: purerl sweep ALGO --env ID --grid KEY=VALUE,VALUE [--seed 0 1 2] [settings]

Train with every combination of values, each in a process of its own, several at a time.

  --grid KEY=V,V    values of a setting; a tuple is in brackets: hidden=[64,64],[32]. KEY[word]=
                    calls the setting by another word in the names of runs
  --seed S S        one run of each combination for each seed
  --jobs N          runs at a time (as many as there are cores for)
  --timeout S       seconds that each run may take (no limit)
  --name NAME       of the sweep and its folder (env-algo)
  --dry-run         show what would be run

All settings of `purerl train ALGO` are known, for all runs alike: purerl sweep ALGO --help.
ALGO is one of {", ".join(algos.NAMES)}.

  purerl sweep ppo --env CartPole-v1 --grid hidden=[32],[64,64] --seed 0 1 2 --jobs 2
  purerl sweep sac --env Pendulum-v1 --steps 2e4 --grid lr=3e-4,1e-3 --grid polyak=0.99,0.995

Run again, it does what is missing: runs that are done stay, stopped and killed ones go on, failed
ones start again. docs/grids.md has more.
"""


def main(words: list[str]) -> int:
    """Run a sweep; return 0 if all of it is done, 1 if not, 75 if it was asked to stop."""
    algo = words[0] if words else ""
    if not algo or algo.startswith("-") or algo == "help":
        write_text(sys.stdout, HELP)
        return 0 if words and not algo.startswith("--grid") else 2
    if algo not in algos.NAMES:
        near = names.suggest(algo, algos.NAMES)
        sys.stderr.write(f"purerl sweep: unknown algorithm {algo!r}.{near}\n")
        return 2
    from purerl.cli import options
    from purerl.cli.commands import train_and_resume

    parser = train_and_resume.make_train_parser(algo)
    parser.prog = f"purerl sweep {algo}"
    parser.usage = f"{parser.prog} --env ID --grid KEY=VALUE,VALUE [settings]; --help lists them"
    parser.epilog = (parser.epilog or "").replace("purerl train", "purerl sweep")
    add = parser.add_argument_group("Sweep").add_argument
    # fmt: off
    add("--grid", action="append", nargs="+", metavar="KEY=V,V",
        help="values of a setting; tuples in brackets: hidden=[8],[64,64]")
    add("--jobs", type=options.parse_integer, metavar="N", help="runs at a time (as cores allow)")
    add("--timeout", type=float, metavar="S", help="seconds that each run may take (no limit)")
    # fmt: on
    args = options.parse_line(
        parser, words[1:], functools.partial(train_and_resume.find_mistakes, algo)
    )
    try:
        settings, base = train_and_resume.read_settings(algo, args)
        axes = _axes(algo, [w for one in args.grid or [] for w in one], settings)
        axes = {k: (None, [v]) for k, v in settings.items() if k != "name"} | axes
        seeds = args.seed or [base.get("seed", 0)]
        name = settings.get("name", base.get("name", ""))
        grid = make_grid(algo, name, axes, seeds, base)
        return run_grid(algo, grid, args, base)
    except (ConfigError, ValueError) as error:
        parser.error(str(error))
    except errors.StorageError as error:
        sys.stderr.write(f"purerl sweep: {error}\n")
        return 5


def _axes(
    algo: str, words: list[str], settings: Mapping[str, Any]
) -> dict[str, tuple[str | None, list[Any]]]:
    """Read the words behind `--grid`; report all that is wrong with them."""
    taken = {names.resolve_name(algo, key).name for key in settings}
    axes: dict[str, tuple[str | None, list[Any]]] = {}
    wrong = []
    for word in words:
        try:
            key, shorthand, values = parse_axis(algo, word)
            field = names.resolve_name(algo, key).name
            if field in taken:
                raise ConfigError(f"{field} is given twice")
            taken.add(field)
            axes[key] = (shorthand, values)
        except (ConfigError, argparse.ArgumentTypeError) as error:
            wrong.append(f"--grid {word}: {error}")
    if wrong:
        raise ConfigError("\n".join(wrong))
    return axes


def parse_axis(algo: str, word: str) -> tuple[str, str | None, list[Any]]:
    """Read `key=value,value`, with a tuple in brackets; return key, shorthand and values."""
    from purerl.cli import options

    match = re.fullmatch(r"([A-Za-z][\w:.-]*)(?:\[([\w-]*)\])?=(.*)", word, re.DOTALL)
    if match is None:
        raise ConfigError("expected KEY=VALUE,VALUE, as gamma=0.98,0.99")
    key, shorthand, text = match.groups()
    setting = names.resolve_name(algo, key)
    refuse_elsewhere(setting)
    values = [options.parse_value(setting, part) for part in split_values(text)]
    return key, shorthand, values


def refuse_elsewhere(setting: names.Setting) -> None:
    """Refuse settings that have one value for a whole grid, or are given in another way."""
    if setting.part == "run" and setting.name not in ("env", "epochs", "layers"):
        raise ConfigError(f"give it as --{setting.name.replace('_', '-')}, for the whole grid")


def split_values(text: str) -> list[str]:
    """Split at the commas that are not within brackets.

    Example:
        >>> separated("[64,64],[32],16")
        ['[64,64]', '[32]', '16']
    """
    return [part.strip() for part in re.split(r",(?![^\[(]*[\])])", text)]


def make_grid(
    algo: str,
    name: str,
    axes: Mapping[str, tuple[str | None, list[Any]]],
    seeds: list[int],
    base: Mapping[str, Any],
) -> ExperimentGrid:
    """Make a grid of key -> (shorthand, values); equal values are dropped, and that is said."""
    from purerl.runs.settings import config as configs

    envs = [
        v for k, (_, vs) in axes.items() if names.resolve_name(algo, k).name == "env" for v in vs
    ]
    envs = envs or [base[k] for k in ("env",) if base.get(k)]
    if not envs:
        raise ConfigError("--env is needed, as --env CartPole-v1.")
    grid = ExperimentGrid(name or (configs.choose_name(algo, envs[0]) if len(envs) == 1 else algo))
    for key, (shorthand, values) in {**axes, "seed": (None, seeds)}.items():
        different = list({repr(v): v for v in values}.values())
        if len(different) < len(values):
            print_lines(names.explain_duplicates(key, different))
        grid.add(key, different, shorthand, in_name=shorthand is not None)
    return grid


def run_grid(
    algo: str, grid: ExperimentGrid, args: argparse.Namespace, base: Mapping[str, Any] | None = None
) -> int:
    """Show a grid, run it unless that is all that is wanted, and show what became of it."""
    check_limits(args.num_cpu or 1, args.jobs, args.timeout)
    named = grid.named()
    refused: dict[str, str] = {}
    for name, seed, settings in named:
        try:
            tasks.complete_config(
                names.build_configuration(algo, settings, base) | {"seed": seed, "name": name}
            )
        except ConfigError as error:
            refused[name] = str(error)
    if len(refused) == len({name for name, *_ in named}):
        raise ConfigError("\n".join(dict.fromkeys(refused.values())))
    print_lines("\n".join(grid.lines()))
    if args.dry_run:
        for name, seed, settings in named:
            text = "  ".join(f"{k}={to_plain(v)}" for k, v in settings.items())
            print_lines(f"{name}  seed {seed}  {refused.get(name, text)}")
        return 0
    where = (args.num_cpu or 1, args.data_dir, bool(args.datestamp), args.jobs, args.timeout)
    try:
        sweep = run_variants(named, grid.name, algo, *where, base=base, values=grid.values())
    except KeyboardInterrupt:
        print_lines(f"left at once. Go on: {shlex.join(get_own_command())}")
        return 130
    print_lines(format_results(sweep))
    if sweep.code:
        print_lines(f"Do what is missing: {shlex.join(get_own_command())}")
    return sweep.code


def get_own_command() -> list[str]:
    """Return the command that this process was started with."""
    words = sys.orig_argv[1:]
    return ["python", *words] if words[:1] == ["-m"] else sys.argv
