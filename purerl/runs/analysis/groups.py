"""Gather runs into conditions: those that differ in their seed alone, under labels that differ."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from purerl.errors import ConfigError
from purerl.runs.analysis.tables import RunTable
from purerl.runs.console import clean_text, make_labels


class Condition(NamedTuple):
    """Runs that differ in their seed alone."""

    label: str
    runs: list[RunTable]


def drop_duplicates(runs: Sequence[RunTable]) -> tuple[list[RunTable], list[str]]:
    """Let no sample count twice: equal settings and an equal seed are one, or two conditions.

    Runs of one folder with the same settings and seed are repetitions of each other: the longest
    stays. Where the same seed is in several folders, the folders are conditions of their own.
    """
    groups: dict[Any, list[RunTable]] = {}
    for run in runs:
        groups.setdefault((run.name, _frozen(run.settings)), []).append(run)
    apart: set[str] = set()
    for group in groups.values():
        homes: dict[int | None, set[Path]] = {}
        for run in group:
            homes.setdefault(run.seed, set()).add(run.path.parent)
        if any(len(folders) > 1 for folders in homes.values()):
            apart |= {str(run.path) for run in group}
    placed = [
        run._replace(origin=str(run.path.parent) if str(run.path) in apart else "") for run in runs
    ]
    return _longest(placed, [(run.name, _frozen(run.settings), run.origin) for run in placed])


def drop_repeated_seeds(runs: Sequence[RunTable]) -> tuple[list[RunTable], list[str]]:
    """Let no sample of a group count twice, whatever the names and folders of its runs.

    Of a run that is not ours the settings are not known, and its name has to speak for them.
    """
    named = (run.name if "algo" not in run.settings else "" for run in runs)
    keys = [(name, _frozen(run.settings)) for name, run in zip(named, runs, strict=True)]
    return _longest(runs, keys)


def _longest(runs: Sequence[RunTable], keys: Sequence[Any]) -> tuple[list[RunTable], list[str]]:
    """Keep the longest of the runs with the same key and seed; and a line about each other."""
    kept: dict[Any, RunTable] = {}
    notes = []
    for i, (run, key) in enumerate(zip(runs, keys, strict=True)):
        unknown = i if run.seed is None else None
        other = kept.get((key, run.seed, unknown))
        if other is None:
            kept[key, run.seed, unknown] = run
            continue
        longer, shorter = (run, other) if _rows(run) > _rows(other) else (other, run)
        kept[key, run.seed, unknown] = longer
        notes.append(f"left out: {shorter.path} has the settings and seed of {longer.path}.")
    return list(kept.values()), notes


def _frozen(settings: dict[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(settings.items()))


def _rows(run: RunTable) -> int:
    return max(len(x) for x in run.columns.values())


def make_conditions(runs: Sequence[RunTable], ignore: Sequence[str] = ()) -> list[Condition]:
    """Gather runs that differ in nothing but the seed, under labels that differ.

    Args:
        runs: as `distinct` returns them.
        ignore: settings in which they may differ as well.
    """
    groups: dict[Any, list[RunTable]] = {}
    for run in runs:
        settings = {k: v for k, v in run.settings.items() if k not in ignore}
        groups.setdefault((run.name, _frozen(settings), run.origin), []).append(run)
    labels = []
    for name, settings, origin in groups:
        rivals = [dict(s) for n, s, _ in groups if n == name]
        ways = [
            f"{key.rpartition('.')[2]}={value}"
            for key, value in settings
            if any(other.get(key) != value for other in rivals)
        ][:3]
        more = ", ".join(ways + [origin] * bool(origin))
        labels.append(f"{name} ({more})" if more else name)
    return [Condition(*one) for one in zip(make_labels(labels), groups.values(), strict=True)]


def apply_legend(found: list[Condition], legend: Sequence[str], paths: int) -> list[Condition]:
    """Give conditions the labels of a legend: one per path typed, else one per condition."""
    if len(legend) == paths:
        merged: dict[str, list[RunTable]] = {}
        for run in (run for one in found for run in one.runs):
            merged.setdefault(clean_text(legend[run.typed]), []).append(run)
        return [Condition(label, runs) for label, runs in merged.items()]
    if len(legend) == len(found):
        pairs = zip(legend, found, strict=True)
        return [Condition(clean_text(label), one.runs) for label, one in pairs]
    raise ConfigError(
        f"legend must have one word per path ({paths}) or per condition ({len(found)}: "
        f"{', '.join(one.label for one in found)}), got {len(legend)}."
    )


def split_runs(found: list[Condition], legend: bool = False) -> list[Condition]:
    """Make every run a condition of its own, under the name of its folder.

    Args:
        found: conditions.
        legend: let the labels that they have stand before that.
    """
    folders = [run.path.resolve() for one in found for run in one.runs]
    labels, runs = [], []
    for one in found:
        for run in one.runs:
            word = _shortest(run.path.resolve(), folders)
            labels.append(f"{one.label}: {word}" if legend else word)
            runs.append([run])
    return [Condition(*one) for one in zip(make_labels(labels), runs, strict=True)]


def _shortest(path: Path, others: Sequence[Path]) -> str:
    """Return as much of the end of a path as tells it from others."""
    for number in range(1, len(path.parts)):
        end = path.parts[-number:]
        if sum(other.parts[-number:] == end for other in others) == 1:
            return str(Path(*end))
    return str(path)


def gather_conditions(
    runs: Sequence[RunTable], legend: Sequence[str], paths: int, count: bool
) -> tuple[list[Condition], list[str]]:
    """Return the conditions of a plot, and what to tell the user."""
    kept, notes = drop_duplicates(runs)
    if count:
        kept, notes = list(runs), [note.replace("left out", "drawn too", 1) for note in notes]
    found = make_conditions(kept)
    if legend:
        found = apply_legend(found, legend, paths)
    return split_runs(found, bool(legend)) if count else found, notes
