"""A rank that fails ends the job: within five seconds, with an error, leaving nobody behind."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable

import pytest

from purerl.mpi import launch
from tests.mpi.launch import MPIEXEC, ROOT, Done, clean, end, living, python, ranks

MODULE = ("-m", "tests.mpi.faults")


def ended(start: Callable[[], Done], limit: float = 5.0) -> Done:
    """Start a job that ends soon after its fault; where other work holds the cores, try again."""
    for _ in range(3):
        done = start()
        faults = re.findall(r"fault at ([\d.]+)", done.out)
        assert faults, done.err
        assert done.nobody_left()
        took = done.ended - min(map(float, faults))
        if took < limit:
            return done
    pytest.fail(f"ended {took:.1f} s after the fault, thrice more than {limit} s")


@pytest.mark.parametrize(
    ("kind", "code", "words"),
    [
        ("raise", 1, "rank 1 of 2 failed:\nTraceback.*ArithmeticError: boom on one rank"),
        ("env", 1, "rank 1 of 2 failed:.*environment 0 raised ArithmeticError in step: boom"),
        ("callback", 1, "rank 1 of 2 failed:.*pop from empty list"),
        ("thread", 1, "rank 1 of 2 failed:.*IndexError: pop from empty list"),
        ("interrupt", 130, "rank 1 of 2 failed:.*KeyboardInterrupt"),
        ("exit0", 1, "rank 0 of 2 waits for rank 1, which has ended"),
        ("exit3", 1, "rank 0 of 2 waits for rank 1, which has ended"),
        ("kill", 9, "signal 9"),
        ("config", 7, r"RanksDisagree: .*started with.*\['spec'\]: rank 0 .*hidden=\(8,\)"),
        ("drift", 7, r"RanksDisagree: .* the learner after 1 updates.*\.params\.actor"),
    ],
)
def test_a_rank_that_fails_ends_the_job(kind, code, words):
    limit = 20.0 if kind == "drift" else 5.0  # it compiles before it compares
    done = ended(lambda: ranks(2, *MODULE, kind), limit)
    assert done.code == code, done.err
    assert re.search(words, done.err + done.out, re.DOTALL), done.err


def test_ranks_at_different_collectives_are_told_apart_on_request():
    done = ended(lambda: ranks(2, *MODULE, "branch", PURERL_MPI_CHECK="1"))
    assert done.code == 1
    assert re.search("came to different collectives: rank 0: pmean of 10 .* psum of 3", done.err)


def test_a_rank_that_does_not_come_is_found_on_request():
    done = ended(lambda: ranks(2, *MODULE, "stuck", PURERL_MPI_TIMEOUT="1"), 6.0)
    assert done.code == 1
    assert "rank 0 of 2 has waited 1 s (PURERL_MPI_TIMEOUT)" in done.err
    assert re.search(r"rank 1 of 2 is not waiting.*faults.py\", line \d+ in step", done.err, re.S)


def test_a_rank_that_does_not_come_to_its_end_is_found_too():
    done = ended(lambda: ranks(2, *MODULE, "leave", PURERL_MPI_TIMEOUT="1"), 6.0)
    assert done.code == 1
    assert "rank 0 of 2 has waited 1 s (PURERL_MPI_TIMEOUT) at its end" in done.err
    assert "rank 1 of 2 is not waiting" in done.err


def test_a_thread_that_exits_ends_itself_alone():
    done = ranks(2, *MODULE, "threadexit")
    assert done.code == 0, done.err


MAKE = """
import os, sys, gymnasium
sys.path.insert(0, "examples")
import common
from purerl import mpi
from purerl.algos import vpg
from tests.mpi.faults import now
make, calls = gymnasium.make, []
def broken(*args, **kwargs):
    calls.append(args)
    if mpi.proc_id() == 1 and len(calls) == int(os.environ["WHEN"]):
        now()
        raise ValueError("no such asset")
    return make(*args, **kwargs)
gymnasium.make = broken
common.train(vpg, "", "CartPole-v1", vpg.SCHEDULE, [])
"""


@pytest.mark.parametrize("when", ["1", "2"])  # while spaces are read, while the loop starts
def test_an_environment_that_one_rank_cannot_make_ends_the_job_and_is_told(when):
    done = ended(lambda: ranks(2, "-c", MAKE, WHEN=when))
    assert done.code != 0
    assert "no such asset" in done.err


@pytest.mark.parametrize(
    ("kind", "code", "words"),
    [
        (
            "kill",
            9,
            r"rank (0 or )?1 of 2 ended without finishing.* exit code is 9, as SIGKILL gives",
        ),
        ("osexit0", 1, "rank (0 or )?1 of 2 ended without finishing.* exit code is 0"),
        ("exit0", 1, "rank 0 of 2 waits for rank 1, which has ended"),
    ],
)
def test_a_forked_job_fails_likewise_and_names_the_rank(kind, code, words):
    done = ended(lambda: python(*MODULE, kind, "--fork"))
    assert done.code == code, done.err
    assert re.search(words, done.err)


@pytest.mark.parametrize(
    ("order", "finished", "who"),
    [
        ([{1}, {0}], [], "1"),
        ([{0, 1}], [], "0 or 1"),  # both at one look: it cannot be known
        ([{0}, {1}], [0], "1"),
        ([], [], "0 or 1"),
    ],
)
def test_the_rank_that_ended_first_without_finishing_is_named(
    order, finished, who, tmp_path, capsys
):
    for name in ("pid-0", "pid-1", *(f"done-{rank}" for rank in finished)):
        (tmp_path / name).touch()
    assert launch._decide_code(9, 2, order, tmp_path) == 9
    assert capsys.readouterr().err.startswith(f"rank {who} of 2 ended without finishing")


def test_ranks_of_other_hosts_that_leave_no_notes_are_not_accused(tmp_path, capsys):
    for name in ("pid-0", "done-0"):  # rank 1 is elsewhere
        (tmp_path / name).touch()
    assert launch._decide_code(0, 2, [{0}], tmp_path) == 0
    assert launch._decide_code(75, 2, [], tmp_path) == 75
    assert launch._decide_code(-15, 2, [], tmp_path) == 143
    assert not capsys.readouterr().err


@pytest.mark.parametrize("fork", [True, False])
def test_ranks_that_wait_in_vain_leave_at_the_second_signal(fork):
    line = [sys.executable, *MODULE, "apart"]
    line = [*line, "--fork"] if fork else [MPIEXEC, "-n", "2", *line]
    mark = f"PURERL_TEST_JOB=apart{fork}-{os.getpid()}"
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    env = clean() | dict([mark.split("=")])
    process = subprocess.Popen(line, env=env, cwd=ROOT, **pipes)
    try:
        process.stdout.readline()  # until both wait, in different collectives
        time.sleep(1.0)
        process.terminate()
        time.sleep(2.0)
        assert process.poll() is None
        process.terminate()
        err = process.communicate(timeout=10)[1]
        assert process.returncode == 128 + signal.SIGTERM, err
        assert "was asked to stop once more. The job is stopped at once." in err
    finally:
        end(mark)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_forked_job_ends_with_its_parent(number):
    mark = f"PURERL_TEST_JOB=signal{number}-{os.getpid()}"
    process = subprocess.Popen(
        [sys.executable, *MODULE, "stuck", "--fork"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=clean() | dict([mark.split("=")]),
        cwd=ROOT,
    )
    try:
        assert process.stdout
        process.stdout.readline()  # until the fault
        assert len(living(mark)) >= 4  # this one, mpiexec, two ranks
        process.send_signal(number)
        code = process.wait(timeout=20)
        assert code == (-9 if number == signal.SIGKILL else 128 + number)
        process.stdout.close()
        for _ in range(50):
            if not living(mark):
                return
            time.sleep(0.1)
        pytest.fail("ranks outlived the process that started them")
    finally:
        end(mark)
