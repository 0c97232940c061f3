"""Spinning Up's command line, on purerl.

    python -m purerl.run ppo --env CartPole-v1 --exp_name x --hid 32 64 --l 2 --seed 0 10 20

Words after a flag are its values, and several of them are a grid; a tuple is one word, `64,64` or
`[64,64]`. `--flag[word]` calls a parameter by a word of its own in the names of runs, `a:b` is the
entry `b` of `a`. Nothing is evaluated: values are read by the type of the setting. Importing this
imports no JAX.
"""

import argparse
import re
import sys
from typing import Any

from purerl import algos, errors
from purerl.cli import main as program
from purerl.errors import ConfigError
from purerl.runs import console
from purerl.runs.settings import names

HELP = f"""Spinning Up's command line, on purerl.

  python -m purerl.run ALGO --env ID [--flag value ...]     several values of a flag are a grid
  python -m purerl.run ALGO --help                          settings; --help-all: all
  python -m purerl.run plot DIR ...                         purerl plot
  python -m purerl.run test_policy DIR                      purerl watch

ALGO is one of {", ".join(algos.NAMES)}; _pytorch and _tf1 after it change nothing.

  --env      env_name, an id of Gymnasium         --exp_name   name of the runs
  --hid      ac_kwargs:hidden_sizes               --data_dir   where runs are kept
  --l        number of layers, each as wide       --num_cpu    MPI ranks of each run, or auto
  --act      ac_kwargs:activation                 --dt         date and time in the folders
  --seed     0 10 20                              --jobs       runs at a time (as cores allow)
  --timeout  seconds that each run may take       --dry_run    show what would be run

  python -m purerl.run ppo --env CartPole-v1 --exp_name x --hid 32 64 --l 2 --seed 0 10 20
  python -m purerl.run sac --env Pendulum-v1 --hid[h] 64,64 [256,256] --lr 1e-3 3e-4 --jobs 2

docs/grids.md has all of Spinning Up's flags.
"""
WORDS = {  # Spinning Up's substitutions: names of runs have the long ones
    "env": "env_name",
    "env_id": "env_name",
    "hid": "ac_kwargs:hidden_sizes",
    "act": "ac_kwargs:activation",
    "cpu": "num_cpu",
    "dt": "datestamp",
}
SINGLE = ("exp_name", "data_dir", "datestamp", "num_cpu", "jobs", "timeout", "dry_run")
OF_A_GRID = {"jobs", "timeout"}  # what a single run in the foreground does not know
SWITCHES = {"datestamp": "--datestamp", "dry_run": "--dry-run"}
SAVE_FREQ = (
    "save_freq counts epochs in Spinning Up and environment steps here: give options:save_freq"
)

Axes = dict[str, tuple[str | None, list[Any]]]


def main(argv: list[str] | None = None) -> int:
    """Run a command; return its exit code."""
    return program.run_guarded(_command, argv)


def _command(words: list[str]) -> int:
    if not words or words[0] in ("help", "-h", "--help"):
        console.write_text(sys.stdout, HELP)
        return 0
    command, *rest = words
    if command == "plot":
        return program.main(["plot", *rest])
    if command == "test_policy":
        return program.main(["watch", *rest])
    algo, _, suffix = command.partition("_")
    if algo not in algos.NAMES or suffix not in ("", "pytorch", "tf1"):
        near = names.suggest(command, [*algos.NAMES, "plot", "test_policy"])
        console.print_warning(f"purerl.run: unknown command {command!r}.{near} `help` shows all.")
        return 2
    if suffix:
        console.print_lines(f"{command} is {algo}: purerl is in JAX alone.")
    if {"help", "-h", "--help", "--help-all", "--help_all"} & set(rest):
        every = {"--help-all", "--help_all"} & set(rest)
        return program.main(["train", algo, "--help-all" if every else "--help"])
    program.announce(words)
    try:
        axes, single = read(algo, rest)
        return _run(algo, axes, single)
    except (ConfigError, ValueError, errors.StorageError) as error:
        console.print_warning(f"purerl.run {algo}: {error}")
        return 5 if isinstance(error, errors.StorageError) else 2


def read(algo: str, words: list[str]) -> tuple[Axes, dict[str, Any]]:
    """Read a line of Spinning Up's: parameters with their values, and what is for all runs."""
    from purerl.cli import options

    axes: Axes = {}
    single: dict[str, Any] = {}
    wrong: list[str] = []
    for flag, values in options.split_flags(words):
        if not flag:
            wrong.append(options.explain_stray_words(values))
            continue
        try:
            match = re.fullmatch(r"--?([A-Za-z][\w:.-]*)(?:\[([\w-]*)\])?", flag)
            if match is None:
                raise ConfigError("no flag")
            key = match[1].replace("-", "_")
            key = WORDS.get(key, key)
            if key in axes or key in single:
                raise ConfigError("it is there twice")
            if key in SINGLE:
                single[key] = _single(key, values)
            else:
                axes[key] = (match[2], _values(algo, key, values))
        except (ConfigError, argparse.ArgumentTypeError) as error:
            wrong.append(f"{flag}: {error}")
    if wrong:
        raise ConfigError("\n".join(wrong))
    return _layers(algo, axes), single


def _values(algo: str, key: str, words: list[str]) -> list[Any]:
    from purerl.cli import options

    if key == "save_freq":
        raise ConfigError(SAVE_FREQ)
    setting = names.resolve_name(algo, key)
    if setting.part == "run" and setting.name not in ("env", "seed", "epochs", "layers"):
        raise ConfigError(f"it has one value for all runs, as --{setting.name}")
    if not words and setting.hint is not bool:
        raise ConfigError("expected a value")
    values = [options.parse_value(setting, word) for word in words or ["true"]]
    return (
        [names.normalise_activation(v) for v in values] if setting.name == "activation" else values
    )


def _single(key: str, words: list[str]) -> Any:
    from purerl.cli import options

    if len(words) > 1:
        raise ConfigError(f"it has one value for all runs, got {len(words)}")
    if key in SWITCHES:
        return options.parse_value(names.Setting("run", key, bool), words[0] if words else "true")
    if not words:
        raise ConfigError("expected a value")
    if key == "timeout":
        return options.parse_value(names.Setting("run", key, float), words[0])
    readers = {"num_cpu": options.parse_ranks, "jobs": options.parse_integer}
    return readers.get(key, str)(words[0])


def _layers(algo: str, axes: Axes) -> Axes:
    """Put `--l` into the widths: `--hid 32 64 --l 2` is two networks of two layers."""
    number = next((k for k in axes if names.resolve_name(algo, k).name == "layers"), None)
    if number is None:
        return axes
    layers = axes[number][1]
    width = next((k for k in axes if names.resolve_name(algo, k).name == "hidden"), WORDS["hid"])
    if width not in axes:
        axes = axes | {width: (None, [names.get_sources(algo)["spec"].hidden[:1]])}
    shorthand, widths = axes[width]
    if any(len(one) != 1 for one in widths):
        raise ConfigError("--l repeats one width: give --hid one number, or all layers without --l")
    both = [one * n for one in widths for n in layers]
    return {k: (shorthand, both) if k == width else v for k, v in axes.items() if k != number}


def _run(algo: str, axes: Axes, single: dict[str, Any]) -> int:
    """Train where there is one run, without what a grid alone has; else run the grid."""
    from purerl.cli.commands import sweep, train_and_resume

    seeds = axes.pop("seed", (None, [0]))[1]
    grid = sweep.make_grid(algo, single.get("exp_name", ""), axes, seeds, {})
    if len(grid.flat()) == 1 and not any(grid.in_names) and not OF_A_GRID & single.keys():
        return train_and_resume.train([algo, *_words(grid, single)], "python -m purerl.run")
    args = argparse.Namespace(**{name: single.get(name) for name in SINGLE})
    return sweep.run_grid(algo, grid, args)


def _words(grid: Any, single: dict[str, Any]) -> list[str]:
    """Return the words of `purerl train` for a grid of one run."""
    (settings,) = grid.flat()
    seed, env = settings.pop("seed"), settings.pop("env_name")
    words = ["--env", env, "--seed", str(seed)]
    for name, flag in (("exp_name", "--name"), ("data_dir", "--data-dir"), ("num_cpu", "--cpu")):
        if name in single:
            words += [flag, str(single[name])]
    words += [flag for name, flag in SWITCHES.items() if single.get(name)]
    pairs = [f"{key}={_word(value)}" for key, value in settings.items()]
    return [*words, "--set", *pairs] if pairs else words


def _word(value: Any) -> str:
    """Return a value as a word that is read back the same."""
    if isinstance(value, tuple):
        return f"[{','.join(map(repr, value))}]"
    return str(value) if isinstance(value, str) else repr(value).lower()


if __name__ == "__main__":
    sys.exit(main())
