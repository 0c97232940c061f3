"""Measure presets: train with each one by `purerl train`, and write the scores into its file.

    python benchmarks/presets.py                      # all presets of purerl/presets, hours
    python benchmarks/presets.py ppo CartPole-v1      # one of them
    python benchmarks/presets.py ppo CartPole-v1 --seeds 5

The score of a seed is the mean return of the last evaluation. The seconds are the median over the
seeds of the processor time of the whole process, which uses one core.
"""

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "purerl" / "presets"


def measure(algo: str, env: str, seeds: int) -> tuple[list[float], float]:
    """Train with a preset; return the score of each seed, and the median time in seconds."""
    scores, seconds = [], []
    for seed in range(seeds):
        with tempfile.TemporaryDirectory() as folder:
            words = ["train", algo, "--env", env, "--seed", str(seed), "--data-dir", folder]
            before = measure_children()
            subprocess.run(
                [sys.executable, "-m", "purerl", *words], check=True, stdout=subprocess.DEVNULL
            )
            seconds.append(measure_children() - before)
            (status,) = Path(folder).glob("*/*/status.json")
            scores.append(round(json.loads(status.read_text())["score"], 1))
        print(f"{algo} {env} seed {seed}: {scores[-1]} in {seconds[-1]:.0f} s", flush=True)
    return scores, round(statistics.median(seconds))


def measure_children() -> float:
    """Return the processor time of all processes that have ended, in seconds."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> None:
    """Measure the presets of the command line, and write each result at once."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("algo", nargs="?")
    parser.add_argument("env", nargs="?")
    parser.add_argument("--seeds", type=int, default=3)
    args = parser.parse_args()
    for path in sorted(FOLDER.glob(f"{args.algo or '*'}.json")):
        for name, preset in json.loads(path.read_text()).items():
            if args.env not in (None, name) or "about" in preset:
                continue
            scores, seconds = measure(path.stem, name, args.seeds)
            content = json.loads(path.read_text())
            content[name] |= {"scores": scores, "seconds": seconds}
            path.write_text(json.dumps(content, indent=2) + "\n")


if __name__ == "__main__":
    main()
