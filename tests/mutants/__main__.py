"""Plant classic errors one at a time and check that a test fails: `make mutants`.

    python -m tests.mutants                  # all, two at a time, hours
    python -m tests.mutants td3 --jobs 1     # those whose file name contains `td3`
    python -m tests.mutants td3 --list       # print them and run nothing

Each mutant replaces one piece of a source file in a copy of the project and runs the test files
meant to catch it. A mutant that survives, or whose piece is no longer found once, is reported and
the exit code is 1.
"""

import argparse
import concurrent.futures
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.mutants import (
    Mutant,
    envs,
    goals,
    grids,
    hindsight,
    images,
    offpolicy,
    onpolicy,
    plots,
    policies,
    presets,
    ranks,
    reliability,
    reports,
    runs,
    sequences,
    subtle,
)

ROOT = Path(__file__).parents[2]
PARTS = (
    *(envs, goals, grids, hindsight, images, offpolicy, onpolicy, plots, policies, presets),
    *(ranks, reliability, reports, runs, sequences, subtle),
)
MUTANTS = [mutant for part in PARTS for mutant in part.MUTANTS]


def survives(mutant: Mutant) -> str:
    """Return why a mutant counts as a survivor, or an empty string if a test failed."""
    source = (ROOT / mutant.file).read_text()
    if source.count(mutant.old) != 1:
        return f"its piece is found {source.count(mutant.old)} times"
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        for name in ("purerl", "tests", "examples"):
            shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(ROOT / "pyproject.toml", copy)
        (copy / mutant.file).write_text(source.replace(mutant.old, mutant.new))
        tests = mutant.tests.split()
        words = [
            "-m",
            "pytest",
            "-x",
            "-q",
            "-p",
            "no:cacheprovider",
            "-m",
            "not slow and not reliability",
            *tests,
        ]
        if "/algos/" in mutant.file and "tests/contract" in mutant.tests:
            words += ["-k", Path(mutant.file).stem]
        env = dict(os.environ) | {"PYTHONPATH": folder, "PYTHONDONTWRITEBYTECODE": "1"}
        env["PURERL_TEST_CACHE"] = str(ROOT / ".pytest_cache" / "mutants")
        command = [sys.executable, *words]
        try:
            run = subprocess.run(command, cwd=folder, env=env, capture_output=True, timeout=600)
        except subprocess.TimeoutExpired:
            return ""  # a test that never ends is noticed as well
    if run.returncode == 1:
        return ""
    return "all tests pass" if run.returncode == 0 else f"pytest ended with {run.returncode}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("select", nargs="?", default="", help="part of a file name")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--list", action="store_true", help="print the mutants and run nothing")
    args = parser.parse_args()
    chosen = [m for m in MUTANTS if args.select in m.file]
    if args.list:
        for m in chosen:
            print(f"{m.file}: {m.old!r} -> {m.new!r} ({m.tests})")
        return
    began, survivors = time.monotonic(), 0
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        for mutant, reason in zip(chosen, pool.map(survives, chosen), strict=True):
            if reason:
                survivors += 1
                print(f"SURVIVED ({reason}): {mutant.file}: {mutant.old!r} -> {mutant.new!r}")
            else:
                print(f"caught: {mutant.file}: {mutant.old[:60]!r} -> {mutant.new[:60]!r}")
            sys.stdout.flush()
    minutes = (time.monotonic() - began) / 60
    print(f"{len(chosen)} mutants, {survivors} survived, {minutes:.0f} minutes")
    sys.exit(bool(survivors))


if __name__ == "__main__":
    main()
