"""A run that is killed or stopped at any moment ends bit for bit like an undisturbed one.

`make test` runs a kill and a stop in tests/runs/training/test_train.py, and some of the kills at
calls in this file.
"""

import json
import random
import shutil
import signal
import subprocess
import sys
import time

import pytest

from purerl import errors
from purerl.runs.record import checkpoint, checkpoint_folders, status
from tests.mpi.launch import ROOT, clean
from tests.reliability.counts import EARLY_KILLS, INTERRUPTS, KILLS, TERMINATIONS, sizes
from tests.runs.script import final, the_run

ALGOS = ("sac", "dqn", "ppo", "acer")
SCRIPT = (sys.executable, "-m", "tests.reliability.script")


def start(*words):
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    return subprocess.Popen([*SCRIPT, *words], env=clean(), cwd=ROOT, **pipes)


@pytest.fixture(scope="module")
def wanted(tmp_path_factory):
    """Return a function that gives the end of an undisturbed run."""
    ends = {}

    def of(algo):
        if algo not in ends:
            data = tmp_path_factory.mktemp(algo)
            out, _ = (process := start("train", algo, str(data))).communicate()
            assert process.returncode == 0, out
            ends[algo] = final(the_run(data))
        return ends[algo]

    return of


class Campaign:
    """Runs of one algorithm, each disturbed again and again until it is done."""

    def __init__(self, algo, data, rng):
        self.algo, self.data, self.rng = algo, data, rng
        self.runs, self.codes, self.skipped, self.slowest = 0, {}, 0, 0.0

    def disturbed(self, number, early, wanted):
        """Send a signal at a random moment, and check the run; return whether it ended the process.

        Args:
            number: Number of the signal.
            early: Whether to send it from the start of the process on, not only after a save.
            wanted: End of an undisturbed run.
        """
        made = [*self.data.glob("*/*/config.json")]
        words = ("resume", str(made[0].parent)) if made else ("train", self.algo, str(self.data))
        process = start(*words)
        said = []
        for line in () if early else process.stdout:
            said.append(line)
            if "steps/s" in line:  # from here on, it saves hundreds of times
                break
        time.sleep(self.rng.random() * (2.0 if early else 0.7))
        process.send_signal(number)
        began = time.monotonic()
        out, _ = process.communicate()
        seconds, code = time.monotonic() - began, process.returncode
        out = "".join(said) + out
        assert "Traceback" not in out, out
        assert code in (0, -number, errors.STOPPED), out
        if number == signal.SIGTERM:
            self.slowest = max(self.slowest, seconds)
            complete = "everything is in" in out  # the signal came while it was ending
            assert early or complete or code in (0, errors.STOPPED), out
        self.codes[code] = self.codes.get(code, 0) + 1
        self.after(wanted)
        return code != 0

    def after(self, wanted):
        """Verify the newest checkpoint; delete a run without one, and compare a finished run."""
        made = [*self.data.glob("*/*/config.json")]
        steps = checkpoint_folders.list_steps(made[0].parent) if made else []
        if not steps:
            shutil.rmtree(self.data, ignore_errors=True)
            self.data.mkdir()
            return
        run = made[0].parent
        loaded = checkpoint.load(run, {}, 0)
        self.skipped += len(loaded.skipped)
        assert loaded.step == steps[-1]
        if status.read_status(run)["status"] == "done" or loaded.step == 30_000:
            self.finish(run, wanted)

    def finish(self, run, wanted):
        """Resume a run to its end, and compare that end."""
        if status.read_status(run)["status"] != "done":
            out, _ = (process := start("resume", str(run))).communicate()
            assert process.returncode == 0, out
        assert final(run) == wanted
        self.runs += 1
        shutil.rmtree(self.data)
        self.data.mkdir()


def campaigns(tmp_path, wanted, number, kind, early=False, seed=0):
    """Disturb runs of all `ALGOS` until `number` signals have struck; return figures."""
    found = {"signals": 0, "runs compared": 0, "codes": {}, "slowest": 0.0}
    for i, algo in enumerate(ALGOS):
        data = tmp_path / algo
        data.mkdir()
        one = Campaign(algo, data, random.Random(100 * seed + i))
        struck, share = 0, len(range(i, number, len(ALGOS)))
        while struck < share:
            struck += one.disturbed(kind, early, wanted(algo))
        made = [*data.glob("*/*/config.json")]
        if made:
            out, _ = (process := start("resume", str(made[0].parent))).communicate()
            assert process.returncode == 0, out
            one.finish(made[0].parent, wanted(algo))
        assert not one.skipped
        found["signals"] += struck
        found["runs compared"] += one.runs
        found["slowest"] = round(max(found["slowest"], one.slowest), 2)
        for code, times in one.codes.items():
            found["codes"][code] = found["codes"].get(code, 0) + times
    return found


@pytest.mark.reliability
def test_kills_at_random_moments(tmp_path, wanted, figures):
    figures(**campaigns(tmp_path, wanted, KILLS, signal.SIGKILL))


@pytest.mark.reliability
def test_kills_while_a_run_starts_and_compiles(tmp_path, wanted, figures):
    figures(**campaigns(tmp_path, wanted, EARLY_KILLS, signal.SIGKILL, early=True, seed=1))


@pytest.mark.reliability
def test_requests_to_stop_at_random_moments(tmp_path, wanted, figures):
    figures(**campaigns(tmp_path, wanted, TERMINATIONS, signal.SIGTERM, seed=2))


def interrupted(data, lines, seconds, times):
    """Send Ctrl-C some seconds after a run printed some lines; return its code and output."""
    words = [sys.executable, "-m", "purerl", "train", "sac", "--env", "Pendulum-v1"]
    words += ["--steps", "1000000", "--data-dir", str(data)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    process = subprocess.Popen(words, env=clean(), cwd=ROOT, **pipes)
    said = "".join(process.stdout.readline() for _ in range(lines))
    for pause in (seconds, *[0.2] * (times - 1)):
        time.sleep(pause)
        process.send_signal(signal.SIGINT)
    try:
        out, _ = process.communicate(timeout=300)
    except subprocess.TimeoutExpired:
        process.kill()
        out, _ = process.communicate()
        pytest.fail(f"after {lines} lines and {seconds:.2f} s it continued: {said}{out}")
    return process.returncode, said + out


@pytest.mark.reliability
@pytest.mark.parametrize("times", [1, 2])
def test_ctrl_c_while_a_run_starts_and_compiles_is_never_lost(tmp_path, figures, times):
    codes = {}
    for number in range(INTERRUPTS):
        data = tmp_path / str(number)
        lines = 1 + number % 2  # at the first, Python starts; at the second, JAX is imported
        code, out = interrupted(data, lines, 3.0 * number / INTERRUPTS, times)
        assert code in (-signal.SIGINT, 130, errors.STOPPED), (code, out)
        assert "Traceback" not in out, out
        assert "ignored" not in out, out
        saved = [
            checkpoint_folders.list_steps(path.parent) for path in data.glob("*/*/config.json")
        ]
        assert code != errors.STOPPED or any(saved), out
        codes[code] = codes.get(code, 0) + 1
    figures(interrupts=INTERRUPTS, times=times, codes=codes)


@sizes("calls")
@pytest.mark.parametrize(
    ("algo", "action"),
    [
        ("sac", "calls"),
        pytest.param("dqn", "calls", marks=pytest.mark.reliability),
        pytest.param("ppo", "calls", marks=pytest.mark.reliability),
        pytest.param("acer", "calls", marks=pytest.mark.reliability),
        pytest.param("sac", "back", marks=pytest.mark.reliability),
        pytest.param("ppo", "back", marks=pytest.mark.reliability),
    ],
)
def test_kills_at_each_call_that_changes_the_disk(tmp_path, figures, algo, action, number):
    process = start(action, algo, str(tmp_path), str(number))
    out, _ = process.communicate()
    assert process.returncode == 0, out
    lines = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
    assert len(lines) >= min(number, 100)
    for found in lines:
        assert found["first"] in (-9, 0), found
        assert not found.get("skipped"), found
        assert found.get("second", 0) == 0, found
        assert found.get("same", found["newest"] is None), found
    before = sum(found["newest"] is None for found in lines)
    figures(calls=lines[0]["of"], killed=len(lines), before_the_first_checkpoint=before)
