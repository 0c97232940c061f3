"""`purerl train` and `purerl resume`: train new runs, and continue an interrupted run."""

import argparse
import copy
import functools
import re
import shutil
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import purerl
from purerl import algos, errors, mpi
from purerl.cli import checkpoint_arguments as arguments
from purerl.cli import options, values
from purerl.cli.options import Parser
from purerl.mpi.host import run_on_root
from purerl.runs.console import print_lines, print_warning
from purerl.runs.record import folder, status
from purerl.runs.settings import aliases, presets
from purerl.runs.settings import config as configs
from purerl.runs.settings.presets import Preset
from purerl.runs.training import dry_run
from purerl.runs.training import train as runs

TITLES = ("Run", "Algorithm", "Network", "Logging and checkpoints", "Compute")
RARE = ("epochs", "datestamp", "layers")  # flags for `--help-all`, besides the rare fields
EXAMPLES = """
examples:
  {command} {algo} --env {env}
  {command} {algo} --env {env} --hid 32 --l 2 --seed 0 1 2
  {command} {algo} --env {env} --steps 1e5 --gamma 0.98 --dry-run
"""
NOTES = """Write a tuple without spaces (64,64), None as `none`, a large integer also as 1e6.
`purerl sweep` trains with several values: --grid gamma=0.98,0.99."""


def train(words: list[str], prog: str = "purerl train") -> int:
    """Train one run per seed, one after the other or together.

    `prog` is the name of the command in errors.
    """
    mpi.init()  # first: from here on, a rank that fails ends the job
    name = words[0] if words else ""
    if not name or name.startswith("-"):
        print_lines(f"usage: purerl train ALGO --env ID [settings]\nALGO: {', '.join(algos.NAMES)}")
        if name in ("-h", "--help"):
            return errors.DONE
        raise errors.ConfigError("the algorithm comes first, without a flag: purerl train ppo.")
    algo = arguments.parse_algo(name)
    args = make_parser(algo, words[1:], prog=prog).parse_args(words[1:])
    settings, base, preset = read_settings(algo, args)
    own = {aliases.resolve_name(algo, key).name for key in settings}
    notes = [presets.describe_preset(preset, own)] if preset else []
    content = aliases.build_configuration(algo, settings, base)
    if not content.get("env"):
        raise errors.ConfigError("--env is missing. Give one, for example --env CartPole-v1.")
    env_fn = arguments.parse_env(vars(args).get("env"))
    seeds, dropped = aliases.drop_duplicates("seed", args.seed or [content.get("seed", 0)])
    made = [configs.from_json(content | {"seed": seed}, env_fn, custom=algo) for seed in seeds]
    made[0].schedule.resolve(args.num_cpu or 1)
    if args.together and (args.num_cpu or 1) > 1:
        raise errors.ConfigError(
            f"--together trains all seeds in one process, and --num-cpu {args.num_cpu} each seed "
            f"in several. Leave one of them out."
        )
    if args.dry_run and mpi.num_procs() > 1:
        raise errors.ConfigError("a dry run uses one process. Replace mpiexec by --num-cpu N.")
    if not args.dry_run:
        mpi.fork(args.num_cpu)
    if dropped and mpi.is_root():
        print_lines(dropped)
    purerl.setup(devices=made[0].schedule.devices)
    if args.dry_run:
        for line in notes:
            print_lines(line)
        dry_run.report_needs(made, env_fn, args.num_cpu or 1, args.together)
        return errors.DONE
    where = {"data_dir": args.data_dir, "datestamp": args.datestamp}
    if args.together:
        ends = runs.train_together(made, env_fn, notes=notes, **where)
        return max(end.code for end in ends)
    contents = [configs.to_json(config) for config in made]
    run_on_root(lambda: folder.check_earlier_runs(contents, **where), shared=False)
    for number, config in enumerate(made, 1):
        rest = " ".join(str(one.seed) for one in made[number:])
        note = f"not started: seed {rest}. Run the same command with --seed {rest}"
        try:
            code = runs.train(config, env_fn, notes=notes, **where).code
        except BaseException as error:
            if rest:
                error.add_note(note)
            raise
        if code:
            if rest and mpi.is_root():
                print_warning(f"purerl train: {note}")
            return code
    return errors.DONE


def resume(words: list[str]) -> int:
    """Continue a run, or several in one program."""
    mpi.init()
    text = "Continue a run. Checkpoints after the chosen one are deleted."
    parser = arguments.make_parser("resume", text, f"{arguments.RUN} --steps 4e5", several=True)
    text = "new total number of environment steps (default: unchanged)"
    parser.add_argument("--steps", type=values.parse_integer, metavar="N", help=text)
    text = "number of MPI ranks, the same as before (default: 1)"
    parser.add_argument("--num-cpu", "--cpu", type=values.parse_ranks, metavar="N", help=text)
    text = "continue several runs, which differ only in their seeds, in one program"
    parser.add_argument("--together", action="store_true", help=text)
    args = parser.parse_args(words)
    if len(args.run) > 1 and not args.together:
        raise errors.ConfigError("several runs continue only in one program. Add --together.")
    found: list[Path] = []
    for given in args.run:
        below = [one.path for one in status.list_runs(given)] if args.together else []
        found += below or [status.find_run(given)]
    devices = status.read_devices(found[0])
    env_fn, algo = arguments.parse_env(args.env, found[0]), arguments.parse_algo(args.algo)
    mpi.fork(args.num_cpu)
    purerl.setup(devices=devices)
    how: Any = {"steps": args.steps, "at": args.checkpoint, "algo": algo}
    return max(end.code for end in runs.resume_together(found, env_fn, **how))


def read_settings(
    algo: Any, args: argparse.Namespace
) -> tuple[dict[str, Any], dict[str, Any], Preset | None]:
    """Return the settings of the command line, the configuration below them, and its preset."""
    if args.config and args.preset not in (None, presets.NONE):
        raise errors.ConfigError("--config and --preset both give settings. Give only one of them.")
    base = status.read_json(args.config) if args.config else {}
    word = presets.NONE if args.config else args.preset
    if preset := presets.choose_preset(algo, vars(args).get("env"), word):
        base = aliases.build_configuration(algo, preset.settings)
    if base.get("algo", name := algos.get_name(algo)) != name:
        raise errors.ConfigError(f"{args.config} is for {base['algo']!r}, not {name!r}.")
    fields = aliases.list_settings(algo).keys() - {*aliases.COMMAND}
    typed = {key: value for key, value in vars(args).items() if key in fields}
    items = options.split_pairs("--set", args.set, several=False)
    axes = options.read_axes(algo, items, aliases.COMMAND, typed)
    typed |= {key: value for key, (_, (value,)) in axes.items()}
    own = (*configs.KEYS, "spaces", "exp_name")
    over = {aliases.resolve_name(algo, key).name for key in typed}
    below = {k: v for k, v in base.items() if k in own}
    loose = {k: v for k, v in base.items() if k not in own}  # settings that are in no part
    loose = {k: v for k, v in loose.items() if aliases.resolve_name(algo, k).name not in over}
    return loose | typed, below, preset


def find_mistakes(algo: Any, args: argparse.Namespace) -> list[str]:
    """Return the mistakes in the values of a command line, without making an environment."""
    try:
        settings, base, _ = read_settings(algo, args)
        content = aliases.build_configuration(algo, settings, base)
        spaces = configs.make_placeholder_spaces(algo, content)
        configs.from_json({"env": "any"} | content, spaces=spaces, custom=algo)
    except (errors.ConfigError, errors.StorageError) as error:
        return str(error).split("\n")
    return []


def make_parser(
    algo: Any, words: Sequence[str], command: str = "purerl train", prog: str = ""
) -> Parser:
    """Return the parser of `train` or `sweep`; `words` decide between short and full help."""
    full = bool({"--help-all", "--help_all"} & {*words})
    width = min(98, max(20, shutil.get_terminal_size((100, 24)).columns - 2))
    form = argparse.RawDescriptionHelpFormatter if full else _ShortHelp
    module, name = algos.load(algo), algos.get_name(algo)
    env = "CartPole-v1" if "discrete" in algos.get_facts(algo).actions else "Pendulum-v1"
    grid = "--grid KEY=VALUE,VALUE " if command == "purerl sweep" else ""
    env += " --grid activation=tanh,relu" if grid else ""
    examples = EXAMPLES.format(command=command, algo=algo, env=env)
    parser = Parser(
        name,
        textwrap.fill(str(module.__doc__).partition("\n")[0], width),
        f"{examples}\n{textwrap.fill(NOTES, width, break_on_hyphens=False)}",
        prog=f"{prog or command} {name}",
        usage=f"%(prog)s --env ID {grid}[settings]; --help lists them",
        formatter_class=lambda prog: form(prog, 2, 30 if full else 26, width),
    )
    parser.check = functools.partial(find_mistakes, algo)
    for title in TITLES:
        parser.group(title)
    _add_run_flags(parser, bool(grid))
    options.add_settings(parser, module.Spec, module.SCHEDULE, configs.Options)
    rare = [*parser.rare, *(action for action in parser._actions if action.dest in RARE)]
    for action in rare if not full else ():
        action.help = argparse.SUPPRESS
    text = f"show {len(rare)} more settings and all flag names, and exit"
    parser.add_argument("--help-all", action="help", help=text)
    return parser


def _add_run_flags(parser: Parser, grid: bool) -> None:
    add = parser.group("Run").add_argument
    absent: Any = {"default": argparse.SUPPRESS}  # for flags that are settings
    # fmt: off
    add("--env", "--env-id", "--env-name", dest="env", metavar="ID",
        help="Gymnasium id, module:Id of a custom one, or jax:Id", **absent)
    add("--seed", type=values.parse_seed, nargs="+", metavar="S", help="seeds, one run each (0)")
    if not grid:
        add("--together", action="store_true", help="train all seeds in one program")
    add("--epochs", type=values.parse_integer, metavar="INT",
        help="number of epochs, which sets steps to epochs * steps-per-epoch", **absent)
    add("--name", "--exp-name", metavar="WORD", help="name of the runs (env-algo)", **absent)
    add("--data-dir", metavar="DIR", help="folder of all runs (runs)")
    add("--datestamp", "--dt", action=argparse.BooleanOptionalAction, help="date in folders (no)")
    add("--config", type=Path, metavar="FILE",
        help="JSON file with settings, for example a config.json")
    add("--preset", metavar="NAME",
        help="`purerl show ALGO` lists presets; none: defaults (the environment's)")
    add("--set", action="append", nargs="+", metavar="KEY=VALUE",
        help="settings, for example gamma=0.98 or spec.gamma=0.98")
    add("--dry-run", action="store_true", help="show sizes, memory and speed; train nothing")
    parser.group("Network").add_argument("--l", type=values.parse_integer, metavar="L",
        dest="layers", help="number of layers; --hid 64 --l 2 means 64,64", **absent)
    parser.group("Compute").add_argument("--num-cpu", "--cpu", type=values.parse_ranks,
        metavar="N", help="number of MPI ranks, or auto: one per core (1)")
    if grid:
        add = parser.group("Sweep").add_argument
        add("--grid", action="append", nargs="+", metavar="KEY=V,V",
            help="values of a setting, for example hidden=[8],[64,64]")
        add("--jobs", type=values.parse_integer, metavar="N",
            help="number of runs at a time (as cores allow)")
        add("--timeout", type=values.parse_float, metavar="S",
            help="time limit of each run in seconds (no limit)")
    # fmt: on


class _ShortHelp(argparse.RawDescriptionHelpFormatter):
    """Show only the first flag of each option and the first clause of its help."""

    def _format_action_invocation(self, action: argparse.Action) -> str:
        short = copy.copy(action)
        name = next(word for word in action.option_strings if word.startswith("--"))
        both = isinstance(action, argparse.BooleanOptionalAction)
        short.option_strings = [name.replace("--", "--[no-]", 1) if both else name]
        short.nargs = None if action.nargs == "+" else action.nargs
        return super()._format_action_invocation(short)

    def _expand_help(self, action: argparse.Action) -> str:
        return re.sub(r"[;:][^()]*(?= \([^()]*\)$)", "", super()._expand_help(action))
