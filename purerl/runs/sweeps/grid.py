"""Grids of experiments, as in Spinning Up: each combination of values runs in its own process.

docs/guides/grids.md has an example. This module does not import JAX.
"""

import functools
import itertools
import math
import re
from collections.abc import Mapping, Sequence
from operator import getitem
from typing import Any

from purerl import algos, checks
from purerl.errors import ExperimentFailed
from purerl.runs.console import print_lines
from purerl.runs.record import files, status
from purerl.runs.sweeps import jobs, tasks
from purerl.runs.sweeps.jobs import Plan, Task, Variant
from purerl.runs.sweeps.results import Sweep, TaskResult

Thunk = str | tasks.Thunk


class ExperimentGrid:
    """Grid of experiments: every combination of the values of its parameters.

    Args:
        name: Name of the grid and its folder; the names of all variants begin with it.
    """

    def __init__(self, name: str = "") -> None:
        self.name = files.check_name(name) if name else ""
        self.values: dict[str, list[Any]] = {}
        self.shorthands: dict[str, str] = {}
        self.in_names: set[str] = set()  # keys that appear in names even with a single value

    def add(self, key: str, vals: Any, shorthand: str | None = None, in_name: bool = False) -> None:
        """Add a parameter.

        Args:
            key: Name of the parameter; `a:b` is the entry `b` of the argument `a`.
            vals: List of values. Anything else, even a tuple, is a single value.
            shorthand: Key in names; None for the first three letters of each part of the key.
            in_name: Whether the parameter appears in names even with a single value.
        """
        if not isinstance(key, str) or not key:
            raise ValueError(f"key must be a string that is not empty, got {key!r}.")
        for old in self.values:
            if key == old or key.startswith(f"{old}:") or old.startswith(f"{key}:"):
                raise ValueError(f"{key!r} clashes with {old!r} in the grid. Add only one of them.")
        values = list(vals) if isinstance(vals, list) else [vals]
        if not values:
            raise ValueError(f"{key} must have at least one value, got an empty list.")
        default = "-".join(re.sub("[^A-Za-z0-9]", "", part[:3]) for part in key.split(":"))
        self.values[key] = values
        self.shorthands[key] = default if shorthand is None else shorthand
        self.in_names |= {key} if in_name else set()

    def print(self) -> None:
        """Print the parameters and the numbers of variants and runs."""
        lines = [f"grid {self.name}".rstrip()]
        for key, values in self.values.items():
            shown = ", ".join(str(files.to_json(value)) for value in values)
            lines.append(f"  {key} [{self.shorthands[key]}]: {shown}")
        total = math.prod(map(len, self.values.values()))
        number = total // len(self.values.get("seed", [0]))
        counts = f"  {number} variant{'s' * (number != 1)}, {total} run{'s' * (total != 1)}"
        print_lines("\n".join([*lines, counts + " (one per seed)" * ("seed" in self.values)]))

    def run(self, thunk: Thunk, **how: Any) -> Sweep:
        """Run all variants that are not done, several at a time; `format_results` shows results.

        Args:
            thunk: Algorithm name, function, or key of the grid whose values are functions. They
                must be at the top of a module, and take a variant's arguments and a seed.
            **how: Fields of `Plan`: num_cpu, data_dir, datestamp, jobs, timeout.
        """
        return run_variants(self.name_runs(), self.name, thunk, Plan(**how), self.values)

    def name_runs(self) -> list[Variant]:
        """Return the name, seed and settings of each run; the first key changes slowest."""
        found: dict[tuple[str, int], Variant] = {}
        taken: dict[str, dict[str, Any]] = {}
        for values in itertools.product(*self.values.values()):
            settings = dict(zip(self.values, values, strict=True))
            seed = settings.pop("seed", 0)
            checks.seed(seed)
            base = self.variant_name(settings) or "run"
            others = (f"{base}-{number}" for number in itertools.count(2))
            for name in itertools.chain([base], others):  # 0.1 and "0-1" have the same name
                if taken.setdefault(name, settings) == settings:
                    break
            found[name, seed] = (files.check_name(name), seed, settings)
        return list(found.values())

    def variants(self) -> list[dict[str, Any]]:
        """Return the arguments of each variant, nested as a function receives them."""
        rows = itertools.product(*self.values.values())
        return [nest(dict(zip(self.values, row, strict=True))) for row in rows]

    def variant_name(self, variant: Mapping[str, Any]) -> str:
        """Return the name of a variant: the grid's, then `_`, shorthand and value of parameters.

        The seed never appears in it. `variant` is flat, or nested as `variants` returns it.
        """
        words = [self.name]
        for key, values in self.values.items():
            if key == "seed" or (len(values) == 1 and key not in self.in_names):
                continue
            path, shorthand = key.split(":"), format_value(self.shorthands[key])
            value = variant[key] if key in variant else functools.reduce(getitem, path, variant)
            if not all(isinstance(v, bool) for v in values):
                words.append(shorthand + format_value(value))
            elif value and shorthand:
                words.append(shorthand)
        return "_".join(words).lstrip("_")


def run_variants(
    variants: Sequence[Variant],
    name: str,
    thunk: Thunk,
    plan: Plan,
    values: Mapping[str, list[Any]] | None,
    base: Mapping[str, Any] | None = None,
) -> Sweep:
    """Run the variants that are not done, as `ExperimentGrid.run` does.

    `values` are written to `sweep.json`. None writes no such file, so that other processes may use
    the folder too. The settings of variants override the configuration `base`.
    """
    data_dir = plan.data_dir or status.read_user_defaults()["data_dir"]
    folder = status.expand_home(data_dir) / (name or "grid")

    def make_task(variant: Variant) -> Task:
        variant_name, seed, settings = variant
        rest, what = dict(settings), thunk
        if isinstance(what, str) and what in rest:
            what = rest.pop(what)
        if not isinstance(what, str):
            return tasks.make_function_task(what, (variant_name, seed, nest(rest)), folder, plan)
        algo = algos.find(what)
        return tasks.make_algorithm_task(algo, (variant_name, seed, rest), folder, plan, base)

    about = {"name": name, "what": thunk, "grid": values, "num_cpu": plan.num_cpu}
    all_tasks = [make_task(variant) for variant in variants]
    return jobs.run_tasks(all_tasks, folder, None if values is None else about, plan)


def call_experiment(
    exp_name: str,
    thunk: Thunk,
    seed: int = 0,
    num_cpu: int = 1,
    data_dir: str | None = None,
    datestamp: bool = False,
    **kwargs: Any,
) -> TaskResult:
    """Run one experiment in its own process, unless it is already done.

    Args:
        exp_name: Name of the run; its folder is `data_dir/exp_name/exp_name_s<seed>`.
        thunk: Name of an algorithm, or a function at the top of a module.
        seed: Seed of the run.
        num_cpu: Field of `Plan`, like data_dir and datestamp.
        **kwargs: Settings of the run.

    Raises:
        ExperimentFailed: if the experiment did not finish.
    """
    checks.seed(seed)
    plan = Plan(num_cpu, data_dir, datestamp)
    variant = (files.check_name(exp_name), seed, kwargs)
    (row,) = run_variants([variant], exp_name, thunk, plan, None).rows
    if row.status != "done":
        raise ExperimentFailed(f"{exp_name}, seed {seed}: {row.status}, {row.reason} ({row.log})")
    return row


def format_value(value: Any) -> str:
    """Return a value in the form that it has in names: `64-64` for (64, 64), `0-0003` for 3e-4."""
    if isinstance(value, tuple | list):
        return "-".join(map(format_value, value))
    return re.sub("[^a-z0-9_-]", "-", str(getattr(value, "__name__", value)).lower())


def nest(flat: Mapping[str, Any]) -> dict[str, Any]:
    """Return nested dictionaries for keys with colons: `a:b` is the entry `b` of `a`."""
    nested: dict[str, Any] = {}
    for key, value in flat.items():
        *parts, last = key.split(":")
        inner = nested
        for part in parts:
            inner = inner.setdefault(part, {})
        inner[last] = value
    return nested
