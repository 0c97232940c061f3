"""Group runs into conditions, whose runs differ only in their seed, and label them."""

import itertools
import os
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any

from purerl.errors import ConfigError
from purerl.runs.analysis.tables import RunTable
from purerl.runs.console import clean_text, make_labels

WIDTH = 48  # characters of a label in a plot; if one is longer, parts that all share are left out

Conditions = dict[str, list[RunTable]]  # by label
Key = Callable[[RunTable], Hashable]


def _group(runs: Iterable[RunTable], key: Key) -> dict[Any, list[RunTable]]:
    """Group runs by a key, in the order of its first occurrence."""
    groups: dict[Any, list[RunTable]] = {}
    for run in runs:
        groups.setdefault(key(run), []).append(run)
    return groups


def _identify(run: RunTable, ignore: Sequence[str] = ()) -> tuple[Any, ...]:
    """Return what identifies the condition of a run: its name, settings and origin."""
    settings = tuple((k, v) for k, v in sorted(run.settings.items()) if k not in ignore)
    return run.name, settings, run.origin


def drop_duplicates(runs: Sequence[RunTable], notes: list[str]) -> list[RunTable]:
    """Drop runs that would count twice, and note each of them.

    If runs in one folder have the same name, settings and seed, keep only the longest. If the
    same seed is in several folders, set `origin`, which makes each folder a separate condition.
    """
    seeds = _group(runs, lambda run: (_identify(run), run.seed))
    apart = {key[0] for key, same in seeds.items() if len({run.path.parent for run in same}) > 1}
    origins = (str(run.path.parent) if _identify(run) in apart else "" for run in runs)
    placed = map(lambda run, origin: run._replace(origin=origin), runs, origins)
    return _keep_longest(placed, _identify, notes)


def drop_repeated_seeds(runs: Sequence[RunTable], notes: list[str]) -> list[RunTable]:
    """Drop runs with equal settings and an equal seed, whatever their names and folders.

    Runs of other programs must also have equal names, because their settings are unknown.
    """
    return _keep_longest(
        runs, lambda run: ("" if "algo" in run.settings else run.name, _identify(run)[1]), notes
    )


def _keep_longest(runs: Iterable[RunTable], key: Key, notes: list[str]) -> list[RunTable]:
    """Keep the longest of all runs with the same key and seed; note the others."""
    kept = []
    groups = _group(runs, lambda run: (key(run), run.seed, run.seed is None and id(run)))
    for same in groups.values():
        longest = max(same, key=lambda run: len(next(iter(run.columns.values()))))
        kept.append(longest)
        for run in same:
            if run is not longest:
                notes.append(f"left out: {run.path} repeats settings and seed of {longest.path}.")
    return kept


def make_conditions(runs: Sequence[RunTable], ignore: Sequence[str] = ()) -> Conditions:
    """Group runs that differ only in the seed and in `ignore`; label groups by differences."""
    groups = _group(runs, lambda run: _identify(run, ignore))
    labels = []
    for name, settings, origin in groups:
        rivals = [dict(others) for rival, others, _ in groups if rival == name]
        differences = [
            f"{key.rpartition('.')[2]}={value}"
            for key, value in settings
            if any(rival.get(key) != value for rival in rivals)
        ][:3]
        more = ", ".join(differences + [origin] * bool(origin))
        labels.append(f"{name} ({more})" if more else name)
    return dict(zip(make_labels(labels), groups.values(), strict=True))


def group_by_settings(runs: Sequence[RunTable], group: str) -> Conditions:
    """Group runs by settings such as `algo,env`; if `group` is empty, by all but seed and env."""
    fields = [word.strip() for word in group.split(",") if word.strip()]
    wanted = [field for field in fields if field != "env"]
    if not fields:
        return make_conditions(runs, ignore=("env",))
    if not wanted:
        raise ConfigError(f"group must name a setting besides env, got {group!r}. Try algo,env.")

    def get_entries(run: RunTable) -> dict[str, str]:
        return {"name": run.name} | {k.rpartition(".")[2]: v for k, v in run.settings.items()}

    known = dict.fromkeys(key for run in runs for key in get_entries(run))
    if unknown := [clean_text(field) for field in wanted if field not in known]:
        shown = ", ".join(map(clean_text, known))
        raise ConfigError(f"no run has a setting {unknown[0]!r}. Choose from {shown}.")
    groups = _group(runs, lambda run: " ".join(get_entries(run).get(f, "none") for f in wanted))
    return dict(zip(make_labels(list(groups)), groups.values(), strict=True))


def gather_conditions(
    runs: Sequence[RunTable], legend: Sequence[str], paths: int, count: bool, notes: list[str]
) -> Conditions:
    """Return the conditions of a plot; if `count`, one for each run, labelled by its folder.

    `legend` has one label per path (equal labels join their runs), or one per condition.
    """
    doubles: list[str] = []
    kept = drop_duplicates(runs, doubles)
    notes += [note.replace("left out", "also drawn", 1) for note in doubles] if count else doubles
    conditions = make_conditions(runs if count else kept)
    labels, members = list(conditions), list(conditions.values())
    if legend and len(legend) == paths:
        joined = _group(itertools.chain(*members), lambda run: clean_text(legend[run.typed]))
        labels, members = list(joined), list(joined.values())
    elif legend and len(legend) == len(conditions):
        labels = [clean_text(label) for label in legend]
    elif legend:
        raise ConfigError(
            f"legend must have one label per path ({paths}) or per condition ({len(labels)}: "
            f"{', '.join(labels)}), got {len(legend)}."
        )
    if count:
        labels = [label for label, same in zip(labels, members, strict=True) for _ in same]
        members = [[run] for same in members for run in same]
        folders = [run.path.resolve() for (run,) in members]
        names = [folder.name for folder in folders]
        if len(set(names)) < len(names):
            shared = os.path.commonpath(folders)
            names = [os.path.relpath(folder, shared) for folder in folders]
        labels = list(map("{}: {}".format, labels, names)) if legend else names
    return dict(zip(make_labels(labels, WIDTH), members, strict=True))
