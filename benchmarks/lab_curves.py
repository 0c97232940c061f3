"""Train all planted copies of the bug labs, and store their curves in purerl_school/labs/curves.

    python benchmarks/lab_curves.py            # all that are missing, about 50 minutes on one core
    python benchmarks/lab_curves.py ppo        # those of one algorithm, again
    python benchmarks/lab_curves.py ppo:3      # one lab, again

Each finished lab is stored at once, so that the program may be stopped and started again.
"""

import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import purerl
from purerl.errors import NonFiniteError
from purerl.runs.record import machine
from purerl_school.labs import planting, training

SEEDS = (0, 1, 2)
FOLDER = Path(training.__file__).with_name("curves")
PACKAGES = ("python", "purerl", "jax", "jaxlib", "flax", "optax", "numpy")


def record(algo: str, number: int) -> tuple[list[int], dict[str, Any]]:
    """Train a lab's copy, or the right module for number 0; return steps and metrics by seed."""
    setup = training.SETUPS[algo]
    source = planting.plant(algo, number).source if number else planting.read_right(algo)
    at = list[int]()
    curves: dict[str, list[list[float | None]]] = {
        name: [[] for _ in SEEDS] for name in setup.metrics
    }
    with tempfile.TemporaryDirectory(prefix=f"lab_{algo}_{number}_") as folder:
        file = Path(folder, f"{algo}.py")
        file.write_text(source)
        try:
            for rows in training.train(training.load_copy(file), setup, SEEDS):
                at.append(rows[0]["steps"])
                for name, several in curves.items():
                    for series, row in zip(several, rows, strict=True):
                        series.append(None if row[name] is None else float(f"{row[name]:.3g}"))
        except NonFiniteError as error:
            print(f"  stopped at step {at[-1] if at else 0}: {error}", flush=True)
    return at, curves


def store(algo: str, number: int) -> None:
    """Train a copy, and add its curves to the file of the algorithm."""
    began, setup = time.perf_counter(), training.SETUPS[algo]
    at, curves = record(algo, number)
    path = FOLDER / f"{algo}.json"
    content = json.loads(path.read_text()) if path.exists() else {}
    if not number:
        versions = machine.list_versions()
        content = {
            "env": setup.env,
            "steps": at[-1],
            "seeds": SEEDS,
            "command": f"python benchmarks/lab_curves.py {algo}",
            "versions": {name: versions[name] for name in PACKAGES},
            "spec": setup.spec,
            "schedule": setup.schedule,
            "at": at,
            "curves": {},
        }
    content["curves"][str(number or "right")] = curves
    path.write_text(json.dumps(content, separators=(",", ":")) + "\n")
    ends = [round(series[-1], 1) if series and series[-1] else None for series in curves["return"]]
    seconds = time.perf_counter() - began
    print(f"{algo} {number or 'right'}: {seconds:.0f} s, returns {ends}", flush=True)


def main(words: list[str]) -> None:
    """Store the curves of the labs in `words`, or all that are missing."""
    purerl.setup()
    wanted = list[tuple[str, int]]()
    for word in words:
        algo, _, number = word.partition(":")
        labs = range(len(planting.list_labs(algo)) + 1)
        wanted += [(algo, int(number))] if number else [(algo, i) for i in labs]
    for algo in planting.NAMES if not words else ():
        path = FOLDER / f"{algo}.json"
        stored = json.loads(path.read_text())["curves"] if path.exists() else {}
        labs = range(len(planting.list_labs(algo)) + 1)
        wanted += [(algo, i) for i in labs if str(i or "right") not in stored]
    for one in wanted:
        store(*one)


if __name__ == "__main__":
    main(sys.argv[1:])
