"""Examples and commands on two ranks: only rank 0 prints, and user errors are one line."""

import re
import shutil
import signal
import subprocess
import sys

import pytest

from purerl.runs.record import folder
from purerl.runs.settings.config import to_json
from tests.mpi.launch import ROOT, clean, python, ranks
from tests.runs.script import settings, table


@pytest.mark.mpi
def test_without_mpi4py_one_rank_runs_and_fork_names_what_to_install():
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


def test_an_error_on_all_ranks_is_printed_once_with_its_exit_code(tmp_path):
    config = settings("vpg")
    folder.update_status(
        folder.create_folder(to_json(config), str(tmp_path)), status="stopped", step=40
    )
    words = ["vpg", "--env", "Pendulum-v1", "--seed", "5", "--hidden", "16,16"]
    done = ranks(2, "-m", "purerl", "train", *words, "--data-dir", str(tmp_path))
    assert done.code == 2
    assert done.err.count("exists and is not finished (step 40)") == 1
    assert "Traceback" not in done.err


@pytest.mark.mpi
@pytest.mark.parametrize("fork", [True, False])
def test_an_example_runs_on_two_ranks(fork):
    words = ["examples/run_vpg.py", "--steps", "2000", "--steps-per-epoch", "1000"]
    words += ["--hidden", "8", "--train-v-iters", "2", "--num-test-episodes", "1"]
    done = python(*words, "--num-cpu", "2") if fork else ranks(2, *words)
    assert done.code == 0, done.err
    said = done.out.splitlines()
    assert re.match(r"vpg on CartPole-v1, seed 0: 2,000 steps on 2 ranks, processes \[", said[0])
    assert len(said) == 5  # only rank 0 prints
    assert said[3].startswith("step     2,000")


@pytest.mark.complete
def test_the_command_line_of_spinning_up_starts_ranks(tmp_path):
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
    assert done.out.count("return") == 2  # heading and last line, only of rank 0
    assert re.search(r"\n +400 ", (run / "stdout.log").read_text())


@pytest.mark.mpi
def test_a_grid_is_refused_on_two_ranks(tmp_path):
    words = ["sweep", "ppo", "--env", "CartPole-v1", "--grid", "gamma=0.9,0.8"]
    done = ranks(2, "-m", "purerl", *words, "--data-dir", str(tmp_path))
    assert done.code == 2
    assert "Start the grid without mpiexec" in done.err
    assert not [*tmp_path.iterdir()]


@pytest.mark.mpi
def test_a_command_for_one_process_is_refused_on_two_ranks():
    done = ranks(2, "-m", "purerl", "eval", "anything")
    assert done.code == 2
    assert "purerl eval: this command runs in one process. Start it without mpiexec." in done.err


@pytest.mark.mpi
@pytest.mark.parametrize(
    "words",
    ["examples/run_vpg.py --polyack 1", "-m purerl train vpg --env X-v0 --gamma 2"],
)
def test_ranks_print_a_mistake_in_the_command_line_once(words):
    done = ranks(2, *words.split())
    assert done.code == 2
    assert (done.out + done.err).count(": error: ") == 1
    assert "Traceback" not in done.err


@pytest.mark.mpi
def test_an_example_says_once_that_it_rounds_counts_up():
    words = ("--num-cpu", "3", "--steps", "100", "--num-test-episodes", "0", "--hidden", "8")
    done = python("examples/run_vpg.py", *words)
    assert done.code == 0, done.err
    assert done.out.count("rounded up to what fits: steps from 100 to 102\n") == 1


LATE = """
import os, sys
from purerl.mpi import signals, watchdog
rank = int(os.environ.get("PMI_RANK", os.environ.get("OMPI_COMM_WORLD_RANK", "0")))
if rank == 1:  # its watcher reads the note when the run has ended
    read = signals.read_note
    def read_late(job, again=""):
        return read(job, again) if "stopped" in watchdog.ended else 0
    def leaves(found, stop, watcher, leave=watchdog._leave):
        watchdog.ended.append("stopped")
        leave(found, stop, watcher)
    signals.read_note, watchdog._leave, watchdog.ended = read_late, leaves, []
from purerl.cli.main import main
sys.exit(main())
"""
BURSTS = {
    "steps": 10**7, "steps-per-epoch": 200, "update-every": 2, "updates-per-burst": 1,
    "start-steps": 10, "update-after": 20, "batch-size": 8, "replay-size": 1000, "hidden": 8,
}  # fmt: skip


@pytest.mark.mpi
@pytest.mark.parametrize(
    "number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.mpi)]
)
def test_a_request_that_reaches_a_rank_late_does_not_end_a_job_that_has_saved(tmp_path, number):
    words = [f"--{name}={value}" for name, value in BURSTS.items()]
    words += ["--env=CartPole-v1", "--num-test-episodes=0", "--preset=none", "--num-cpu=2"]
    line = [sys.executable, "-c", LATE, "train", "dqn", *words, f"--data-dir={tmp_path}"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    with subprocess.Popen(line, env=clean(), cwd=ROOT, **pipes) as process:
        said = ""
        while not re.search(r"\n +200 ", said):
            said += (got := process.stdout.readline())
            assert got, said
        process.send_signal(number)
        said += process.communicate()[0]
    assert process.returncode == 75, said
    assert "Continue: purerl resume" in said


@pytest.mark.mpi
def test_goals_are_replayed_and_resumed_on_two_ranks(tmp_path):
    words = "train dqn --env BitFlipping-v0 --steps 606 --num-test-episodes 2 --steps-per-epoch 202"
    words += " --update-after 300 --update-every 10 --save-freq 202 --hidden 8 --replay-size 300"
    words += f" --num-cpu 2 --data-dir {tmp_path}"
    done = python("-m", "purerl", *words.split())
    assert done.code == 0, done.err
    (run,) = tmp_path.glob("*/*_s0")
    whole = [row | {"Time": ""} for row in table(run / "progress.txt", "\t")]
    shutil.rmtree(run / "checkpoints" / f"{606:012d}")
    done = python("-m", "purerl", "resume", str(run), "--num-cpu", "2")
    assert done.code == 0, done.err
    assert "did not return" not in done.out
    assert whole == [row | {"Time": ""} for row in table(run / "progress.txt", "\t")]
