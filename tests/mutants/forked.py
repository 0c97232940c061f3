"""Run pytest in a process that tests/mutants/__main__.py forked from a server."""

import multiprocessing
import os
import resource
import sys
from typing import NoReturn

OUTPUT = "output.txt"  # written into the copy
CPU_SECONDS = 240  # ends an endless computation; does not depend on what else the machine does


def run_pytest(words: list[str], folder: str, cache: str) -> NoReturn:
    """Run pytest on a copy of the project like a new process, and exit with its code.

    Args:
        words: Arguments of pytest.
        folder: Folder of the copy.
        cache: Folder of compiled programs.
    """
    os.setsid()  # so that all processes of a test that hangs can be ended
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS + 60))
    output = os.open(f"{folder}/{OUTPUT}", os.O_WRONLY | os.O_CREAT)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.chdir(folder)
    os.environ |= {"PYTHONPATH": folder, "PYTHONDONTWRITEBYTECODE": "1"}
    os.environ["PURERL_TEST_CACHE"] = cache
    sys.dont_write_bytecode = True
    sys.path.insert(0, folder)
    sys.orig_argv = [sys.executable, "-m", "pytest", *words]
    multiprocessing.set_start_method(None, force=True)  # the default, not that of the server
    for name in [*sys.modules]:  # the copy has its own
        if name.partition(".")[0] in ("purerl", "purerl_school", "tests"):
            del sys.modules[name]
    import pytest

    sys.exit(pytest.main(words))
