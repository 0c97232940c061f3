"""Runs made by hand for the tests of plots and comparisons: ours, Spinning Up's, SB3's."""

import json

COLUMNS = ("Epoch", "AverageEpRet", "TotalEnvInteracts", "Time")


def ours(folder, returns, name="a", seed=0, algo="ppo", env="CartPole-v1", test=None, **spec):
    """A run as `purerl train` leaves it; a row per return, at steps 100, 200, ..."""
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


def foreign(folder, text, **config):
    """A run of somebody else: a table, and a configuration if there are words for one."""
    folder.mkdir(parents=True)
    (folder / "progress.txt").write_text(text)
    if config:
        (folder / "config.json").write_text(json.dumps(config))
    return folder


def seeds(data, name, scores, env="CartPole-v1", rows=3, **spec):
    """Runs whose returns are constant, one per score."""
    for seed, score in enumerate(scores):
        ours(data / name / f"{name}_{env}_s{seed}", [score] * rows, name, seed, env=env, **spec)
    return data / name
