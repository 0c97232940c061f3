"""Mutants of the code that finds, reads, groups, averages, draws and compares runs."""

from tests.mutants import Mutant

TABLES = "purerl/runs/analysis/tables.py"
GROUPS = "purerl/runs/analysis/groups.py"
FIGURES = "purerl/runs/analysis/figures.py"
PLOTS = "purerl/runs/analysis/plots.py"
STATISTICS = "purerl/runs/analysis/statistics.py"
COMPARISON = "purerl/runs/analysis/comparison.py"
COMPARE = "purerl/cli/commands/compare.py"
PLOT = "purerl/cli/commands/plot.py"
CONSOLE = "purerl/runs/console.py"
T = "tests/runs/analysis/test_"
T_TABLES, T_GROUPS = f"{T}tables.py", f"{T}groups.py"
T_FIGURES, T_PLOTS = f"{T}figures.py", f"{T}plots.py"
T_STATISTICS, T_COMPARISON = f"{T}statistics.py", f"{T}comparison.py"
T_LIST = "tests/cli/commands/test_list.py"
T_PLOT = "tests/cli/commands/test_plot.py"
T_COMPARE = "tests/cli/commands/test_compare.py"

MUTANTS = [
    Mutant("purerl/runs/record/files.py", '(line := file.readline(MAX_LINE)).endswith(b"\\n")', "(line := file.readline(MAX_LINE))", T_TABLES),
    Mutant("purerl/runs/record/files.py", "file.readline(MAX_LINE)", "file.readline()", "tests/runs/record/test_files.py"),
    Mutant(TABLES, "            if len(cells) > MOST:", "            if False:", T_TABLES),
    Mutant(TABLES, "cells.extend([math.nan] * (len(names) - len(row)))", "pass", T_TABLES),
    Mutant(TABLES, "    except csv.Error as error:\n", "    except KeyError as error:\n", T_TABLES),
    Mutant(TABLES, "            if len(row) > len(names):", "            if False:", T_TABLES),
    Mutant(TABLES, "return value if abs(value) <= LARGEST else math.nan", "return value", T_TABLES),
    Mutant(TABLES, "if dropped or key in seen:", "if dropped:", T_TABLES),
    Mutant(TABLES, "or not all(s in folder for s in select)", "or not any(s in folder for s in select)", T_TABLES),
    Mutant(TABLES, "dict.fromkeys(notes[before:])", "dict.fromkeys(notes[:0])", T_TABLES),
    Mutant(TABLES, 'columns["t"] + start', 'columns["t"]', T_TABLES),
    Mutant(TABLES, "np.cumsum(length), time", "length, time", T_TABLES),
    Mutant(TABLES, "if name in run.columns and np.isfinite(run.columns[name]).any():", "if name in run.columns:", T_TABLES),
    Mutant(TABLES, 'RETURNS = ("AverageTestEpRet", "AverageEpRet", "EpRet")', 'RETURNS = ("AverageEpRet", "AverageTestEpRet", "EpRet")', T_TABLES),
    Mutant(GROUPS, "max(same, key=lambda run: len(next(iter(run.columns.values()))))", "same[0]", T_GROUPS),
    Mutant(GROUPS, "if len({run.path.parent for run in same}) > 1}", "if False}", T_GROUPS),
    Mutant(GROUPS, "run.seed is None and id(run)", "False", T_GROUPS),
    Mutant(GROUPS, "groups = _group(runs, lambda run: _identify(run, ignore))", "groups = _group(runs, lambda run: (run.name, (), run.origin))", T_GROUPS),
    Mutant(PLOTS, "np.maximum(counts, 1.0)", "width", T_PLOTS),
    Mutant(PLOTS, "slice((width - 1) // 2, (width - 1) // 2 + len(y))", "slice(width // 2, width // 2 + len(y))", T_PLOTS),
    Mutant(PLOTS, "    width = min(width, 2 * len(y))", "    width = min(width, len(y))", T_PLOTS),
    Mutant(PLOTS, "smoothed[finite], left=np.nan, right=np.nan)", "smoothed[finite])", T_PLOTS),
    Mutant(PLOTS, " and any(len(own) < len(x) for own, _ in parts):", ":", T_PLOTS),
    Mutant(PLOTS, "enough = 2 * counts >= min(len(parts), 2 * counts.max())", "enough = counts > 0", T_PLOTS),
    Mutant(PLOTS, "    rows[:, ~enough] = np.nan\n", "", T_PLOTS),
    Mutant(PLOTS, "np.nanstd(rows, axis=0)", "np.nanstd(rows, axis=0, ddof=1)", T_PLOTS),
    Mutant(PLOTS, "np.isfinite(rows).sum(axis=0) > 1", "np.isfinite(rows).sum(axis=0) > 0", T_PLOTS),
    Mutant(PLOTS, "gaps = np.flatnonzero(broken & ", "gaps = np.flatnonzero(False & ", T_PLOTS),
    Mutant(PLOTS, "int(finite.any(axis=1).sum())", "len(rows)", T_PLOTS),
    Mutant(FIGURES, "finite[1:-1] & ~finite[:-2] & ~finite[2:]", "finite[1:-1] & False", T_FIGURES),
    Mutant(PLOTS, "if end < EARLY * last", "if end < last", T_PLOTS),
    Mutant(PLOTS, " and _name_env(r) == env])", "])", T_PLOTS),
    Mutant(GROUPS, "    if len(set(names)) < len(names):", "    if False:", T_GROUPS),
    Mutant(CONSOLE, "if x not in labels", "if x", T_FIGURES),
    Mutant(CONSOLE, '"…" if part in shared else part for', "part for", T_FIGURES),
    Mutant(PLOTS, "Path(out), caption, not count)", "Path(out), caption)", T_FIGURES),
    Mutant(GROUPS, '.replace("left out", "also drawn", 1) for note in doubles]', " for note in ()]", T_GROUPS),
    Mutant(PLOTS, "np.append(np.diff(x[order]) > 0, True)", "np.insert(np.diff(x[order]) > 0, 0, True)", T_PLOTS),
    Mutant(FIGURES, '"text.parse_math": False,', '"text.parse_math": True,', T_FIGURES),
    Mutant(FIGURES, "ax.fill_between(x, curve.low, curve.high,", "ax.fill_between(x, curve.y, curve.high,", T_FIGURES),
    Mutant(FIGURES, "if curve.seeds > 1:", "if True:", T_FIGURES),
    Mutant(FIGURES, "cycler(linestyle=LINES) * cycler(color=COLOURS)", 'cycler(linestyle=["-"]) * cycler(color=COLOURS)', T_FIGURES),
    Mutant(FIGURES, '        marks.encode(encoding or "utf-8")\n', "        pass\n", T_FIGURES),
    Mutant(FIGURES, "if c.counts[-1] > 1", "if True", T_FIGURES),
    Mutant(PLOT, "    if missing and given:\n        raise ConfigError(missing)\n", "", T_PLOT),
    Mutant(CONSOLE, 'c if c.isprintable() else "?" for c in text', "c for c in text", T_GROUPS),
    Mutant(CONSOLE, '" " * (w - measure_width(c))', '" " * (w - len(c))', T_LIST),
    Mutant(STATISTICS, "cut = scores.shape[axis] // 4", "cut = -(-scores.shape[axis] // 4)", T_STATISTICS),
    Mutant(STATISTICS, "rng.choice(group, (repeats, len(group)))", "np.random.default_rng(SEED).choice(group, (repeats, len(group)))", T_STATISTICS),
    Mutant(STATISTICS, "np.random.default_rng(SEED)", "np.random.default_rng()", T_STATISTICS),
    Mutant(STATISTICS, "[0.025, 0.975]", "[0.05, 0.95]", T_STATISTICS),
    Mutant(STATISTICS, "np.sign(difference)", "np.sign(-difference)", T_STATISTICS),
    Mutant(STATISTICS, "np.sign(difference).mean(axis=(-2, -1)) + 1) / 2", "difference > 0).mean(axis=(-2, -1))", T_STATISTICS),
    Mutant(STATISTICS, "np.flatnonzero(reached[:-1] & reached[1:])", "np.flatnonzero(reached)", T_STATISTICS),
    Mutant(COMPARISON, "end = values[-last:][np.isfinite(values[-last:])]", "end = values[np.isfinite(values)][-last:]", T_COMPARISON),
    Mutant(COMPARISON, "for other in labels for score in cells[other, env].scores]", "for score in cells[labels[0], env].scores]", T_COMPARISON),
    Mutant(COMPARISON, "    if interval[0] <= 0.5 <= interval[1]:", "    if interval[0] < 0.5 < interval[1]:", T_COMPARISON),
    Mutant(COMPARISON, "seeds = min(row.seeds for row in both)", "seeds = sum(row.seeds for row in both)", T_COMPARISON),
    Mutant(COMPARISON, "in groups.drop_repeated_seeds(members, notes):", "in members:", T_GROUPS),
    Mutant(COMPARISON, "len(set(seeds) - {None}) + seeds.count(None)", "len(seeds)", T_COMPARISON),
    Mutant(GROUPS, '"" if "algo" in run.settings else run.name', '""', T_COMPARISON),
    Mutant(COMPARISON, "float(np.median(reached))", "float(np.median([x for x in reached if np.isfinite(x)]))", T_COMPARISON),
    Mutant(COMPARE, 'f"\\\\{c}" for c in', 'c for c in', T_COMPARE),
]  # fmt: skip
