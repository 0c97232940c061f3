"""The watchdog: a rank that fails, leaves or is stuck ends the whole job."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable

import pytest

from purerl.mpi import signals, watchdog
from tests.mpi.launch import LIMIT, MPIEXEC, ROOT, Done, clean, end, ranks

MODULE = ("-m", "tests.mpi.faults")
SAY = "from purerl import mpi; print(mpi.proc_id())"


@pytest.mark.parametrize("text", ["soon", "nan", "-5", "0"])
def test_a_timeout_that_is_not_a_positive_number_is_refused(monkeypatch, text):
    monkeypatch.setenv("PURERL_MPI_TIMEOUT", text)
    with pytest.raises(ValueError, match=f"must be a number of seconds above 0, got '{text}'"):
        watchdog._read_timeout()


def run_faulty_job(start: Callable[[], Done]) -> Done:
    """Run a job with a fault; check that all processes end, and print the time (`pytest -rP`)."""
    done = start()
    faults = re.findall(r"fault at ([\d.]+)", done.out)
    assert faults, done.err
    assert done.nobody_left()
    print(f"ended {done.ended - min(map(float, faults)):.1f} s after the fault")
    return done


MPI = pytest.mark.mpi  # only in `make test-mpi`, because another case tests the same code


@pytest.mark.parametrize(
    ("kind", "code", "words"),
    [
        ("raise", 1, "rank 1 of 2 failed:\nTraceback.*ArithmeticError: boom on one rank"),
        ("program", 1, "rank 1 of 2 failed:.*ArithmeticError: boom while the other rank averages"),
        ("thread", 1, "rank 1 of 2 failed:.*IndexError: pop from empty list"),
        ("interrupt", 130, "rank 1 of 2 failed:.*KeyboardInterrupt"),
        ("exit0", 1, "rank 0 of 2 waits for rank 1, which has ended"),
        ("kill", 9, "signal 9"),
        ("drift", 7, r"RanksDisagree: .* the learner after 1 updates.*\.params\.actor"),
        pytest.param("exit3", 1, "rank 0 of 2 waits for rank 1, which has ended", marks=MPI),
        pytest.param("callback", 1, "rank 1 of 2 failed:.*pop from empty list", marks=MPI),
        pytest.param(
            *("env", 1, "rank 1 of 2 failed:.*environment 0 raised ArithmeticError in step: boom"),
            marks=MPI,
        ),
        pytest.param(
            *("config", 7, r"RanksDisagree: .*started with.*\['spec'\]: rank 0 .*hidden=\(4,\)"),
            marks=MPI,
        ),
    ],
)
def test_a_rank_that_fails_ends_the_job(kind, code, words):
    done = run_faulty_job(lambda: ranks(2, *MODULE, kind))
    assert done.code == code, done.err
    assert re.search(words, done.err + done.out, re.DOTALL), done.err


@pytest.mark.mpi
def test_the_check_names_ranks_at_different_collectives():
    done = run_faulty_job(lambda: ranks(2, *MODULE, "branch", PURERL_MPI_CHECK="1"))
    assert done.code == 1
    assert re.search("reached different collectives: rank 0: pmean of 10 .* psum of 3", done.err)


def test_the_timeout_finds_a_rank_that_does_not_arrive():
    done = run_faulty_job(lambda: ranks(2, *MODULE, "stuck", PURERL_MPI_TIMEOUT="1000"))
    assert done.code == 1
    assert "rank 0 of 2 has waited 1 s (PURERL_MPI_TIMEOUT)" in done.err
    assert re.search(
        r"rank 1 of 2 is not waiting.*faults.py\", line \d+ in wait_in_step", done.err, re.S
    )


def test_the_timeout_finds_a_rank_that_is_stuck_at_its_end():
    done = run_faulty_job(lambda: ranks(2, *MODULE, "leave", PURERL_MPI_TIMEOUT="1000"))
    assert done.code == 1
    assert "rank 0 of 2 has waited 1 s (PURERL_MPI_TIMEOUT) at its end" in done.err
    assert "rank 1 of 2 is not waiting" in done.err


@pytest.mark.mpi
def test_a_thread_that_exits_does_not_end_the_job():
    done = ranks(2, *MODULE, "threadexit")
    assert done.code == 0, done.err


MAKE = """
import os, sys, gymnasium
sys.path.insert(0, "examples")
import common
from purerl import mpi
from purerl.algos import vpg
from tests.mpi.faults import announce
make, calls = gymnasium.make, []
def broken(*args, **kwargs):
    calls.append(args)
    if mpi.proc_id() == 1 and len(calls) == int(os.environ["WHEN"]):
        announce()
        raise ValueError("no such asset")
    return make(*args, **kwargs)
gymnasium.make = broken
common.train(vpg, "", "CartPole-v1", [])
"""


@pytest.mark.mpi
@pytest.mark.parametrize("when", ["1", "2"])  # when spaces are read, when the loop starts
def test_an_environment_that_one_rank_cannot_make_ends_the_job_with_its_error(when):
    done = run_faulty_job(lambda: ranks(2, "-c", MAKE, WHEN=when))
    assert done.code != 0
    assert "no such asset" in done.err


@pytest.mark.parametrize("fork", [True, pytest.param(False, marks=MPI)])
def test_ranks_that_wait_forever_end_at_the_second_signal(fork):
    line = [sys.executable, *MODULE, "apart"]
    line = [*line, "--fork"] if fork else [MPIEXEC, "-n", "2", *line]
    mark = f"PURERL_TEST_JOB=apart{fork}-{os.getpid()}"
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    env = clean() | dict([mark.split("=")])
    process = subprocess.Popen(line, env=env, cwd=ROOT, **pipes)
    try:
        process.stdout.readline()  # both ranks then wait, in different collectives
        process.terminate()
        time.sleep(2 * signals.SAME_SIGNAL_SECONDS)
        assert process.poll() is None  # the program handles the first signal
        while process.poll() is None:  # on busy cores it may arrive late
            process.terminate()
            time.sleep(2 * signals.SAME_SIGNAL_SECONDS)
        err = process.communicate(timeout=LIMIT)[1]
        assert process.returncode == 128 + signal.SIGTERM, err
        assert "received a second signal. The job is stopped at once." in err
    finally:
        end(mark)
