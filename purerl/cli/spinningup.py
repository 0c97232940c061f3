"""Spinning Up's command line, on purerl: `python -m purerl.run`.

    python -m purerl.run ppo --env CartPole-v1 --exp_name x --hid 32 64 --l 2 --seed 0 10 20

Words after a flag are its values, and several of them are a grid; a tuple is one word, `64,64` or
`[64,64]`. `--flag[word]` names a parameter in the names of runs, `a:b` is the entry `b` of `a`.
Importing this imports no JAX.
"""

import sys

from purerl import algos, errors
from purerl.cli import main as program
from purerl.cli.options import Axes, explain_stray_words, read_axes, split_flags
from purerl.errors import ConfigError
from purerl.runs import console
from purerl.runs.settings import names

HELP = f"""Spinning Up's command line, on purerl.

  python -m purerl.run ALGO --env ID [--flag value ...]     several values of a flag are a grid
  python -m purerl.run ALGO --help                          settings; --help-all: all
  python -m purerl.run plot DIR ...                         purerl plot
  python -m purerl.run test_policy DIR                      purerl watch

ALGO is one of {", ".join(algos.NAMES)}; a suffix _pytorch or _tf1 is ignored.

  --env      env_name, an id of Gymnasium         --exp_name   name of the runs
  --hid      ac_kwargs:hidden_sizes               --data_dir   where runs are kept
  --l        number of equal layers               --num_cpu    MPI ranks of each run, or auto
  --act      ac_kwargs:activation                 --dt         date and time in the folders
  --seed     0 10 20                              --jobs       runs at a time (as cores allow)
  --timeout  seconds that each run may take       --dry_run    show what would be run

  python -m purerl.run ppo --env CartPole-v1 --exp_name x --hid 32 64 --l 2 --seed 0 10 20
  python -m purerl.run sac --env Pendulum-v1 --hid[h] 64,64 [256,256] --lr 1e-3 3e-4 --jobs 2

docs/grids.md has all of Spinning Up's flags.
"""
LONG = {  # Spinning Up's substitutions: names of runs have the long ones
    "env": "env_name",
    "env_id": "env_name",
    "hid": "ac_kwargs:hidden_sizes",
    "act": "ac_kwargs:activation",
}
ONCE = {  # flags with one value for all runs, as `purerl sweep` has them
    "exp_name": "--name",
    "name": "--name",
    "data_dir": "--data-dir",
    "num_cpu": "--num-cpu",
    "cpu": "--num-cpu",
    "jobs": "--jobs",
    "timeout": "--timeout",
    "datestamp": "--datestamp",
    "dt": "--datestamp",
    "dry_run": "--dry-run",
}
OFF = {"--datestamp": ["--no-datestamp"], "--dry-run": []}  # switches, and their words for false
OF_A_GRID = {"--jobs", "--timeout"}  # flags that `purerl train` does not have
SAVE_FREQ = (
    "save_freq counts epochs in Spinning Up and environment steps here: give options:save_freq"
)
Item = tuple[str, str, list[str]]  # flag as typed, its key, its values


def main(argv: list[str] | None = None) -> int:
    """Run a command; return its exit code."""
    return program.run_guarded(_run_command, argv, "purerl.run")


def _run_command(words: list[str]) -> int:
    if not words or words[0] in ("help", "-h", "--help"):
        console.write_text(sys.stdout, HELP)
        return errors.DONE
    command, *rest = words
    if command in ("plot", "test_policy"):
        return program.main(["watch" if command == "test_policy" else "plot", *rest])
    algo, _, suffix = command.partition("_")
    if algo not in algos.NAMES or suffix not in ("", "pytorch", "tf1"):
        near = names.suggest(command, [*algos.NAMES, "plot", "test_policy"])
        raise ConfigError(f"unknown command {command!r}.{near} `help` shows all.")
    if suffix:
        console.print_lines(f"{command} is {algo}: purerl is in JAX alone.")
    if {"--help-all", "--help_all"} & set(rest):
        return program.main(["train", algo, "--help-all"])
    if {"help", "-h", "--help"} & set(rest):
        return program.main(["train", algo, "--help"])
    program.announce(words)
    return run_line(algo, rest)


def run_line(algo: str, words: list[str]) -> int:
    """Train in the foreground if the line is one run, else run its grid."""
    from purerl.cli.commands import sweep, train_and_resume  # which import JAX

    items, flags = split_line(words)
    axes = read_axes(algo, items)
    args = sweep.make_sweep_parser(algo, "python -m purerl.run").parse_args(flags)
    axes = repeat_layers(algo, axes)
    one_run = all(len(values) == 1 and word is None for word, values in axes.values())
    if one_run and not OF_A_GRID & {*flags}:
        return train_and_resume.train([algo, *format_run(items), *flags], "python -m purerl.run")
    seeds = axes.pop("seed", (None, [0]))
    grid = sweep.make_grid(algo, vars(args).get("name", ""), axes | {"seed": seeds}, {})
    return sweep.run_grid(algo, grid, args)


def split_line(words: list[str]) -> tuple[list[Item], list[str]]:
    """Return the parameters of a line, and its other flags as words of `purerl sweep`."""
    items: list[Item] = []
    flags: list[str] = []
    wrong: list[str] = []
    for flag, values in split_flags(words):
        name, bracket, rest = flag.lstrip("-").partition("[")
        name = name.replace("-", "_")
        once = ONCE.get(name)
        if not flag:
            wrong.append(explain_stray_words(values))
        elif name == "save_freq":
            wrong.append(f"{flag}: {SAVE_FREQ}")
        elif once is None:
            items.append((flag, LONG.get(name, name) + bracket + rest, values))
        elif len(values) > 1:
            wrong.append(f"{flag}: it has one value for all runs, got {len(values)}")
        elif once in OFF and values and values[0].lower() not in ("true", "false"):
            wrong.append(f"{flag}: expected true or false, got {values[0]!r}")
        elif once in OFF:
            flags += OFF[once] if values and values[0].lower() == "false" else [once]
        else:
            flags += [once, *values]
    if wrong:
        raise ConfigError("\n".join(wrong))
    return items, flags


def repeat_layers(algo: str, axes: Axes) -> Axes:
    """Put `--l` into the widths: `--hid 32 64 --l 2` is two networks of two layers."""
    keys = {names.resolve_name(algo, key).name: key for key in axes}
    if "layers" not in keys:
        return axes
    width = keys.get("hidden", LONG["hid"])
    default = (None, [algos.load(algo).Spec.hidden[:1]])
    word, widths = axes.get(width, default)
    if any(len(one) != 1 for one in widths):
        raise ConfigError("--l repeats one width: give --hid one number, or all layers without --l")
    both = [one * layers for one in widths for layers in axes[keys["layers"]][1]]
    return {key: axis for key, axis in axes.items() if key != keys["layers"]} | {
        width: (word, both)
    }


def format_run(items: list[Item]) -> list[str]:
    """Return the words of `purerl train` for parameters with one value each."""
    words: list[str] = []
    pairs: list[str] = []
    for _, key, values in items:
        if key in ("env_name", "seed"):
            words += ["--env" if key == "env_name" else "--seed", *values]
        else:
            pairs.append(f"{key}={values[0] if values else 'true'}")
    return [*words, "--set", *pairs] if pairs else words
