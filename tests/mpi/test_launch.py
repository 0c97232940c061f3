"""`fork` starts a program again on several ranks, and passes on signals and the exit code."""

import os
import re
import signal
import subprocess
import sys
import types

import pytest

from purerl import mpi
from purerl.mpi import launch, signals, world
from tests.mpi.launch import LIMIT, MPIEXEC, ROOT, all_end, clean, end, living, python, ranks, run

MODULE = ("-m", "tests.mpi.faults")
PRINT = (
    "from purerl import mpi; mpi.init(); import os, sys;"
    "sys.stdout.write(f'{mpi.proc_id()}/{mpi.num_procs()} {os.environ[\"NPROC\"]}\\n')"
)
FORK = f"from purerl import mpi; mpi.fork(2); {PRINT}"


def lines(text: str) -> list[str]:
    return sorted(text.splitlines())


def test_without_mpiexec_fork_names_what_to_install(monkeypatch):
    monkeypatch.setattr(launch, "find_launcher", lambda: None)
    with pytest.raises(mpi.MPIUnavailable, match=r"no mpiexec.*Type: pip install 'purerl\[mpi\]'"):
        mpi.fork(2)
    with pytest.raises(ValueError, match="^ranks must be an integer of at least 1"):
        mpi.fork(0)


def test_fork_starts_the_same_program_again_and_shares_the_cores():
    share = max(1, len(world.list_cpus()) // 2)
    done = python("-c", FORK)
    assert done.code == 0, done.err
    assert lines(done.out) == [f"0/2 {share}", f"1/2 {share}"]
    assert "2 ranks share" not in done.err or "The program runs" in done.err
    assert lines(ranks(2, "-c", PRINT).out) == lines(done.out)  # the same as under mpiexec


def test_fork_ignores_purerl_mpi_0_and_keeps_the_number_of_threads():
    done = python("-c", FORK, PURERL_MPI="0", NPROC="3")
    assert lines(done.out) == ["0/2 3", "1/2 3"]


def test_fork_refuses_to_repeat_under_a_launcher_that_sets_no_variables(tmp_path):
    done = python("-c", FORK, PURERL_MPI_JOB=str(tmp_path))  # as under an unknown launcher
    assert done.code == 1
    assert "set none of the environment variables by which purerl recognises a rank" in done.err


def test_fork_exits_with_the_code_of_all_ranks():
    code = "from purerl import mpi; mpi.fork(2); mpi.init(); raise SystemExit(3)"
    assert python("-c", code).code == 3


def test_fork_in_a_job_of_another_size_is_refused():
    done = run(MPIEXEC, "-n", "3", sys.executable, "-c", FORK)
    assert done.code == 1
    assert "the program asks for 2 ranks, but mpiexec launched 3" in done.err


@pytest.mark.parametrize("root", [True, False])
def test_open_mpi_gets_its_flags_and_keeps_the_settings_of_the_user(monkeypatch, tmp_path, root):
    fake = tmp_path / "mpiexec"
    fake.write_text("#!/bin/sh\necho 'mpiexec (Open MPI) 5.0.11'\n")
    fake.chmod(0o755)
    mine = {"OMPI_MCA_btl": "tcp", "PMIX_MCA_psec": "none", "HYDRA_IFACE": "ib0", "NPROC": "5"}
    for name, value in {**mine, "OMPI_COMM_WORLD_RANK": "0", "PMIX_RANK": "1"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(os, "geteuid", lambda: 0 if root else 1_000)
    words, env = launch._make_command(str(fake), 2, 4)
    options = ["-n", "2", "--bind-to", "none", "--oversubscribe", sys.executable]
    assert words == [str(fake), *options, *sys.orig_argv[1:]]
    assert mine.items() <= env.items()
    assert not {"OMPI_COMM_WORLD_RANK", "PMIX_RANK"} & env.keys()
    assert env["OMP_NUM_THREADS"] == "2"
    assert ("OMPI_ALLOW_RUN_AS_ROOT" in env) == root
    assert "OMPI_MCA_mpi_yield_when_idle" not in env
    assert launch._make_command(str(fake), 5, 4)[1]["OMPI_MCA_mpi_yield_when_idle"] == "1"
    fake.write_text("#!/bin/sh\necho HYDRA build details\n")
    assert launch._make_command(str(fake), 2, 4)[0][1:4] == ["-n", "2", sys.executable]


def test_the_first_signal_asks_the_ranks_to_stop_and_the_second_ends_the_job(monkeypatch, tmp_path):
    monkeypatch.setattr(signal, "signal", lambda *how: None)
    sent, killed = [], []
    monkeypatch.setattr(os, "killpg", lambda *what: killed.append(what))
    process = types.SimpleNamespace(send_signal=sent.append, pid=7)
    relay = launch._SignalRelay(process, tmp_path)
    relay.handle(signal.SIGINT, None)
    assert sent == [signal.SIGINT]  # no rank is there to read the note
    (tmp_path / "pid-0").touch()
    relay = launch._SignalRelay(process, tmp_path)
    relay.handle(signal.SIGHUP, None)
    assert signals.read_note(str(tmp_path)) == signal.SIGTERM
    relay.handle(signal.SIGHUP, None)  # the same signal a second time
    relay.since = float("inf")
    relay.handle(signal.SIGINT, None)  # another one at once, as when a terminal closes
    assert not signals.read_note(str(tmp_path), signals.AGAIN)
    relay.since = -2 * signals.SAME_SIGNAL_SECONDS
    relay.handle(signal.SIGHUP, None)  # a closing session sends it several times
    assert not signals.read_note(str(tmp_path), signals.AGAIN)
    relay.kill_if_overdue()
    relay.handle(signal.SIGINT, None)
    assert signals.read_note(str(tmp_path), signals.AGAIN) == signal.SIGINT
    relay.kill_if_overdue()
    assert (len(sent), killed) == (1, [])
    relay.until = 0.0
    relay.kill_if_overdue()
    assert killed == [(7, signal.SIGKILL)]
    assert relay.number == signal.SIGHUP


@pytest.mark.parametrize(
    ("kind", "code", "words"),
    [
        (
            "kill",
            9,
            r"rank (0 or )?1 of 2 ended without finishing.* exit code .* is 9, as after SIGKILL",
        ),
        ("osexit0", 1, "rank (0 or )?1 of 2 ended without finishing.* exit code .* is 0"),
        pytest.param(
            *("exit0", 1, "rank 0 of 2 waits for rank 1, which has ended"), marks=pytest.mark.mpi
        ),
    ],
)
def test_a_forked_job_fails_with_the_same_code_and_names_the_rank(kind, code, words):
    """MPICH may end rank 0 some milliseconds before the end of rank 1 can be seen, but rarely."""
    errors = []
    while not errors or (len(errors) < 6 and not re.search(words, errors[-1])):
        done = python(*MODULE, kind, "--fork")
        assert done.code == code, done.err
        assert done.nobody_left()
        errors.append(done.err)
    assert re.search(words, errors[-1])


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_forked_job_ends_when_its_parent_ends(number):
    mark = f"PURERL_TEST_JOB=signal{number}-{os.getpid()}"
    process = subprocess.Popen(
        [sys.executable, *MODULE, "sleep", "--fork"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=clean() | dict([mark.split("=")]),
        cwd=ROOT,
    )
    try:
        process.stdout.readline()  # wait for the fault
        assert len(living(mark)) >= 4  # this one, mpiexec, two ranks
        # Ctrl-C at a terminal reaches the first process only.
        assert [pid for pid in living(mark) if os.getpgid(pid) == os.getpgrp()] == [process.pid]
        process.send_signal(number)
        code = process.wait(timeout=LIMIT)
        assert code == (-9 if number == signal.SIGKILL else 128 + number)
        process.stdout.close()
        assert all_end(mark)
    finally:
        end(mark)


@pytest.mark.parametrize(
    ("order", "finished", "who"),
    [
        ([{1}, {0}], [], "1"),
        ([{0, 1}], [], "0 or 1"),  # both ended at the same check
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


def test_ranks_of_other_hosts_without_notes_are_not_reported(tmp_path, capsys):
    for name in ("pid-0", "done-0"):  # rank 1 is on another host
        (tmp_path / name).touch()
    assert launch._decide_code(0, 2, [{0}], tmp_path) == 0
    assert launch._decide_code(75, 2, [], tmp_path) == 75
    assert launch._decide_code(-15, 2, [], tmp_path) == 143
    assert not capsys.readouterr().err


def test_a_rank_that_is_first_seen_after_its_end_may_have_ended_first(tmp_path):
    """Rank 1 is killed, the launcher kills rank 0, and the file of rank 1 is seen last."""
    first, second = (subprocess.Popen([sys.executable, "-c", ""]) for _ in range(2))
    os.waitid(os.P_PID, first.pid, os.WEXITED | os.WNOWAIT)  # it stays a process that has ended
    second.wait()
    (tmp_path / "pid-0").write_text(str(first.pid))

    class Launcher:
        checks = 0

        def poll(self):
            self.checks += 1
            if self.checks == 2:
                (tmp_path / "pid-1").write_text(str(second.pid))
            return None if self.checks < 3 else 9

    relay = types.SimpleNamespace(kill_if_overdue=lambda: None)
    found = launch._wait_for_launcher(Launcher(), tmp_path, relay)
    first.wait()
    assert found[0] == {0, 1}
