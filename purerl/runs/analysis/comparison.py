"""What runs say about conditions: a score per run, and what few of them allow to conclude."""

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from purerl.errors import ConfigError
from purerl.runs.analysis import curves as bands
from purerl.runs.analysis import groups as conditions
from purerl.runs.analysis import statistics as estimates
from purerl.runs.analysis import tables
from purerl.runs.analysis.groups import Condition
from purerl.runs.analysis.tables import RunTable
from purerl.runs.console import clean_text, make_labels

SEEDS = 5  # fewer allow no claim
BETTER = 0.75  # least probability of improvement to be called better


class ConditionScore(NamedTuple):
    """A condition in an environment, or over several, where scores are scaled to 0 .. 1."""

    condition: str
    env: str
    scores: tuple[float, ...]  # of its runs
    seeds: int  # different ones among them; over environments in the one with the fewest
    estimate: float
    interval: tuple[float, float] | None  # None for one run
    reached: int | None = None  # runs that reached the threshold
    steps: float | None = None  # median steps to it; infinite where less than half did
    seconds: float | None = None  # median


class Pair(NamedTuple):
    """How likely a run of `first` is to score higher than one of `second`."""

    first: str
    second: str
    envs: tuple[str, ...]
    seeds: int  # in the environment and condition with the fewest
    probability: float
    interval: tuple[float, float]
    verdict: str


class Comparison(NamedTuple):
    """All that `purerl compare` says."""

    columns: tuple[str, ...]
    metric: str
    last: int
    threshold: float | None
    rows: list[ConditionScore]
    overall: list[ConditionScore]
    pairs: list[Pair]
    notes: list[str]


class Score(NamedTuple):
    """What is taken from a run."""

    value: float
    end: float  # steps
    reached: float
    seconds: float


def score_run(run: RunTable, yword: str, last: int, threshold: float | None) -> Score:
    """Return the mean of the last rows of a run, and what else is compared."""
    xname, yname = (tables.find_column(run, word) or "" for word in ("steps", yword))
    x, y = bands.read_points(run, xname, yname)
    end = y[-last:][np.isfinite(y[-last:])]
    time = tables.find_column(run, "time")
    seconds = run.columns[time][np.isfinite(run.columns[time])] if time else np.zeros(0)
    return Score(
        float(end.mean()) if len(end) else np.nan,
        float(x[-1]),
        np.inf if threshold is None else estimates.find_first_lasting(x, y, threshold),
        float(seconds[-1]) if len(seconds) else np.nan,
    )


def group_runs(runs: Sequence[RunTable], fields: Sequence[str]) -> list[Condition]:
    """Gather runs by entries of their configuration; without any, by all but seed and env."""
    by = [field for field in fields if field != "env"]
    if not fields:
        return conditions.make_conditions(runs, ignore=("env",))
    if not by:
        raise ConfigError("group must name more than env, as algo,env or name.")
    found: dict[str, list[RunTable]] = {}
    short = [{k.rpartition(".")[2]: v for k, v in run.settings.items()} for run in runs]
    known = dict.fromkeys(key for one in short for key in ("name", *one))
    for field in by:
        if field not in known:
            shown = ", ".join(clean_text(key) for key in known)
            raise ConfigError(
                f"no run has a setting {clean_text(field)!r} to group by, only {shown}."
            )
    for run, settings in zip(runs, short, strict=True):
        words = (run.name if field == "name" else settings.get(field, "none") for field in by)
        found.setdefault(" ".join(words), []).append(run)
    return [Condition(*one) for one in zip(make_labels(list(found)), found.values(), strict=True)]


def compare_runs(
    runs: Sequence[RunTable],
    fields: Sequence[str],
    metric: str,
    yword: str,
    threshold: float | None,
    last: int,
) -> Comparison:
    """Compare conditions.

    Args:
        runs: each with numbers for steps and `yword`, as `curves.having` returns them.
        fields: what makes a condition, besides the environment; empty for every setting.
        metric: one of `estimates.METRICS`.
        yword: what is scored.
        threshold: whose first crossing is wanted, or None.
        last: rows of a run whose mean is its score.
    """
    kept, notes = conditions.drop_duplicates(runs)
    cells: dict[str, dict[str, list[tuple[RunTable, Score]]]] = {}
    for one in group_runs(kept, fields):
        each, again = conditions.drop_repeated_seeds(one.runs)
        notes += again
        for run in each:
            value = score_run(run, yword, last, threshold)
            if not np.isfinite(value.value):
                notes.append(
                    f"left out: {run.path} has no number in its last {last} rows. A run that "
                    f"failed is a result: a comparison without it is too kind to {one.label}."
                )
                continue
            env = clean_text(run.settings.get("env", "unknown"), 40)
            cells.setdefault(one.label, {}).setdefault(env, []).append((run, value))
    names = tuple(dict.fromkeys(str(tables.find_column(run, yword)) for run in kept))
    if len(names) > 1:
        notes.append(f"scores are not of the same column: {', '.join(map(clean_text, names))}.")
    notes += [*_note_mixed_settings(cells), *_short(cells)]
    rows = [
        _row(label, env, found, metric, threshold)
        for label, envs in cells.items()
        for env, found in envs.items()
    ]
    order = {env: i for i, env in enumerate(dict.fromkeys(row.env for row in rows))}
    rows.sort(key=lambda row: order[row.env])
    overall, more = _overall(rows, metric)
    pairs, unpaired = _pairs(rows)
    notes += [*more, *unpaired, *_few(rows, pairs)]
    return Comparison(names, metric, last, threshold, rows, overall, pairs, notes)


def _row(
    label: str, env: str, found: list[tuple[RunTable, Score]], metric: str, threshold: float | None
) -> ConditionScore:
    values = np.array([one.value for _, one in found])
    seconds = np.array([one.seconds for _, one in found])
    steps = np.array([one.reached for _, one in found])
    seeds = [run.seed for run, _ in found]
    return ConditionScore(
        label,
        env,
        tuple(values.tolist()),
        len({seed for seed in seeds if seed is not None}) + seeds.count(None),
        *_estimate(metric, [values]),
        reached=None if threshold is None else int(np.isfinite(steps).sum()),
        steps=None if threshold is None else float(np.median(steps)),
        seconds=float(np.median(seconds)) if np.isfinite(seconds).all() else None,
    )


def _estimate(
    metric: str, groups: Sequence[np.ndarray]
) -> tuple[float, tuple[float, float] | None]:
    statistic = estimates.METRICS[metric]
    several = all(len(group) > 1 for group in groups)
    return float(statistic(groups)), estimates.bootstrap_interval(
        statistic, groups
    ) if several else None


def _overall(rows: Sequence[ConditionScore], metric: str) -> tuple[list[ConditionScore], list[str]]:
    """Put the environments together that all conditions were run in, each scaled to 0 .. 1."""
    labels = list(dict.fromkeys(row.condition for row in rows))
    envs = list(dict.fromkeys(row.env for row in rows))
    by = {(row.condition, row.env): np.array(row.scores) for row in rows}
    seeds = {(row.condition, row.env): row.seeds for row in rows}
    shared = [env for env in envs if all((label, env) in by for label in labels)]
    if len(shared) < 2:
        none = f"no score over environments: all conditions share {', '.join(shared) or 'none'}."
        return [], [none] if len(envs) > 1 else []
    scaled = {}
    for env in shared:
        every = np.concatenate([by[label, env] for label in labels])
        low, high = every.min(), every.max()
        for label in labels:
            values = by[label, env]
            scaled[label, env] = (values - low) / (high - low) if high > low else 0 * values + 0.5
    found = []
    for label in labels:
        groups = [scaled[label, env] for env in shared]
        scores = tuple(np.concatenate(groups).tolist())
        few = min(seeds[label, env] for env in shared)
        found.append(
            ConditionScore(label, ", ".join(shared), scores, few, *_estimate(metric, groups))
        )
    return found, []


def _pairs(rows: Sequence[ConditionScore]) -> tuple[list[Pair], list[str]]:
    """Compare each condition with each other where both were run."""
    by: dict[str, dict[str, ConditionScore]] = {}
    for row in rows:
        by.setdefault(row.condition, {})[row.env] = row
    pairs, notes = [], []
    for first, second in itertools.combinations(by, 2):
        envs = [env for env in by[first] if env in by[second]]
        if not envs:
            notes.append(f"{first} and {second} share no environment.")
            continue
        both = [by[label][env] for env in envs for label in (first, second)]
        groups = [np.array(row.scores) for row in both]
        seeds = min(row.seeds for row in both)
        value = float(estimates.probability_of_improvement(groups))
        ends = estimates.bootstrap_interval(estimates.probability_of_improvement, groups)
        words = verdict(first, second, seeds, value, ends)
        pairs.append(Pair(first, second, tuple(envs), seeds, value, ends, words))
    return pairs, notes


def verdict(
    first: str, second: str, seeds: int, value: float, interval: tuple[float, float]
) -> str:
    """Return what a probability of improvement allows to say.

    Example:
        >>> verdict("a", "b", 5, 0.8, (0.6, 1.0)), verdict("a", "b", 3, 1.0, (1.0, 1.0))
        ('a is better', 'no claim: fewer than 5 seeds')
    """
    if seeds < SEEDS:
        return f"no claim: fewer than {SEEDS} seeds"
    if interval[0] <= 0.5 <= interval[1]:
        return "no difference shown"
    winner, sure = (first, value) if value > 0.5 else (second, 1 - value)
    return f"{winner} is better" if sure >= BETTER else f"{winner} is slightly better"


# --- notes ---------------------------------------------------------------------------------------

Cells = dict[str, dict[str, list[tuple[RunTable, Score]]]]


def _note_mixed_settings(cells: Cells) -> list[str]:
    """Say so where runs of one condition differ in more than their seed."""
    notes = []
    for label, envs in cells.items():
        for env, found in envs.items():
            keys = dict.fromkeys(key for run, _ in found for key in run.settings)
            differ = [k for k in keys if len({run.settings.get(k) for run, _ in found}) > 1]
            if differ:
                shown = ", ".join(clean_text(key) for key in differ[:4])
                notes.append(f"{label} in {env} counts runs together that differ in {shown}.")
    return notes


def _short(cells: Cells) -> list[str]:
    """Say so where runs are compared that had less training than others."""
    ends: dict[str, float] = {}
    for envs in cells.values():
        for env, found in envs.items():
            ends[env] = max([ends.get(env, 0.0), *(one.end for _, one in found)])
    notes = []
    for label, envs in cells.items():
        for env, found in envs.items():
            early = [one.end for _, one in found if one.end < ends[env]]
            if early:
                notes.append(
                    f"{label} in {env}: {len(early)} of {len(found)} runs end before "
                    f"{ends[env]:,.0f} steps, the first at {min(early):,.0f}."
                )
    return notes


def _few(rows: Sequence[ConditionScore], pairs: Sequence[Pair]) -> list[str]:
    """Say what the numbers do not allow."""
    notes = []
    if any(row.seeds < SEEDS for row in rows):
        notes.append(f"with fewer than {SEEDS} seeds intervals are too narrow to be believed.")
    if len(pairs) > 1:
        notes.append(f"{len(pairs)} pairs: each interval stands for itself, none is corrected.")
    return notes
