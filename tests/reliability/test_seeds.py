"""Seeds in one program that are killed or stopped end like undisturbed ones; not in `make test`."""

import random
import signal
import subprocess
import sys
import time

import pytest

from purerl import errors
from purerl.runs.record import status
from tests.mpi.launch import ROOT, clean
from tests.runs.script import final
from tests.runs.training.test_epochs import find_runs


def start(*words):
    words = (sys.executable, "-m", "purerl", *words)
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    return subprocess.Popen(words, env=clean(), cwd=ROOT, **pipes)


@pytest.mark.reliability
@pytest.mark.parametrize("env", ["jax:CartPole-v1", "CartPole-v1"])
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_seeds_stopped_at_random_moments_continue_to_the_same_end(tmp_path, figures, env, number):
    words = ["dqn", "--env", env, "--seed", "0", "1", "2", "--together", "--hidden", "8"]
    words += ["--steps", "6000", "--steps-per-epoch", "200", "--save-freq", "100", "--keep", "1"]
    words += ["--preset", "none", "--num-test-episodes", "1", "--data-dir"]
    start("train", *words, str(tmp_path / "whole")).communicate()
    rng, stops = random.Random(number), 0
    process = start("train", *words, str(tmp_path / "cut"))
    while True:
        said = []
        for line in process.stdout:
            said.append(line)
            if "steps/s" in line:
                time.sleep(rng.random())
                process.send_signal(number)
                break
        said.append(process.communicate(timeout=600)[0])
        out, runs = "".join(said), find_runs(tmp_path / "cut")
        if all(status.read_status(run).get("status") == "done" for run in runs):
            break  # perhaps it was killed just after
        stops += 1
        assert process.returncode == (errors.STOPPED if number == signal.SIGTERM else -number), out
        if number == signal.SIGTERM:
            assert f"Continue: purerl resume {runs[0].parent} --together\n" in out
        process = start("resume", str(runs[0].parent), "--together")
    assert stops
    figures(stops=stops)
    assert [final(run) for run in runs] == [final(run) for run in find_runs(tmp_path / "whole")]
