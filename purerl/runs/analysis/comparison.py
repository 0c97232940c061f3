"""Compare conditions by the scores of their runs, with intervals and cautious verdicts."""

import itertools
import math
import os
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from purerl import checks
from purerl.errors import ConfigError
from purerl.runs.analysis import groups, plots, statistics, tables
from purerl.runs.analysis.statistics import Interval
from purerl.runs.console import clean_text, print_warning

SEEDS = 5  # minimum number of seeds for a claim
BETTER = 0.75  # minimum probability of improvement for "better", not "slightly better"


class ConditionScore(NamedTuple):
    """Score of a condition in one environment, or scaled over several."""

    condition: str
    env: str
    scores: tuple[float, ...]  # one per run
    seeds: int  # number of different seeds; over several environments, the minimum
    estimate: float
    interval: Interval | None  # None for a single run
    reached: int | None = None  # number of runs that reached the threshold
    steps: float | None = None  # median steps to the threshold; infinity for a run that misses it
    seconds: float | None = None  # median wall-clock time


class Pair(NamedTuple):
    """Probability that a run of `first` scores higher than a run of `second`."""

    first: str
    second: str
    envs: tuple[str, ...]
    seeds: int  # minimum over both conditions and all environments
    probability: float
    interval: Interval
    verdict: str


Scale = Mapping[str, tuple[float, float]]  # environment -> scores that count as 0 and as 1


class Comparison(NamedTuple):
    """Results of a comparison: everything that `purerl compare` shows."""

    columns: tuple[str, ...]
    metric: str
    last: int
    threshold: float | None
    scale: Scale
    rows: list[ConditionScore]
    overall: list[ConditionScore]
    pairs: list[Pair]
    notes: list[str]


class RunScore(NamedTuple):
    """Score of a run, with the other numbers that are compared."""

    run: tables.RunTable
    value: float
    end: float  # last step
    reached: float  # step at which it reached the threshold; infinite if it did not
    seconds: float


Key = tuple[str, str]  # condition and environment
Cells = dict[Key, ConditionScore]


def compare(
    paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    group: str | None = None,
    metric: str = "iqm",
    y: str = "Performance",
    threshold: float | None = None,
    last: int = 5,
    scale: Scale | None = None,
    data_dir: str | None = None,
    say: Callable[[str], None] = print_warning,
) -> Comparison:
    """Compare conditions, which are groups of runs with the same settings.

    Args:
        paths: Runs, folders above runs, or beginnings of their names.
        group: Settings that define a condition, such as `algo,env` or `name`. None stands for the
            name and all settings. Environments are always kept apart.
        metric: Statistic of the scores of runs: `iqm`, `mean` or `median`.
        y: Column of the score. `Performance` is the test return if any, else the return.
        threshold: Value of y. The steps until runs reach it are compared.
        last: Number of rows at the end of a run whose mean is its score.
        scale: For each environment the scores that count as 0 and as 1 in the overall score, such
            as those of random actions and of a known agent. None: the lowest and highest run.
        data_dir: Data folder for paths that do not exist; None for the user's data folder.
        say: Function that is called with each note, such as a note about a run that is left out.
    """
    checks.member("metric", metric, statistics.METRICS)
    checks.integer("last", last, 1)
    if threshold is not None:
        checks.real("threshold", threshold)
    for env, ends in (scale or {}).items():
        _check_scale(env, ends)
    paths = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
    runs, notes = tables.find_runs(paths, data_dir)
    runs = tables.select_runs(runs, ("steps", y), notes)
    kept = groups.drop_duplicates(runs, notes)
    columns = tuple(dict.fromkeys(tables.find_column(run, y) for run in kept))
    scores: dict[Key, list[RunScore]] = {}
    for label, members in groups.group_by_settings(kept, group or "").items():
        for run in groups.drop_repeated_seeds(members, notes):
            score = _score_run(run, y, last, np.inf if threshold is None else threshold)
            if np.isfinite(score.value):
                env = clean_text(run.settings.get("env", "unknown"), 40)
                scores.setdefault((label, env), []).append(score)
            else:
                notes.append(
                    f"left out: {run.path} has no number in its last {last} rows. If this run "
                    f"failed, {label} looks better in this comparison than it is."
                )
    if len(columns) > 1:
        notes.append(f"scores come from different columns: {', '.join(map(clean_text, columns))}.")
    notes += _note_differences(scores)
    timed = threshold is not None
    cells = {key: _summarise(key, found, metric, timed) for key, found in scores.items()}
    envs = list(dict.fromkeys(env for _, env in cells))
    rows = sorted(cells.values(), key=lambda row: envs.index(row.env))
    overall = _pool_environments(cells, envs, metric, scale or {}, notes)
    pairs = _pair_conditions(cells, envs, notes)
    if any(row.seeds < SEEDS for row in rows):
        notes.append(f"with fewer than {SEEDS} seeds, the intervals are too narrow to trust.")
    notes = list(dict.fromkeys(notes))
    for note in notes:
        say(note)
    return Comparison(columns, metric, last, threshold, scale or {}, rows, overall, pairs, notes)


def _check_scale(env: str, ends: Sequence[float]) -> None:
    low, high = ends
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise ConfigError(
            f"scale of {env} must be two finite numbers, the lower one first, got {low:g},{high:g}."
        )


def _score_run(run: tables.RunTable, y: str, last: int, threshold: float) -> RunScore:
    """Score a run by the mean of its last rows, and collect its other numbers."""
    steps, values = plots.read_points(run, "steps", y)
    end = values[-last:][np.isfinite(values[-last:])]
    score = float(end.mean()) if len(end) else np.nan
    reached = statistics.find_first_lasting(steps, values, threshold)
    times = run.columns.get(tables.find_column(run, "time"), np.zeros(0))
    seconds = next((float(time) for time in times[::-1] if np.isfinite(time)), np.nan)
    return RunScore(run, score, float(steps[-1]), reached, seconds)


def _summarise(key: Key, scores: list[RunScore], metric: str, timed: bool) -> ConditionScore:
    """Score a condition in one environment; if `timed`, add the steps to the threshold."""
    runs, values, _, reached, seconds = zip(*scores, strict=True)
    seeds = [run.seed for run in runs]
    number = len(set(seeds) - {None}) + seeds.count(None)
    time = float(np.median(seconds)) if np.isfinite(seconds).all() else None
    row = ConditionScore(*key, values, number, *_estimate(metric, [np.array(values)]), seconds=time)
    if not timed:
        return row
    return row._replace(reached=int(np.isfinite(reached).sum()), steps=float(np.median(reached)))


def _estimate(metric: str, parts: Sequence[np.ndarray]) -> tuple[float, Interval | None]:
    statistic = statistics.pool(metric)
    several = all(len(part) > 1 for part in parts)
    interval = statistics.bootstrap_interval(statistic, parts) if several else None
    return float(statistic(parts)), interval


def _pool_environments(
    cells: Cells, envs: Sequence[str], metric: str, scale: Scale, notes: list[str]
) -> list[ConditionScore]:
    """Score conditions over the environments that all share, each scaled first."""
    if scale and (lacks := [env for env in envs if env not in scale]):
        raise ConfigError(
            f"scale lacks {', '.join(lacks)}. Name the scores that count as 0 and as 1 in each "
            f"environment, for example --scale {lacks[0]}=0,100."
        )
    labels = dict.fromkeys(label for label, _ in cells)
    shared = [env for env in envs if all((label, env) in cells for label in labels)]
    if len(shared) < 2:
        note = f"an overall score needs 2 shared environments, got {', '.join(shared) or 'none'}."
        notes += [note] * (len(envs) > 1 or bool(scale))
        return []
    overall = []
    for label in labels:
        parts = []
        for env in shared:
            every = [score for other in labels for score in cells[other, env].scores]
            low, high = scale.get(env, (min(every), max(every)))
            mine = np.array(cells[label, env].scores)
            parts.append((mine - low) / (high - low) if low < high else np.full(len(mine), 0.5))
        scores = tuple(np.concatenate(parts).tolist())
        seeds = min(cells[label, env].seeds for env in shared)
        found = _estimate(metric, parts)
        overall.append(ConditionScore(label, ", ".join(shared), scores, seeds, *found))
    return overall


def _pair_conditions(cells: Cells, envs: Sequence[str], notes: list[str]) -> list[Pair]:
    """Compare each pair of conditions in the environments that both share."""
    pairs = []
    for names in itertools.combinations(dict.fromkeys(label for label, _ in cells), 2):
        shared = tuple(env for env in envs if all((name, env) in cells for name in names))
        if not shared:
            notes.append(f"{names[0]} and {names[1]} are not compared: they share no environment.")
            continue
        both = [cells[name, env] for env in shared for name in names]
        parts = [np.array(row.scores) for row in both]
        seeds = min(row.seeds for row in both)
        value = float(statistics.probability_of_improvement(parts))
        ends = statistics.bootstrap_interval(statistics.probability_of_improvement, parts)
        pairs.append(Pair(*names, shared, seeds, value, ends, judge(*names, seeds, value, ends)))
    if len(pairs) > 1:
        notes.append(f"{len(pairs)} pairs are compared; intervals are not corrected for that.")
    return pairs


def judge(first: str, second: str, seeds: int, value: float, interval: Interval) -> str:
    """Return the verdict for a probability of improvement and its interval."""
    if seeds < SEEDS:
        return f"no claim: fewer than {SEEDS} seeds"
    if interval[0] <= 0.5 <= interval[1]:
        return "no difference shown"
    winner, sure = (first, value) if value > 0.5 else (second, 1 - value)
    return f"{winner} is better" if sure >= BETTER else f"{winner} is slightly better"


def _note_differences(scores: dict[Key, list[RunScore]]) -> list[str]:
    """Note conditions whose runs differ in settings, and runs that ended before others."""
    notes = []
    for (label, env), found in scores.items():
        keys = dict.fromkeys(key for score in found for key in score.run.settings)
        differ = [k for k in keys if len({score.run.settings.get(k) for score in found}) > 1]
        if differ:
            shown = ", ".join(map(clean_text, differ[:4]))
            notes.append(f"{label} in {env} mixes runs that differ in {shown}.")
        last = max(score.end for key, rivals in scores.items() if key[1] == env for score in rivals)
        if ends := [score.end for score in found if score.end < last]:
            notes.append(
                f"{label} in {env}: {len(ends)} of {len(found)} runs end before "
                f"{last:,.0f} steps, the first at {min(ends):,.0f}."
            )
    return notes


def make_tables(comparison: Comparison) -> dict[str, list[tuple[str, ...]]]:
    """Return the tables of a comparison as texts: the rows of each table, by its title."""
    metric, last, names = comparison.metric, comparison.last, ", ".join(comparison.columns)
    wall = "Seconds: wall clock, including compilation."
    title = f"Score of a run: mean of the last {last} rows of {names}. {wall}"
    steps = [] if comparison.threshold is None else [f"steps to {comparison.threshold:g}"]
    head = ("environment", "condition", "seeds", metric, "95% interval", *steps, "seconds")
    shown = {title: [head]}
    for row in comparison.rows:
        number = len(row.scores)
        seeds = str(number) if row.seeds == number else f"{row.seeds} in {number} runs"
        ends = ["-" if row.seconds is None else f"{row.seconds:,.1f}"]
        if row.steps is not None:
            reached = f"{row.steps:,.0f}" if math.isfinite(row.steps) else "not reached"
            ends.insert(0, f"{reached} ({row.reached} of {number})")
        shown[title].append((row.env, row.condition, seeds, *_format_estimate(row), *ends))
    if comparison.overall:
        envs = comparison.overall[0].env
        scale = "0 is the lowest run of all and 1 the highest"
        if comparison.scale:
            scale = "0 and 1 are the scores of the scale"
        title = f"Scores over {envs}: in each, {scale}."
        rows = [(r.condition, str(len(r.scores)), *_format_estimate(r)) for r in comparison.overall]
        shown[title] = [("condition", "runs", metric, "95% interval"), *rows]
    if comparison.pairs:
        title = "Probability that a run of the first condition beats a run of the second."
        shown[title] = [("first", "second", "probability", "95% interval", "")]
        for p in comparison.pairs:
            interval = f"{p.interval[0]:.2f} to {p.interval[1]:.2f}"
            shown[title].append((p.first, p.second, f"{p.probability:.2f}", interval, p.verdict))
    return shown


def _format_estimate(row: ConditionScore) -> tuple[str, str]:
    ends = "-" if row.interval is None else f"{row.interval[0]:.5g} to {row.interval[1]:.5g}"
    return f"{row.estimate:.5g}", ends
