"""Grids of experiments, with Spinning Up's names: every combination of values, each in a process.

    grid = ExperimentGrid("bench")
    grid.add("env_name", "CartPole-v1", in_name=True)
    grid.add("seed", [0, 10, 20])
    grid.add("ac_kwargs:hidden_sizes", [(32,), (64, 64)], "hid")
    sweep = grid.run("ppo", jobs=2)
    print(format_results(sweep))

The runs are in `data_dir/bench/<variant>/<variant>_s<seed>`; running the same grid again runs only
what is missing. Importing this imports no JAX.
"""

import itertools
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from purerl import algos, checks
from purerl.errors import ExperimentFailed
from purerl.runs.console import print_lines, try_print_lines
from purerl.runs.record import files, status
from purerl.runs.record.files import to_json
from purerl.runs.sweeps import jobs, tasks
from purerl.runs.sweeps.jobs import Plan, Say, Task, Variant
from purerl.runs.sweeps.results import Sweep, TaskResult

__all__ = ["ExperimentGrid", "call_experiment"]

Thunk = str | Callable[..., Any]


class ExperimentGrid:
    """Every combination of values of some parameters.

    Args:
        name: name of the grid and its folder, with which the names of all variants begin.
    """

    def __init__(self, name: str = "") -> None:
        self.name = files.check_name(name) if name else ""
        self.keys: list[str] = []
        self.vals: list[list[Any]] = []
        self.shs: list[str] = []
        self.in_names: list[bool] = []

    def add(self, key: str, vals: Any, shorthand: str | None = None, in_name: bool = False) -> None:
        """Add a parameter.

        Args:
            key: name of the parameter; `a:b` is the entry `b` of the argument `a`.
            vals: a list of values; anything else, a tuple too, is one value.
            shorthand: word in names; None for the first three letters of each part of the key.
            in_name: put it into names even with one value.
        """
        if not isinstance(key, str) or not key:
            raise ValueError(f"key must be a word, got {key!r}.")
        for old in self.keys:
            if key == old or key.startswith(f"{old}:") or old.startswith(f"{key}:"):
                raise ValueError(f"{key!r} clashes with {old!r}, which the grid has already.")
        values = list(vals) if isinstance(vals, list) else [vals]
        if not values:
            raise ValueError(f"{key} needs at least one value, got an empty list.")
        self.keys.append(key)
        self.vals.append(values)
        self.shs.append(default_shorthand(key) if shorthand is None else shorthand)
        self.in_names.append(in_name)

    def flat(self) -> list[dict[str, Any]]:
        """Return the variants as key -> value; the first key changes slowest."""
        return [dict(zip(self.keys, one, strict=True)) for one in itertools.product(*self.vals)]

    def variants(self) -> list[dict[str, Any]]:
        """Return the variants with nested keys as nested dictionaries."""
        return [nest(one) for one in self.flat()]

    def variant_name(self, variant: Mapping[str, Any]) -> str:
        """Return the name of a variant, flat or nested.

        The name of the grid, then `_`, shorthand and value of each parameter with several values
        or `in_name`. The seed is never in it. A parameter of bools adds its shorthand if true.
        """
        name = self.name
        columns = zip(self.keys, self.vals, self.shs, self.in_names, strict=True)
        for key, values, shorthand, in_name in columns:
            if key == "seed" or not (len(values) > 1 or in_name):
                continue
            value, word = _get(variant, key), valid_str(shorthand)
            if all(isinstance(v, bool) for v in values):
                name += f"_{word}" if value and word else ""
            else:
                name += f"_{word}{valid_str(value)}"
        return name.lstrip("_")

    def print(self) -> None:
        """Print the parameters and the number of variants."""
        print_lines("\n".join(self.lines()))

    def lines(self) -> list[str]:
        """Return what `print` prints."""
        found = [f"grid {self.name}".rstrip()]
        for key, values, shorthand in zip(self.keys, self.vals, self.shs, strict=True):
            found.append(f"  {key} [{shorthand}]: {', '.join(str(to_json(v)) for v in values)}")
        seeds = [len(v) for k, v in zip(self.keys, self.vals, strict=True) if k == "seed"]
        total = len(self.flat())
        number = total // (seeds or [1])[0]
        words = f"{number} variant{'s' * (number != 1)}, {total} run{'s' * (total != 1)}"
        return [*found, f"  {words} with their seeds" if seeds else f"  {words}"]

    def run(self, thunk: Thunk, **how: Any) -> Sweep:
        """Run what is missing of the grid, several runs at a time; one that fails stops no other.

        Args:
            thunk: name of an algorithm; a function at the top of a module, called with a variant's
                arguments and its seed; or a key of the grid whose values are such functions.
            **how: fields of `Plan`: num_cpu, data_dir, datestamp, jobs, timeout.

        Returns:
            A row for each run; `format_results` makes a table of it.
        """
        return run_variants(self.name_runs(), self.name, thunk, Plan(**how), values=self.values())

    def values(self) -> dict[str, list[Any]]:
        """Return the values of each parameter."""
        return dict(zip(self.keys, self.vals, strict=True))

    def name_runs(self) -> list[Variant]:
        """Return name, seed and settings of each run; no two runs have both equal."""
        found: dict[tuple[str, int], Variant] = {}
        taken: dict[str, dict[str, Any]] = {}
        for settings in self.flat():
            seed = settings.pop("seed", 0)
            checks.seed(seed)
            base = self.variant_name(settings) or "run"
            others = (f"{base}-{number}" for number in itertools.count(2))
            for name in itertools.chain([base], others):  # 0.1 and "0-1" are written the same
                if taken.setdefault(name, settings) == settings:
                    break
            found[name, seed] = (files.check_name(name), seed, settings)
        return list(found.values())


def run_variants(
    variants: Sequence[Variant],
    name: str,
    thunk: Thunk,
    plan: Plan,
    say: Say = try_print_lines,
    alone: bool = True,
    base: Mapping[str, Any] | None = None,
    values: Mapping[str, list[Any]] | None = None,
) -> Sweep:
    """Run what is missing of some variants, as `ExperimentGrid.run` does.

    Args:
        variants: name, seed and settings of each run.
        name: name of the grid.
        thunk: as in `ExperimentGrid.run`.
        plan: how the runs are started.
        say: function that prints a line.
        alone: as in `jobs.run_tasks`.
        base: configuration below the settings.
        values: values of each parameter, for `sweep.json`.
    """
    where = Path(plan.data_dir or status.read_user_defaults()["data_dir"]).expanduser()
    folder = where / (name or "grid")

    def make_task(variant: Variant) -> Task:
        word, seed, settings = variant
        parent = where if word == folder.name else folder
        what, rest = _resolve_thunk(thunk, settings)
        if isinstance(what, str):
            return tasks.make_algorithm_task(what, (word, seed, rest), folder, parent, plan, base)
        if plan.num_cpu != 1:
            raise ValueError("num_cpu is for algorithms; a function calls purerl.mpi.fork itself.")
        return tasks.make_function_task(what, (word, seed, nest(rest)), parent, plan)

    made = [make_task(variant) for variant in variants]
    about = {"name": name, "what": to_json(thunk), "grid": dict(values or {})}
    about["num_cpu"] = plan.num_cpu
    return jobs.run_tasks(made, folder, about, plan, say, alone)


def call_experiment(
    exp_name: str,
    thunk: Thunk,
    seed: int = 0,
    num_cpu: int = 1,
    data_dir: str | None = None,
    datestamp: bool = False,
    **kwargs: Any,
) -> TaskResult:
    """Run one experiment in a process of its own, unless it is done.

    Args:
        exp_name: name of the run, in `data_dir/exp_name/exp_name_s<seed>`.
        thunk: as in `ExperimentGrid.run`.
        seed: seed of the run.
        num_cpu: as in `Plan`; also data_dir and datestamp.
        **kwargs: settings.

    Raises:
        ExperimentFailed: if it did not finish.
    """
    checks.seed(seed)
    plan = Plan(num_cpu, data_dir, datestamp)
    variant = (files.check_name(exp_name), seed, kwargs)
    (row,) = run_variants([variant], exp_name, thunk, plan, alone=False).rows
    if row.status != "done":
        raise ExperimentFailed(f"{exp_name}, seed {seed}: {row.status}, {row.reason} ({row.log})")
    return row


def _resolve_thunk(thunk: Thunk, settings: dict[str, Any]) -> tuple[Thunk, dict[str, Any]]:
    """Return the name of an algorithm or a function, and the settings that are left for it."""
    if isinstance(thunk, str) and thunk in settings:
        settings = dict(settings)
        thunk = settings.pop(thunk)
    if isinstance(thunk, str):
        algos.check(thunk)
    else:
        tasks.check_function(thunk)
    return thunk, settings


def default_shorthand(key: str) -> str:
    """Return the first three letters or digits of each part of a key.

    Example:
        >>> default_shorthand("ac_kwargs:hidden_sizes"), default_shorthand("pi_lr")
        ('ac-hid', 'pi')
    """
    return "-".join(re.sub("[^A-Za-z0-9]", "", part[:3]) for part in key.split(":"))


def valid_str(value: Any) -> str:
    """Return a value as a part of a name.

    Example:
        >>> valid_str((64, 64)), valid_str(3e-4), valid_str("CartPole-v1"), valid_str(len)
        ('64-64', '0-0003', 'cartpole-v1', 'len')
    """
    if hasattr(value, "__name__"):
        return valid_str(value.__name__)
    if isinstance(value, tuple | list):
        return "-".join(valid_str(v) for v in value)
    return re.sub("[^a-z0-9_-]", "-", str(value).lower())


def nest(flat: Mapping[str, Any]) -> dict[str, Any]:
    """Return nested dictionaries for keys with colons.

    Example:
        >>> nest({"a:b": 1, "a:c:d": 2, "e": 3})
        {'a': {'b': 1, 'c': {'d': 2}}, 'e': 3}
    """
    made: dict[str, Any] = {}
    for key, value in flat.items():
        *parts, last = key.split(":")
        inner = made
        for part in parts:
            inner = inner.setdefault(part, {})
        inner[last] = value
    return made


def _get(variant: Mapping[str, Any], key: str) -> Any:
    """Return a value of a variant, flat or nested."""
    if key in variant:
        return variant[key]
    first, _, rest = key.partition(":")
    return _get(variant[first], rest)
