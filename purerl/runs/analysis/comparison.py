"""Compare conditions: a score per run, and what few runs allow to conclude."""

import itertools
import os
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from purerl import checks
from purerl.runs.analysis import groups, search, statistics, tables
from purerl.runs.analysis.curves import read_points
from purerl.runs.analysis.groups import Condition
from purerl.runs.analysis.tables import RunTable
from purerl.runs.console import clean_text, print_warning

SEEDS = 5  # fewer allow no claim
BETTER = 0.75  # lowest probability of improvement to be called better


class ConditionScore(NamedTuple):
    """The score of a condition in an environment, or scaled to 0 .. 1 over several."""

    condition: str
    env: str
    scores: tuple[float, ...]  # of its runs
    seeds: int  # different ones; over environments the fewest
    estimate: float
    interval: tuple[float, float] | None  # None for one run
    reached: int | None = None  # runs that reached the threshold
    steps: float | None = None  # median steps to it; infinite if less than half reached it
    seconds: float | None = None  # median


class Pair(NamedTuple):
    """The probability that a run of `first` scores higher than a run of `second`."""

    first: str
    second: str
    envs: tuple[str, ...]
    seeds: int  # in the environment and condition with the fewest
    probability: float
    interval: tuple[float, float]
    verdict: str


class Comparison(NamedTuple):
    """Everything that `purerl compare` shows."""

    columns: tuple[str, ...]
    metric: str
    last: int
    threshold: float | None
    rows: list[ConditionScore]
    overall: list[ConditionScore]
    pairs: list[Pair]
    notes: list[str]


class RunScore(NamedTuple):
    """The numbers of a run that are compared."""

    run: RunTable
    value: float
    end: float  # last step
    reached: float  # step at which it reached the threshold
    seconds: float


Scores = dict[tuple[str, str], list[RunScore]]  # by condition and environment
Cells = dict[tuple[str, str], ConditionScore]


def compare(
    paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    group: str | None = None,
    metric: str = "iqm",
    y: str = "Performance",
    threshold: float | None = None,
    last: int = 5,
    data_dir: str | None = None,
    say: Callable[[str], None] = print_warning,
) -> Comparison:
    """Compare the conditions of runs.

    Args:
        paths: runs, folders above runs, or beginnings of their names.
        group: entries of the configuration that make a condition, as `algo,env` or `name`; None
            for the name and every setting. Environments are always kept apart.
        metric: `iqm`, `mean` or `median` of the runs.
        y: column of the score; `Performance` is the test return, else the return.
        threshold: value of y to compare the steps to.
        last: number of rows at the end of a run whose mean is its score.
        data_dir: data folder for paths that do not exist; None for the user's.
        say: function called with each note, such as about runs that are left out.
    """
    checks.member("metric", metric, statistics.METRICS)
    checks.integer("last", last, 1)
    if threshold is not None:
        checks.real("threshold", threshold)
    paths = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
    runs, notes = search.find_runs(paths, data_dir)
    runs, unusable = tables.select_runs(runs, ("steps", y))
    kept, doubles = groups.drop_duplicates(runs)
    fields = [word.strip() for word in (group or "").split(",") if word.strip()]
    conditions = groups.group_by_settings(kept, fields)
    scores, unscored = _score_conditions(conditions, y, last, threshold)
    columns = tuple(dict.fromkeys(tables.find_column(run, y) for run in kept))
    cells = {key: _summarise(*key, found, metric, threshold) for key, found in scores.items()}
    labels, envs = (list(dict.fromkeys(key[i] for key in cells)) for i in (0, 1))
    rows = [cells[label, env] for env in envs for label in labels if (label, env) in cells]
    overall, unshared = _pool_environments(cells, labels, envs, metric)
    pairs, unpaired = _pair_conditions(cells, labels, envs)
    notes += [*unusable, *doubles, *unscored]
    if len(columns) > 1:
        notes.append(f"scores are not of the same column: {', '.join(map(clean_text, columns))}.")
    notes += [*_note_differences(scores), *unshared, *unpaired]
    if any(row.seeds < SEEDS for row in rows):
        notes.append(f"with fewer than {SEEDS} seeds intervals are too narrow to be believed.")
    if len(pairs) > 1:
        notes.append(f"{len(pairs)} pairs: each interval stands for itself, none is corrected.")
    notes = list(dict.fromkeys(notes))
    for note in notes:
        say(note)
    return Comparison(columns, metric, last, threshold, rows, overall, pairs, notes)


def score_run(run: RunTable, y: str, last: int, threshold: float | None) -> RunScore:
    """Return the mean of the last rows of a run, and its other numbers."""
    steps, values = read_points(run, *(tables.find_column(run, word) for word in ("steps", y)))
    end = values[-last:][np.isfinite(values[-last:])]
    score = float(end.mean()) if len(end) else np.nan
    level = np.inf if threshold is None else threshold
    reached = statistics.find_first_lasting(steps, values, level)
    times = run.columns.get(tables.find_column(run, "time"), np.zeros(0))
    times = times[np.isfinite(times)]
    seconds = float(times[-1]) if len(times) else np.nan
    return RunScore(run, score, float(steps[-1]), reached, seconds)


def _score_conditions(
    conditions: Sequence[Condition], y: str, last: int, threshold: float | None
) -> tuple[Scores, list[str]]:
    """Score each run once; note the runs that are left out."""
    scores: Scores = {}
    notes = []
    for label, members in conditions:
        runs, repeated = groups.drop_repeated_seeds(members)
        notes += repeated
        for run in runs:
            score = score_run(run, y, last, threshold)
            if np.isfinite(score.value):
                env = clean_text(run.settings.get("env", "unknown"), 40)
                scores.setdefault((label, env), []).append(score)
            else:
                notes.append(
                    f"left out: {run.path} has no number in its last {last} rows. A run that "
                    f"failed is a result: a comparison without it is too kind to {label}."
                )
    return scores, notes


def _summarise(
    label: str, env: str, scores: list[RunScore], metric: str, threshold: float | None
) -> ConditionScore:
    runs, values, _, reached, seconds = zip(*scores, strict=True)
    seeds = [run.seed for run in runs]
    return ConditionScore(
        label,
        env,
        values,
        len(set(seeds) - {None}) + seeds.count(None),
        *_estimate(metric, [np.array(values)]),
        reached=None if threshold is None else int(np.isfinite(reached).sum()),
        steps=None if threshold is None else float(np.median(reached)),
        seconds=float(np.median(seconds)) if np.isfinite(seconds).all() else None,
    )


def _estimate(metric: str, parts: Sequence[np.ndarray]) -> tuple[float, tuple[float, float] | None]:
    statistic = statistics.pool(metric)
    several = all(len(part) > 1 for part in parts)
    interval = statistics.bootstrap_interval(statistic, parts) if several else None
    return float(statistic(parts)), interval


def _pool_environments(
    cells: Cells, labels: Sequence[str], envs: Sequence[str], metric: str
) -> tuple[list[ConditionScore], list[str]]:
    """Score conditions over the environments that all of them share, each scaled to 0 .. 1."""
    shared = [env for env in envs if all((label, env) in cells for label in labels)]
    if len(shared) < 2:
        note = f"no score over environments: all conditions share {', '.join(shared) or 'none'}."
        return [], [note] * (len(envs) > 1)
    overall = []
    for label in labels:
        parts = []
        for env in shared:
            every = [score for other in labels for score in cells[other, env].scores]
            low, high = min(every), max(every)
            ends = (0.0, 1.0) if low < high else (0.5, 0.5)
            parts.append(np.interp(cells[label, env].scores, (low, high), ends))
        scores = tuple(np.concatenate(parts).tolist())
        seeds = min(cells[label, env].seeds for env in shared)
        found = _estimate(metric, parts)
        overall.append(ConditionScore(label, ", ".join(shared), scores, seeds, *found))
    return overall, []


def _pair_conditions(
    cells: Cells, labels: Sequence[str], envs: Sequence[str]
) -> tuple[list[Pair], list[str]]:
    """Compare each condition with each other in the environments of both."""
    pairs, notes = [], []
    for names in itertools.combinations(labels, 2):
        shared = tuple(env for env in envs if all((name, env) in cells for name in names))
        if not shared:
            notes.append(f"{names[0]} and {names[1]} share no environment.")
            continue
        both = [cells[name, env] for env in shared for name in names]
        parts = [np.array(row.scores) for row in both]
        seeds = min(row.seeds for row in both)
        value = float(statistics.probability_of_improvement(parts))
        ends = statistics.bootstrap_interval(statistics.probability_of_improvement, parts)
        verdict = judge(*names, seeds, value, ends)
        pairs.append(Pair(*names, shared, seeds, value, ends, verdict))
    return pairs, notes


def judge(first: str, second: str, seeds: int, value: float, interval: tuple[float, float]) -> str:
    """Return the verdict that a probability of improvement allows.

    Example:
        >>> judge("a", "b", 5, 0.8, (0.6, 1.0)), judge("a", "b", 3, 1.0, (1.0, 1.0))
        ('a is better', 'no claim: fewer than 5 seeds')
    """
    if seeds < SEEDS:
        return f"no claim: fewer than {SEEDS} seeds"
    if interval[0] <= 0.5 <= interval[1]:
        return "no difference shown"
    winner, sure = (first, value) if value > 0.5 else (second, 1 - value)
    return f"{winner} is better" if sure >= BETTER else f"{winner} is slightly better"


def _note_differences(scores: Scores) -> list[str]:
    """Note conditions whose runs differ in settings, and runs that ended before others."""
    mixed, early = [], []
    for (label, env), found in scores.items():
        keys = dict.fromkeys(key for score in found for key in score.run.settings)
        differ = [k for k in keys if len({score.run.settings.get(k) for score in found}) > 1]
        if differ:
            shown = ", ".join(map(clean_text, differ[:4]))
            mixed.append(f"{label} in {env} counts runs together that differ in {shown}.")
        last = max(score.end for key, rivals in scores.items() if key[1] == env for score in rivals)
        if ends := [score.end for score in found if score.end < last]:
            early.append(
                f"{label} in {env}: {len(ends)} of {len(found)} runs end before "
                f"{last:,.0f} steps, the first at {min(ends):,.0f}."
            )
    return mixed + early
