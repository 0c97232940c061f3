"""Processes that `jax.distributed` connects, and learning on two ranks (`make test-mpi`)."""

import re
import socket
import subprocess
import sys

import pytest

from tests.mpi.launch import LIMIT, ROOT, clean, python, ranks

pytestmark = pytest.mark.mpi
SCRIPT = ("-m", "tests.mpi.distributed")
CASES = ("sac", "td3", "ppo-box", "trpo-discrete")


def free_port() -> str:
    with socket.socket() as s:
        s.bind(("localhost", 0))
        return str(s.getsockname()[1])


def all_cases_agree(out: str) -> bool:
    return all(f"{name} agrees in process {i}" in out for name in CASES for i in range(2))


def test_two_processes_compute_the_update_of_the_whole_batch():
    port = free_port()
    words = [sys.executable, *SCRIPT, port]
    processes = [
        subprocess.Popen([*words, str(i)], stdout=subprocess.PIPE, text=True, env=clean(), cwd=ROOT)
        for i in range(2)
    ]
    outs = [process.communicate(timeout=LIMIT)[0] for process in processes]
    assert [process.returncode for process in processes] == [0, 0]
    assert all_cases_agree("".join(outs))


def test_processes_under_mpiexec_compute_the_update_of_the_whole_batch():
    done = ranks(2, *SCRIPT, free_port())
    assert done.code == 0, done.err
    assert all_cases_agree(done.out)


def test_two_jobs_at_the_same_time_do_not_disturb_each_other():
    words = [sys.executable, *SCRIPT]
    jobs = []
    for _ in range(2):
        port = free_port()
        for i in range(2):
            env = clean(PYTHONHASHSEED="0")
            pipes = {"stdout": subprocess.PIPE, "text": True}
            jobs.append(subprocess.Popen([*words, port, str(i)], env=env, cwd=ROOT, **pipes))
    outs = [job.communicate(timeout=LIMIT)[0] for job in jobs]
    assert [job.returncode for job in jobs] == [0] * 4
    assert all_cases_agree(outs[0] + outs[1])
    assert all_cases_agree(outs[2] + outs[3])


@pytest.mark.parametrize(
    ("words", "bar"),
    [
        (("examples/run_ppo.py", "--steps", "100000", "--num-test-episodes", "20"), 475.0),
        (("examples/run_sac.py", "--steps", "15000", "--num-test-episodes", "20"), -200.0),
    ],
    ids=["ppo", "sac"],
)
def test_two_ranks_learn(words, bar):
    reached = []
    for seed in range(3):
        done = python(*words, "--num-cpu", "2", "--seed", str(seed))
        assert done.code == 0, done.err
        reached.append(float(re.findall(r"^return (-?[\d.]+) after", done.out, re.M)[0]))
    assert sum(score >= bar for score in reached) >= 2, reached
