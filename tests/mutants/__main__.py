"""Plant classic errors one at a time and check that a test fails: `make mutants`.

    python -m tests.mutants                  # all, two at a time, hours
    python -m tests.mutants td3 --jobs 1     # those whose file name contains `td3`
    python -m tests.mutants td3 --list       # print them and run nothing
    python -m tests.mutants --from 100 --to 199 --jobs 1

Each mutant replaces one piece of a source file in a copy of the project and runs the test files
meant to catch it. A mutant that survives, or whose piece is no longer found once, is reported and
the exit code is 1.
"""

import argparse
import concurrent.futures
import importlib
import multiprocessing
import os
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

from purerl.compiler import TEST_FLAGS, select_flags
from tests.mutants import Mutant, forked

ROOT = Path(__file__).parents[2]
CACHE = str(ROOT / ".pytest_cache" / "mutants")  # of compiled programs
FILES = sorted(path.stem for path in Path(__file__).parent.glob("[a-z]*.py"))
PARTS = [importlib.import_module(f"tests.mutants.{name}") for name in FILES]
MUTANTS: list[Mutant] = [mutant for part in PARTS for mutant in getattr(part, "MUTANTS", ())]


# A server imports these modules once, and forks a process for each mutant: this saves seconds.
PROCESSES = multiprocessing.get_context("forkserver")
os.environ["JAX_PLATFORMS"] = "cpu"  # JAX reads it when it is imported
PROCESSES.set_forkserver_preload(["pytest", "jax", "flax.linen", "gymnasium", "optax"])


def plant(mutant: Mutant) -> tuple[bool, str]:
    """Plant one error, and run its tests.

    Returns:
        Whether a test failed, and which one; or else why the mutant counts as a survivor.
    """
    source = (ROOT / mutant.file).read_text()
    if source.count(mutant.old) != 1:
        return False, f"its piece is found {source.count(mutant.old)} times"
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        for name in ("purerl", "purerl_school", "tests", "examples"):
            shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(ROOT / "pyproject.toml", copy)
        (copy / mutant.file).write_text(source.replace(mutant.old, mutant.new))
        words = ["-x", "-q", "-p", "no:cacheprovider", "-m", "not slow and not reliability"]
        if "/algos/" in mutant.file and "tests/contract" in mutant.tests:
            words += ["-k", Path(mutant.file).stem]
        words += mutant.tests.split()
        process = PROCESSES.Process(target=forked.run_pytest, args=(words, folder, CACHE))
        process.start()
        process.join(timeout=1800)
        if process.is_alive():
            os.killpg(process.pid, signal.SIGKILL)
            process.join()
            return True, "a test that does not end"
        if process.exitcode == -signal.SIGXCPU:
            return True, f"a test that computes for more than {forked.CPU_SECONDS} s"
        if process.exitcode == 1:
            lines = (copy / forked.OUTPUT).read_text(errors="replace").splitlines()
            failed = [line for line in lines if line.startswith(("FAILED ", "ERROR "))]
            return True, failed[0][:200] if failed else "no test by name"
    return False, f"pytest ended with {process.exitcode}" if process.exitcode else "all tests pass"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("select", nargs="?", default="", help="part of a file name")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--from", dest="first", type=int, default=0, help="first number")
    parser.add_argument("--to", dest="last", type=int, default=len(MUTANTS) - 1, help="last number")
    parser.add_argument("--list", action="store_true", help="print the mutants and run nothing")
    args = parser.parse_args()
    chosen = {
        number: mutant
        for number, mutant in enumerate(MUTANTS)
        if args.select in mutant.file and args.first <= number <= args.last
    }
    if args.list:
        for number, m in chosen.items():
            print(f"{number} {m.file}: {m.old!r} -> {m.new!r} ({m.tests})")
        return
    os.environ.setdefault("XLA_FLAGS", select_flags(TEST_FLAGS))
    began, survivors = time.monotonic(), 0
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        results = pool.map(plant, chosen.values())
        for (number, m), (caught, why) in zip(chosen.items(), results, strict=True):
            survivors += not caught
            result = "caught" if caught else "SURVIVED"
            print(f"{result} {number} {m.file}: {m.old!r} -> {m.new!r} ({why})", flush=True)
    minutes = (time.monotonic() - began) / 60
    print(f"{len(chosen)} mutants, {survivors} survived, {minutes:.0f} minutes")
    sys.exit(bool(survivors))


if __name__ == "__main__":
    main()
