"""`purerl train` and `purerl resume`: options from the dataclasses, and stable exit codes.

0 done; 2 a mistake in what was typed; 3 not finite; 4 an environment failed; 5 storage; 6 no
checkpoint that can be used; 7 ranks that disagree; 75 stopped on request, `purerl resume` goes on.
"""

import argparse
import copy
import functools
import re
import shutil
import textwrap
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import purerl
from purerl import algos, mpi
from purerl.cli import options, run_arguments
from purerl.cli.parser import Parser
from purerl.errors import ConfigError, PurerlError, StorageError, exit_code_of
from purerl.runs.console import print_lines, print_warning
from purerl.runs.record import folder, lookup, status
from purerl.runs.settings import config as configs
from purerl.runs.settings import names as keys
from purerl.runs.settings.config import Config, Options
from purerl.runs.training import dry_run
from purerl.runs.training import train as runs
from purerl.runs.training.saving import run_on_root
from purerl.spaces import Discrete, EnvSpec

# Where `train ALGO --help` shows a field; the rest is the algorithm's.
GROUPS = {
    "Run": ("steps",),
    "Network": ("hidden", "activation", "initializer", "head_scale", "log_std_init"),
    "Logging and checkpoints": (
        *("num_test_episodes", "save_freq", "keep", "tensorboard", "wandb"),
    ),
    "Compute": ("num_envs", "devices"),
}
OTHER = {"steps": "--total-timesteps", "hidden": "--hid", "activation": "--act"}
# Options that are no settings of a run, or not of one run alone.
ELSEWHERE = (
    *("config", "set", "dry_run", "seed", "data_dir", "datestamp", "num_cpu"),
    *("grid", "jobs", "timeout"),
)
# What `train ALGO --help` leaves to `--help-all`.
RARE = (
    *("epochs", "datestamp", "layers", "initializer", "head_scale", "log_std_init", "keep"),
    *("value_target", "vf_clip", "max_grad_norm", "adam_eps", "lr_decay_updates", "devices"),
    *("recompute_advantages", "scale_rewards", "continue_episodes", "alpha_init"),
    *("target_entropy", "update_after", "updates_per_burst", "target_noise", "noise_clip"),
    *("huber", "eps_start"),
)
EXAMPLES = """
examples:
  purerl train {algo} --env {env}
  purerl train {algo} --env {env} --hid 32 --l 2 --seed 0 1 2
  purerl train {algo} --env {env} --steps 1e5 --gamma 0.98 --dry-run
"""
RESUME = f"""examples:
  purerl resume {run_arguments.RUN}
  purerl resume {run_arguments.RUN} --steps 4e5
"""
NOTES = """A tuple is one word, 64,64; `none` is no value; 1e6 is an integer. Several values of
a setting are a grid, as --grid gamma=0.98,0.99 of purerl sweep."""


def train(words: list[str], prog: str = "purerl train") -> int:
    """Train one run per seed, one after the other; `prog` is who is speaking."""
    mpi.init()  # first, so that a rank that fails from here on ends the job
    name = words[0] if words else ""
    if not name or name.startswith("-"):
        names = ", ".join(algos.NAMES)
        print_lines(f"usage: purerl train ALGO --env ID [settings]\nALGO: {names}")
        return 0 if name in ("-h", "--help") else 2
    try:
        parser = make_train_parser(name, prog)
    except ValueError as error:
        print_warning(f"purerl train: {error}")
        return 2
    args = options.parse_line(parser, words[1:], functools.partial(find_mistakes, name))
    try:
        content = keys.build_configuration(name, *read_settings(name, args))
        if not content.get("env"):
            raise ConfigError("--env is needed, as --env CartPole-v1.")
        env_fn = run_arguments.parse_env(args.env)
        seeds = args.seed or [content.get("seed", 0)]
        different = list(dict.fromkeys(seeds))
        made = [configs.from_json(content | {"seed": seed}, env_fn) for seed in different]
        made[0].schedule.resolve(args.num_cpu or 1)
        if args.dry_run and mpi.num_procs() > 1:
            raise ConfigError("a dry run is one process: give --num-cpu N instead of mpiexec.")
        if not args.dry_run:
            mpi.fork(args.num_cpu)
    except (ConfigError, ValueError, StorageError, mpi.MPIUnavailable) as error:
        parser.error(str(error))
    if len(different) < len(seeds) and mpi.is_root():
        print_lines(keys.explain_duplicates("seed", different))
    purerl.setup(devices=made[0].schedule.devices)
    if args.dry_run:
        return _run_command(
            functools.partial(dry_run.report_needs, made, env_fn, args.num_cpu or 1)
        )
    where = {"data_dir": args.data_dir, "datestamp": args.datestamp}
    if code := _run_command(functools.partial(_refuse_unfinished, made, **where)):
        return code
    for number, config in enumerate(made, 1):
        code = _run_command(functools.partial(_code, runs.train, config, env_fn, **where))
        if code:
            rest = " ".join(str(one.seed) for one in made[number:])
            if rest and mpi.is_root():
                print_warning(
                    f"purerl: not begun: seed {rest}. Type the same line with --seed {rest}"
                )
            return code
    return 0


def make_train_parser(name: str, prog: str = "purerl train") -> argparse.ArgumentParser:
    """Return the parser of `purerl train NAME`, for `cli.parse`."""
    algo = algos.load(name)
    width = min(98, shutil.get_terminal_size((100, 24)).columns - 2)
    words = {"algo": name, "env": _example(algo)}
    notes = textwrap.fill(NOTES, width, break_on_hyphens=False)
    parser = argparse.ArgumentParser(
        prog=f"{prog} {name}",
        usage=f"{prog} {name} --env ID [settings]; --help lists them",
        description=textwrap.fill(_first(algo), width),
        epilog=f"{EXAMPLES.format(**words)}\n{notes}",
        formatter_class=lambda prog: _Short(prog, 2, 26, width),
        allow_abbrev=False,
        exit_on_error=False,
    )
    titles = ("Run", "Algorithm", "Network", "Logging and checkpoints", "Compute")
    groups = {title: parser.add_argument_group(title) for title in titles}
    place = {field: title for title, fields in GROUPS.items() for field in fields}
    add = groups["Run"].add_argument
    add(
        "--env",
        "--env-id",
        "--env-name",
        dest="env",
        metavar="ID",
        help="of Gymnasium, or module:Id",
    )
    add("--seed", type=options.parse_seed, nargs="+", metavar="S", help="one run for each (0)")
    options.add_setting_flags(
        lambda field: groups[place.get(field, "Algorithm")],
        OTHER,
        *(algo.Spec, algo.SCHEDULE, Options),
    )
    add(
        "--epochs",
        type=options.parse_integer,
        metavar="INT",
        help="steps = epochs * steps-per-epoch",
    )
    add("--name", "--exp-name", metavar="WORD", help="of the runs (env-algo)")
    add("--data-dir", metavar="DIR", help="where runs are kept (runs)")
    add("--datestamp", "--dt", action=argparse.BooleanOptionalAction, help="date in folders (no)")
    add(
        "--config",
        type=Path,
        metavar="FILE",
        help="preset: JSON as a run's config.json or a part of it",
    )
    text = "settings as spec.gamma=0.98, or gamma=0.98"
    add("--set", action="append", nargs="+", metavar="KEY=VALUE", help=text)
    add("--dry-run", action="store_true", help="show sizes, memory and speed; train nothing")
    groups["Network"].add_argument(
        "--l",
        type=options.parse_integer,
        metavar="L",
        dest="layers",
        help="--hid 64 --l 2 is --hidden 64,64",
    )
    text = "MPI ranks, or auto: one for each core (1)"
    groups["Compute"].add_argument(
        "--num-cpu", "--cpu", type=options.parse_ranks, metavar="N", dest="num_cpu", help=text
    )
    rare = {action: action.help for action in parser._actions if action.dest in RARE}
    for action in rare:
        action.help = argparse.SUPPRESS
    form: Any = functools.partial(
        argparse.RawDescriptionHelpFormatter, indent_increment=2, max_help_position=30, width=width
    )
    how: Any = {"form": form, "rare": rare, "default": argparse.SUPPRESS}
    text = f"show {len(rare)} more settings and all names, and exit"
    parser.add_argument("--help-all", action=_HelpAll, help=text, **how)
    return parser


class _Short(argparse.RawDescriptionHelpFormatter):
    """Of several names of an option the first alone, of its help the first part."""

    def _format_action_invocation(self, action: argparse.Action) -> str:
        short = copy.copy(action)
        name = next(word for word in action.option_strings if word.startswith("--"))
        both = isinstance(action, argparse.BooleanOptionalAction)
        short.option_strings = [name.replace("--", "--[no-]", 1) if both else name]
        short.nargs = None if action.nargs == "+" else action.nargs
        return super()._format_action_invocation(short)

    def _expand_help(self, action: argparse.Action) -> str:
        return re.sub(r"[;:][^()]*(?= \([^()]*\)$)", "", super()._expand_help(action))


class _HelpAll(argparse.Action):
    """Show the help of all options, under all their names."""

    def __init__(self, form: Any, rare: dict[argparse.Action, str | None], **how: Any) -> None:
        super().__init__(nargs=0, **how)
        self.form, self.rare = form, rare

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        for action, text in self.rare.items():
            action.help = text
        parser.formatter_class = self.form
        parser.print_help()
        parser.exit()


def read_settings(name: str, args: argparse.Namespace) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the settings that were typed, and the configuration of the file below them."""
    base = status.read_json(args.config) if args.config else {}
    if base.get("algo", name) != name:
        raise ConfigError(f"{args.config} is for {base['algo']!r}, not {name!r}.")
    known = (*configs.KEYS, "spaces", "exp_name")
    preset = {k: v for k, v in base.items() if k not in known}  # bare names
    given = {k: v for k, v in vars(args).items() if k not in ELSEWHERE}
    for word in ("env", "epochs", "name", "layers"):
        if given[word] is None:  # of a field it is a value
            del given[word]
    pairs = _pairs(name, [word for words in args.set or [] for word in words])
    if twice := sorted(given.keys() & pairs.keys()):
        raise ConfigError("\n".join(f"--set {key}: it is given as a flag too." for key in twice))
    given |= pairs
    over = {keys.resolve_name(name, key).name for key in given}
    preset = {k: v for k, v in preset.items() if keys.resolve_name(name, k).name not in over}
    return preset | given, {k: v for k, v in base.items() if k in known}


def find_mistakes(name: str, args: argparse.Namespace) -> list[str]:
    """Return what is wrong with the values that were typed, without any environment."""
    try:
        content = keys.build_configuration(name, *read_settings(name, args))
        configs.from_json({"env": "any"} | content, spaces=keys.make_placeholder_spaces(name))
    except (ConfigError, StorageError) as error:
        return str(error).split("\n")
    return []


def _pairs(name: str, words: list[str]) -> dict[str, Any]:
    """Read words of the form key=value, each by the type of its setting."""
    found: dict[str, Any] = {}
    wrong = []
    for word in words:
        key, equals, value = word.partition("=")
        try:
            if not equals:
                raise ConfigError("expected KEY=VALUE, as gamma=0.98")
            setting = keys.resolve_name(name, key)
            if setting.name in ("seed", "data_dir", "datestamp", "num_cpu"):
                raise ConfigError(f"give it as --{setting.name.replace('_', '-')}")
            if key in found:
                raise ConfigError("it is given twice")
            found[key] = options.parse_value(setting, value)
        except (ConfigError, argparse.ArgumentTypeError) as error:
            wrong.append(f"--set {word}: {error}")
    if wrong:
        raise ConfigError("\n".join(wrong))
    return found


def resume(words: list[str]) -> int:
    """Go on with a run."""
    mpi.init()
    text = "Go on with a run that was stopped, killed or is done."
    parser = Parser("resume", text, RESUME)
    add = parser.add_argument
    # fmt: off
    add("run", type=Path, help="its folder")
    add("--steps", type=options.parse_integer, metavar="N",
        help="new total (default: as it was started)")
    add("--checkpoint", type=run_arguments.parse_checkpoint, default="last", metavar="WHICH",
        help="last, best or a step, which deletes those that came after (default: last)")
    add("--env", metavar="ID", help="where the run's environment is module:Id, to allow it")
    add("--num-cpu", "--num_cpu", "--cpu", type=options.parse_ranks, metavar="N",
        help="MPI ranks, as many as it was started with (default: 1)")
    # fmt: on
    args = parser.parse_args(words)
    if not (args.run / "config.json").is_file():
        parser.error(lookup.explain_no_run(args.run))
    try:
        devices = int(status.read_json(args.run / "config.json")["schedule"].get("devices", 1))
    except (KeyError, TypeError, AttributeError, ValueError, StorageError) as error:
        parser.error(f"{args.run} is no run: {error}")
    try:
        env_fn = run_arguments.parse_env(args.env, args.run)
        mpi.fork(args.num_cpu)
    except (ValueError, mpi.MPIUnavailable) as error:
        parser.error(str(error))
    purerl.setup(devices=devices)
    given = {"steps": args.steps, "at": args.checkpoint}
    return _run_command(functools.partial(_code, runs.resume, args.run, env_fn, **given))


def _refuse_unfinished(made: list[Config], **where: Any) -> int:
    """Refuse runs of which any is there and not finished, before the first one trains; return 0."""
    run_on_root(lambda: folder.refuse_unfinished(made, **where), shared=False)
    return 0


def _code(run: Callable[..., runs.Outcome], *args: Any, **kwargs: Any) -> int:
    return run(*args, **kwargs).code


def _run_command(run: Callable[[], int]) -> int:
    """Run, and return the exit code that says how it ended."""
    try:
        return run()
    except PurerlError as error:
        code = exit_code_of(error)
        if not mpi.all_raise(error):
            mpi.fail(error, code)  # of this rank alone: it ends the job, with its traceback
        notes = "".join(f"\n  {note}" for note in getattr(error, "__notes__", ()))
        if mpi.is_root():
            print_warning(f"purerl: {error}{notes}")
        return code


def _example(algo: ModuleType) -> str:
    try:
        algo.Spec(EnvSpec((4,), Discrete(2)))
    except ValueError:
        return "Pendulum-v1"
    return "CartPole-v1"


def _first(algo: ModuleType) -> str:
    return str(algo.__doc__).partition("\n")[0]
