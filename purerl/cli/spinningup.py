"""Spinning Up's command lines, run by purerl: `python -m purerl.run`.

    python -m purerl.run ppo --env CartPole-v1 --exp_name x --hid 32 64 --l 2 --seed 0 10 20

Several values after a flag form a grid. A tuple has no spaces: `64,64` or `[64,64]`. `--flag[word]`
puts `word` into the names of runs. `a:b` is the entry `b` of `a`. Importing this imports no JAX.
"""

import sys

from purerl import algos, errors
from purerl.cli import main as program
from purerl.cli.options import Axes, Item, Parser, explain_stray_words, read_axes, split_flags
from purerl.errors import ConfigError
from purerl.runs import console
from purerl.runs.settings import aliases, presets
from purerl.runs.settings.presets import SPINNING_UP

HELP = f"""Spinning Up's command lines, run by purerl.

  python -m purerl.run ALGO --env ID [--flag value ...]  train; several values form a grid
  python -m purerl.run ALGO --help                       list settings; --help-all: all of them
  python -m purerl.run plot DIR ...                      the same as `purerl plot`
  python -m purerl.run test_policy DIR                   the same as `purerl watch`

ALGO is one of {", ".join(algos.NAMES)}.
The suffixes _pytorch and _tf1 are ignored.

  --env      Gymnasium id (env_name)           --exp_name   name of the runs
  --hid      units of each hidden layer        --data_dir   folder of all runs
  --l        number of hidden layers           --num_cpu    MPI ranks of each run, or auto
  --act      activation function               --dt         date and time in folder names
  --seed     seeds, for example 0 10 20        --jobs       runs at a time (as cores allow)
  --timeout  time limit of a run, in seconds   --dry_run    show the runs, start none

  python -m purerl.run ppo --env CartPole-v1 --exp_name x --hid 32 64 --l 2 --seed 0 10 20
  python -m purerl.run sac --env Pendulum-v1 --hid[h] 64,64 [256,256] --lr 1e-3 3e-4 --jobs 2

Runs use the preset `spinningup`; --preset none uses the defaults of `purerl train`.
docs/guides/from_spinning_up.md lists all of Spinning Up's flags.
"""
# Short flag -> Spinning Up's long name, from which names of runs are made.
LONG = {"env": "env_name", "env_id": "env_name"}
LONG |= {"hid": "ac_kwargs:hidden_sizes", "act": "ac_kwargs:activation"}
OTHERS = {"plot": "plot", "test_policy": "watch"}  # names of the same commands in `purerl`
PROG = "python -m purerl.run"
SWITCHES = {"datestamp": ["--no-datestamp"], "dry_run": []}  # and the flags for false
OF_A_GRID = {"jobs", "timeout"}  # flags that `purerl train` does not have
# Flags with one value for all runs.
ONCE = {"name", "data_dir", "num_cpu", "preset", *SWITCHES, *OF_A_GRID}
SAVE_FREQ = "save_freq counts epochs in Spinning Up. Give environment steps as --options:save_freq"


def main(argv: list[str] | None = None) -> int:
    """Run a command; return its exit code."""
    return program.run_and_report(_run_command, argv, "purerl.run")


def _run_command(words: list[str]) -> int:
    if not words or words[0] in ("help", "-h", "--help"):
        console.write_text(sys.stdout, HELP)
        return errors.DONE
    command, *rest = words
    if command in OTHERS:
        return program.main([OTHERS[command], *rest])
    algo, _, suffix = command.partition("_")
    if algo not in algos.NAMES or suffix not in ("", "pytorch", "tf1"):
        near = aliases.suggest(command, [*algos.NAMES, *OTHERS])
        raise ConfigError(f"unknown command {command!r}.{near} `{PROG} help` lists all.")
    if suffix:
        console.print_lines(f"{command} runs {algo} in JAX; the suffix is ignored.")
    if asked := {"help", "-h", "--help", "--help-all", "--help_all"} & {*rest}:
        return program.main(["train", algo, "--help-all" if "all" in "".join(asked) else "--help"])
    program.announce(words)
    return run_line(algo, rest)


def run_line(algo: str, words: list[str]) -> int:
    """Train in the foreground if the command line is one run; otherwise run a sweep."""
    from purerl.cli.commands import sweep, train_and_resume  # these import JAX

    parser = train_and_resume.make_parser(algo, [], "purerl sweep", PROG)
    items, flags = split_line(words, parser)
    axes = repeat_layers(algo, read_axes(algo, items))
    args = parser.parse_args(flags)
    if args.preset is None:  # lengths of epochs, which depend on the run in `purerl train`
        args.preset = SPINNING_UP if SPINNING_UP in presets.read_presets(algo) else presets.NONE
        flags += ["--preset", args.preset]
    one_run = all(len(values) == 1 and word is None for word, values in axes.values())
    if one_run and (args.jobs, args.timeout) == (None, None):
        own = {"env_name": "--env", "seed": "--seed"}
        line = [word for _, k, v in items if k in own for word in (own[k], *v)]
        pairs = [f"{k}={v[0] if v else 'true'}" for _, k, v in items if k not in own]
        line += ["--set", *pairs] if pairs else []
        return train_and_resume.train([algo, *line, *flags], PROG)
    _, args.seed = axes.pop("seed", (None, None))
    axes["name"] = (None, [vars(args).get("name")])
    _, base, _ = train_and_resume.read_settings(algo, args)
    return sweep.run_grid(algo, axes, args, base)


def split_line(words: list[str], parser: Parser) -> tuple[list[Item], list[str]]:
    """Split a command line into the settings of runs and the flags of `purerl sweep`."""
    items, flags, wrong = list[Item](), list[str](), list[str]()
    known = {flag: action.dest for action in parser._actions for flag in action.option_strings}
    for typed, values in split_flags(words):
        name, bracket, rest = typed.lstrip("-").partition("[")
        name = name.replace("-", "_")
        flag = "--" + name.replace("_", "-")
        once = known.get(flag, "")
        off = [word.lower() for word in values] == ["false"]
        if not typed:
            wrong.append(explain_stray_words(values))
        elif name == "save_freq":
            wrong.append(f"{typed}: {SAVE_FREQ}")
        elif once not in ONCE:
            items.append((typed, LONG.get(name, name) + bracket + rest, values))
        elif len(values) > 1:
            wrong.append(f"{typed}: expected one value for all runs, got {len(values)}")
        elif once not in SWITCHES:
            flags += [flag, *values]
        elif not values or off or values[0].lower() == "true":
            flags += SWITCHES[once] if off else [flag]
        else:
            wrong.append(f"{typed}: expected true or false, got {values[0]!r}")
    if wrong:
        raise ConfigError("\n".join(wrong))
    return items, flags


def repeat_layers(algo: str, axes: Axes) -> Axes:
    """Apply `--l` to the widths: `--hid 32 64 --l 2` means two networks of two layers each."""
    keys = {aliases.resolve_name(algo, key).name: key for key in axes}
    if "layers" not in keys:
        return axes
    _, layers = axes.pop(keys["layers"])
    width = keys.get("hidden", LONG["hid"])
    word, widths = axes.get(width, (None, [algos.load(algo).Spec.hidden[:1]]))
    if any(len(one) != 1 for one in widths):
        raise ConfigError("--l repeats one width. Give --hid one number, or all layers without --l")
    return axes | {width: (word, [one * number for one in widths for number in layers])}
