"""Group runs into conditions: runs that differ in their seed alone, under distinct labels."""

import os
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, NamedTuple

from purerl.errors import ConfigError
from purerl.runs.analysis.tables import RunTable
from purerl.runs.console import clean_text, make_labels

WIDTH = 48  # characters of a label in a plot; if one is longer, all lose the parts they share


class Condition(NamedTuple):
    """Runs that differ in their seed alone."""

    label: str
    runs: list[RunTable]


def _group(
    runs: Iterable[RunTable], key: Callable[[RunTable], Hashable]
) -> dict[Any, list[RunTable]]:
    """Group runs by a key, in the order of its first occurrence."""
    groups: dict[Any, list[RunTable]] = {}
    for run in runs:
        groups.setdefault(key(run), []).append(run)
    return groups


def _identify(run: RunTable, ignore: Sequence[str] = ()) -> tuple[Any, ...]:
    """Return everything in which runs of different conditions differ."""
    settings = tuple((k, v) for k, v in sorted(run.settings.items()) if k not in ignore)
    return run.name, settings, run.origin


def drop_duplicates(runs: Sequence[RunTable]) -> tuple[list[RunTable], list[str]]:
    """Drop runs that would count twice, and note each of them.

    Of the runs in one folder with the same name, settings and seed only the longest is kept. If
    the same seed is in several folders, `origin` makes each folder a condition of its own.
    """
    seeds = _group(runs, lambda run: (_identify(run), run.seed))
    apart = {key[0] for key, same in seeds.items() if len({run.path.parent for run in same}) > 1}
    placed = [
        run._replace(origin=str(run.path.parent)) if _identify(run) in apart else run
        for run in runs
    ]
    return _keep_longest(placed, _identify)


def drop_repeated_seeds(runs: Sequence[RunTable]) -> tuple[list[RunTable], list[str]]:
    """Drop runs with equal settings and an equal seed, whatever their names and folders.

    Only the name tells apart runs that purerl did not write, because their settings are unknown.
    """
    return _keep_longest(
        runs, lambda run: ("" if "algo" in run.settings else run.name, _identify(run)[1])
    )


def _keep_longest(
    runs: Sequence[RunTable], key: Callable[[RunTable], Hashable]
) -> tuple[list[RunTable], list[str]]:
    """Keep the longest of the runs with the same key and seed; note each other."""
    kept, notes = [], []
    groups = _group(runs, lambda run: (key(run), run.seed, run.seed is None and id(run)))
    for same in groups.values():
        longest = max(same, key=lambda run: len(next(iter(run.columns.values()))))
        kept.append(longest)
        notes += [
            f"left out: {run.path} has the settings and seed of {longest.path}."
            for run in same
            if run is not longest
        ]
    return kept, notes


def make_conditions(runs: Sequence[RunTable], ignore: Sequence[str] = ()) -> list[Condition]:
    """Group runs that differ in the seed alone, and label each group by what sets it apart.

    Args:
        runs: runs without duplicates.
        ignore: settings in which the runs of a condition may differ as well.
    """
    groups = _group(runs, lambda run: _identify(run, ignore))
    labels = []
    for name, settings, origin in groups:
        rivals = [dict(others) for rival, others, _ in groups if rival == name]
        ways = [
            f"{key.rpartition('.')[2]}={value}"
            for key, value in settings
            if any(rival.get(key) != value for rival in rivals)
        ][:3]
        more = ", ".join(ways + [origin] * bool(origin))
        labels.append(f"{name} ({more})" if more else name)
    return _label(labels, groups.values())


def _label(
    labels: Sequence[str], groups: Iterable[list[RunTable]], width: int = 80
) -> list[Condition]:
    """Make conditions with distinct labels, without shared parts if one is longer than `width`."""
    return [Condition(*pair) for pair in zip(make_labels(labels, width), groups, strict=True)]


def group_by_settings(runs: Sequence[RunTable], fields: Sequence[str]) -> list[Condition]:
    """Group runs by entries of their configuration; without any, by all but seed and env."""
    if not fields:
        return make_conditions(runs, ignore=("env",))
    wanted = [field for field in fields if field != "env"]
    if not wanted:
        raise ConfigError("group must name more than env, as algo,env or name.")

    def get_entries(run: RunTable) -> dict[str, str]:
        return {"name": run.name} | {k.rpartition(".")[2]: v for k, v in run.settings.items()}

    known = dict.fromkeys(key for run in runs for key in get_entries(run))
    for field in wanted:
        if field not in known:
            shown = ", ".join(map(clean_text, known))
            raise ConfigError(
                f"no run has a setting {clean_text(field)!r} to group by, only {shown}."
            )
    groups = _group(runs, lambda run: " ".join(get_entries(run).get(f, "none") for f in wanted))
    return _label(list(groups), groups.values())


def gather_conditions(
    runs: Sequence[RunTable], legend: Sequence[str], paths: int, count: bool
) -> tuple[list[Condition], list[str]]:
    """Return the conditions of a plot, and notes about duplicates.

    Args:
        runs: all runs.
        legend: labels, one per path or one per condition; empty to derive them.
        paths: number of paths.
        count: make each run a condition of its own, duplicates too.
    """
    kept, notes = drop_duplicates(runs)
    if count:
        kept, notes = list(runs), [note.replace("left out", "drawn too", 1) for note in notes]
    conditions = make_conditions(kept)
    if legend:
        conditions = _apply_legend(conditions, legend, paths)
    if count:
        conditions = _split(conditions, bool(legend))
    return _label([c.label for c in conditions], [c.runs for c in conditions], WIDTH), notes


def _apply_legend(
    conditions: list[Condition], legend: Sequence[str], paths: int
) -> list[Condition]:
    """Label conditions by a legend; those of paths with equal labels become one."""
    labels = [clean_text(label) for label in legend]
    if len(legend) == paths:
        runs = (run for condition in conditions for run in condition.runs)
        return [Condition(*pair) for pair in _group(runs, lambda run: labels[run.typed]).items()]
    if len(legend) == len(conditions):
        return [Condition(label, c.runs) for label, c in zip(labels, conditions, strict=True)]
    raise ConfigError(
        f"legend must have one word per path ({paths}) or per condition ({len(conditions)}: "
        f"{', '.join(condition.label for condition in conditions)}), got {len(legend)}."
    )


def _split(conditions: list[Condition], prefix: bool) -> list[Condition]:
    """Make each run a condition labelled by its folder, behind the old label if wanted."""
    pairs = [(f"{c.label}: " if prefix else "", run) for c in conditions for run in c.runs]
    folders = [run.path.resolve() for _, run in pairs]
    names = [folder.name for folder in folders]
    if len(set(names)) < len(names):
        shared = os.path.commonpath(folders)
        names = [os.path.relpath(folder, shared) for folder in folders]
    return [Condition(label + name, [run]) for (label, run), name in zip(pairs, names, strict=True)]
