"""Write runs by hand for the tests of plots and comparisons, and read their results."""

import html
import json
import math
import xml.etree.ElementTree as ET

from purerl.runs.analysis.comparison import compare
from purerl.runs.analysis.tables import find_runs

COLUMNS = ("Epoch", "AverageEpRet", "TotalEnvInteracts", "Time")


def write_run(folder, returns, name="a", seed=0, algo="ppo", env="CartPole-v1", test=None, **spec):
    """Write a run like `purerl train`, with one row per return at steps 100, 200, ..."""
    folder.mkdir(parents=True)
    config = {"algo": algo, "env": env, "seed": seed, "name": name, "spec": spec, "schedule": {}}
    (folder / "config.json").write_text(json.dumps(config))
    names = COLUMNS + (("AverageTestEpRet",) if test else ())
    rows = [(i, value, 100 * i, 2.0 * i) for i, value in enumerate(returns, 1)]
    if test:
        rows = [(*row, value) for row, value in zip(rows, test, strict=True)]
    lines = ["\t".join(map(str, row)) for row in (names, *rows)]
    (folder / "progress.txt").write_text("\n".join(lines) + "\n")
    return folder


def write_foreign_run(folder, text, **config):
    """Write a run of another program: a table, and a configuration if any is given."""
    folder.mkdir(parents=True)
    (folder / "progress.txt").write_text(text)
    if config:
        (folder / "config.json").write_text(json.dumps(config))
    return folder


def write_seeds(data, name, scores, env="CartPole-v1", rows=3, **spec):
    """Write one run per score, whose returns all equal the score; return their folder."""
    for seed, score in enumerate(scores):
        write_run(
            data / name / f"{name}_{env}_s{seed}", [score] * rows, name, seed, env=env, **spec
        )
    return data / name


def find_names(*paths, **options):
    """Return the names of the run folders found at paths, and the notes."""
    runs, notes = find_runs([str(path) for path in paths], **options)
    return [run.path.name for run in runs], notes


def read_texts(path):
    """Return the texts of an SVG, which matplotlib writes as comments beside their shapes."""
    parser = ET.XMLParser(target=ET.TreeBuilder(insert_comments=True))
    comments = ET.fromstring(path.read_text(), parser).iter(ET.Comment)
    return [html.unescape(c.text.strip()) for c in comments]


def replace_nan(array):
    """Return an array as a list with None in place of NaN."""
    return [None if math.isnan(x) else x for x in array.tolist()]


def compare_quietly(*paths, **options):
    """Compare runs without printing notes."""
    notes = []
    found = compare([str(path) for path in paths], say=notes.append, **options)
    assert notes == found.notes
    return found
