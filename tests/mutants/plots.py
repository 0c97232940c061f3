"""Errors in finding, reading, gathering, averaging, drawing and comparing runs."""

from tests.mutants import Mutant

CURVES = "purerl/runs/analysis/tables.py"
CONDITIONS = "purerl/runs/analysis/groups.py"
BANDS = "purerl/runs/analysis/curves.py"
DRAWING = "purerl/runs/analysis/figures.py"
ESTIMATES = "purerl/runs/analysis/statistics.py"
COMPARISON = "purerl/runs/analysis/comparison.py"
PLOT = "purerl/cli/commands/plot.py"
COMPARE = "purerl/cli/commands/compare.py"
PLAIN = "purerl/runs/console.py"
T_CURVES = "tests/runs/analysis/test_tables.py"
T_PLOT = "tests/runs/analysis/test_figures.py"
T_LOOKING = "tests/cli/commands/test_list.py"
T_COMPARE = "tests/runs/analysis/test_comparison.py"

MUTANTS = [
    Mutant("purerl/runs/record/files.py", '(line := file.readline(MAX_LINE)).endswith(b"\\n")', "(line := file.readline(MAX_LINE))", T_CURVES),
    Mutant("purerl/runs/record/files.py", "file.readline(MAX_LINE)", "file.readline()", "tests/runs/record/test_files.py"),
    Mutant(CURVES, "        if len(cells) > MOST:", "        if False:", T_CURVES),
    Mutant(CURVES, "cells.extend([math.nan] * (len(names) - len(row)))", "pass", T_CURVES),
    Mutant(CURVES, "    except csv.Error as error:\n", "    except KeyError as error:\n", T_CURVES),
    Mutant(CURVES, "        if len(row) > len(names):", "        if False:", T_CURVES),
    Mutant(CURVES, "return value if abs(value) <= LARGEST else math.nan", "return value", T_CURVES),
    Mutant(CURVES, "if dropped or key in seen:", "if dropped:", T_CURVES),
    Mutant(CURVES, "or not all(s in where for s in select)", "or not any(s in where for s in select)", T_CURVES),
    Mutant(CURVES, "    if notes[before:]:\n", "    if False:\n", T_CURVES),
    Mutant(CURVES, 'columns["t"] + start', 'columns["t"]', T_CURVES),
    Mutant(CURVES, '"TotalEnvInteracts": np.cumsum(length)', '"TotalEnvInteracts": length', T_CURVES),
    Mutant(CURVES, "if name in run.columns and np.isfinite(run.columns[name]).any():", "if name in run.columns:", T_CURVES),
    Mutant(CURVES, 'RETURNS = ("AverageTestEpRet", "AverageEpRet", "EpRet")', 'RETURNS = ("AverageEpRet", "AverageTestEpRet", "EpRet")', T_CURVES),
    Mutant(CONDITIONS, "(run, other) if _rows(run) > _rows(other) else (other, run)", "(other, run)", T_CURVES),
    Mutant(CONDITIONS, "        if any(len(folders) > 1 for folders in homes.values()):", "        if False:", T_CURVES),
    Mutant(CONDITIONS, "unknown = i if run.seed is None else None", "unknown = None", T_CURVES),
    Mutant(CONDITIONS, "groups.setdefault((run.name, _frozen(settings), run.origin), [])", "groups.setdefault((run.name, (), run.origin), [])", T_CURVES),
    Mutant(BANDS, "np.maximum(counts, 1.0)", "width", T_PLOT),
    Mutant(BANDS, "edges + (width + 1) // 2", "edges + width // 2", T_PLOT),
    Mutant(BANDS, "row[:] = np.interp(x, own[there], y[there], left=np.nan, right=np.nan)", "row[:] = np.interp(x, own[there], y[there])", T_PLOT),
    Mutant(BANDS, "    if all(np.array_equal(x, xs[0]) for x in xs):\n        return xs[0]\n", "", T_PLOT),
    Mutant(BANDS, "some = 2 * counts >= min(len(parts), 2 * counts.max())", "some = counts > 0", T_PLOT),
    Mutant(BANDS, "np.nanstd(rows[:, several], axis=0)", "np.nanstd(rows[:, several], axis=0, ddof=1)", T_PLOT),
    Mutant(BANDS, "several = some & (counts > 1)", "several = some", T_PLOT),
    Mutant(BANDS, "gaps = np.flatnonzero(alone & np.isfinite(y[:-1] + y[1:])) + 1", "gaps = np.flatnonzero(alone & False) + 1", T_PLOT),
    Mutant(BANDS, "np.isfinite(rows[:, some]).any(axis=1).sum()", "len(rows)", T_PLOT),
    Mutant(DRAWING, "there[1:-1] & ~there[:-2] & ~there[2:]", "there[1:-1] & False", T_PLOT),
    Mutant(PLOT, "if end < EARLY * last", "if end < last", T_PLOT),
    Mutant(PLOT, "    if len(envs) < 2:\n        return []\n", "", T_PLOT),
    Mutant(CONDITIONS, "word = _shortest(run.path.resolve(), folders)", "word = run.path.name", T_CURVES),
    Mutant(PLAIN, '"…" if part in shared else part for', "part for", T_PLOT),
    Mutant(PLAIN, "        while label in labels:\n", "        while False:\n", T_PLOT),
    Mutant(PLOT, "_caption(curves, estimator, smooth), not count", "_caption(curves, estimator, smooth)", T_PLOT),
    Mutant(CONDITIONS, '.replace("left out", "drawn too", 1) for note in notes]', " for note in ()]", T_CURVES),
    Mutant(BANDS, "np.append(np.diff(x[order]) > 0, True)", "np.insert(np.diff(x[order]) > 0, 0, True)", T_PLOT),
    Mutant(DRAWING, '"text.parse_math": False,', '"text.parse_math": True,', T_PLOT),
    Mutant(DRAWING, "ax.fill_between(x, curve.low, curve.high,", "ax.fill_between(x, curve.y, curve.high,", T_PLOT),
    Mutant(DRAWING, "if curve.seeds > 1:", "if True:", T_PLOT),
    Mutant(DRAWING, "STYLES[i // len(COLOURS) % len(STYLES)]", "STYLES[0]", T_PLOT),
    Mutant(DRAWING, "        marks.encode(encoding or \"utf-8\")\n", "        pass\n", T_PLOT),
    Mutant(PLOT, "return 5 if isinstance(error, StorageError) else 2", "return 2", T_PLOT),
    Mutant(PLAIN, 'c if c.isprintable() else "?" for c in text', "c for c in text", T_CURVES),
    Mutant(PLAIN, '" " * (w - measure_width(c))', '" " * (w - len(c))', T_LOOKING),
    Mutant(ESTIMATES, "cut = every.shape[-1] // 4", "cut = -(-every.shape[-1] // 4)", T_COMPARE),
    Mutant(ESTIMATES, "        first += number\n", "", T_COMPARE),
    Mutant(ESTIMATES, "[(1 - LEVEL) / 2, (1 + LEVEL) / 2]", "[1 - LEVEL, LEVEL]", T_COMPARE),
    Mutant(ESTIMATES, "np.sign(difference)", "np.sign(-difference)", T_COMPARE),
    Mutant(ESTIMATES, "np.sign(difference).mean(axis=(-2, -1)) + 1) / 2", "difference > 0).mean(axis=(-2, -1))", T_COMPARE),
    Mutant(ESTIMATES, "np.flatnonzero(reached[:-1] & reached[1:])", "np.flatnonzero(reached)", T_COMPARE),
    Mutant(COMPARISON, "end = y[-last:][np.isfinite(y[-last:])]", "end = y[np.isfinite(y)][-last:]", T_COMPARE),
    Mutant(COMPARISON, "every = np.concatenate([by[label, env] for label in labels])", "every = by[labels[0], env]", T_COMPARE),
    Mutant(COMPARISON, "    if interval[0] <= 0.5 <= interval[1]:", "    if interval[0] < 0.5 < interval[1]:", T_COMPARE),
    Mutant(COMPARISON, "seeds = min(row.seeds for row in both)", "seeds = sum(row.seeds for row in both)", T_COMPARE),
    Mutant(COMPARISON, "each, again = conditions.drop_repeated_seeds(one.runs)", "each, again = one.runs, []", T_COMPARE),
    Mutant(COMPARISON, "len({seed for seed in seeds if seed is not None}) + seeds.count(None)", "len(seeds)", T_COMPARE),
    Mutant(CONDITIONS, '(run.name if "algo" not in run.settings else "" for run in runs)', '("" for run in runs)', T_COMPARE),
    Mutant(COMPARISON, "float(np.median(steps))", "float(np.median(steps[np.isfinite(steps)]))", T_COMPARE),
    Mutant(COMPARE, 'f"\\\\{c}" if c in', 'c if c in', T_COMPARE),
]  # fmt: skip
