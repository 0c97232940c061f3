"""The report of a run: screen, `stdout.log`, warnings, and failures with the next command."""

import io
import os
import subprocess
import sys
import warnings

import pytest

from purerl.cli import main as cli
from purerl.errors import EpisodesCut
from purerl.loops import gym
from purerl.runs.record import status
from purerl.runs.training import reporting, train
from purerl.runs.training.progress_bar import Screen
from tests.mpi.launch import ROOT, clean, python
from tests.runs.script import quietly, settings, the_run, tiny
from tests.runs.test_console import Tee

PURERL = ("-m", "purerl")


def test_all_lines_of_the_screen_are_in_the_log(tmp_path):
    out = io.StringIO()
    run = train.train(tiny(save_freq=100), data_dir=str(tmp_path), screen=Screen(out)).run
    assert (run / "stdout.log").read_text() == out.getvalue()
    content = status.read_status(run)
    content["versions"]["numpy"] = "0.1"
    status.write_status(run, content)
    (run / "checkpoints" / "000000000200" / "rank0.npz").write_bytes(b"")
    (run / "metrics.jsonl").write_text("")
    train.resume(run, screen=Screen(out))
    said = out.getvalue()
    assert (run / "stdout.log").read_text() == said
    for words in ("vpg on CartPole-v1", "skipped a dam", "warning: ", "numpy was 0.1", "return "):
        assert words in said
    assert "continues at step 100. The 100 steps up to the newest checkpoint are lost" in said


def test_loop_warnings_become_lines_and_others_stay_warnings():
    def begins():
        with reporting.report_warnings(lines.append):
            warnings.warn("cut", EpisodesCut, stacklevel=1)
            warnings.warn("old", DeprecationWarning, stacklevel=1)

    lines = []
    with pytest.warns(DeprecationWarning, match="old") as caught:
        begins()
    assert lines == ["warning: cut"]
    assert len(caught) == 1


def test_a_failed_run_writes_the_reason_into_its_folder(tmp_path, monkeypatch):
    monkeypatch.setattr(gym, "advance", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        train.train(settings("ppo"), data_dir=str(tmp_path), screen=Screen(quiet=True))
    run = the_run(tmp_path)
    state = status.read_status(run)
    note = f"there is no checkpoint yet. Start again: purerl resume {run}"
    said = (run / "stdout.log").read_text()
    assert said.endswith(f"purerl: division by zero\n  {note}\n")
    assert (state["status"], state["reason"]) == ("failed", "ZeroDivisionError: division by zero")


def test_a_run_prints_to_a_stream_with_only_write_and_flush(tmp_path, monkeypatch):
    tee = Tee()
    monkeypatch.setattr(sys, "stdout", tee)
    train.train(tiny(), data_dir=str(tmp_path))
    assert "everything is in" in tee.text


def test_paths_and_errors_that_are_not_utf_8_are_written_as_escapes(tmp_path, monkeypatch):
    def fail(carry, should_stop):
        raise RuntimeError("bad name \udce9" + "x" * 2**21)

    out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    place = tmp_path / "caf\udce9"
    monkeypatch.setattr(gym, "advance", fail)
    with pytest.raises(RuntimeError):
        train.train(tiny(), data_dir=str(place), screen=Screen(out))
    (found,) = status.list_runs(place)
    assert found.status == "failed"
    assert found.reason.startswith("RuntimeError: bad name \udce9xxx")
    assert len(found.reason) < 11_000
    assert "caf\\udce9" in (found.path / "stdout.log").read_text()
    assert b"caf?" in out.buffer.getvalue()


@pytest.mark.parametrize("where", [pytest.param("full", marks=pytest.mark.complete), "closed"])
def test_the_command_trains_without_a_working_output(tmp_path, where):
    words = ["train", "vpg", "--env", "CartPole-v1", "--hidden", "4", "--steps", "200"]
    words += ["--steps-per-epoch", "100", "--preset", "none", "--data-dir", str(tmp_path)]
    line = [sys.executable, *PURERL, *words]
    shell = 'exec "$@" > /dev/full' if where == "full" else 'exec "$@" >&-'
    line = ["sh", "-c", shell, "sh", *line]
    done = subprocess.run(line, env=clean(), cwd=ROOT, stderr=subprocess.PIPE, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert status.read_status(the_run(tmp_path))["status"] == "done"


def test_a_closed_or_full_output_ends_without_a_traceback():
    read, write = os.pipe()
    os.close(read)
    for words in (("list", "algos"), ("--help",)):
        line = [sys.executable, *PURERL, *words]
        rest = {"env": clean(), "cwd": ROOT, "stderr": subprocess.PIPE, "text": True}
        done = subprocess.run(line, stdout=write, **rest)
        assert (done.returncode, done.stderr) == (141, "")
        with open("/dev/full", "w") as full:
            done = subprocess.run(line, stdout=full, **rest)
        assert done.returncode == 5
        assert done.stderr == (
            "purerl: the output could not be written: No space left on device.\n"
        )
    os.close(write)


def test_buffered_output_that_cannot_be_written_is_an_error(monkeypatch, capsys):
    class Module:
        def __getattr__(self, name):
            return lambda words: sys.stdout.write("rows") - 4

    monkeypatch.setattr(cli.importlib, "import_module", lambda name: Module())
    with open("/dev/full", "w") as full:
        monkeypatch.setattr(sys, "stdout", full)
        assert cli.main(["list"]) == 5
    assert "No space left on device" in capsys.readouterr().err


def test_ctrl_c_prints_one_line_and_sets_the_exit_code(monkeypatch, capsys):
    def interrupted(name):
        error = KeyboardInterrupt()
        error.add_note("the checkpoint of step 5 is kept.")
        raise error

    monkeypatch.setattr(cli.importlib, "import_module", interrupted)
    assert cli.main(["list"]) == 130
    assert capsys.readouterr().err == "purerl: interrupted\n  the checkpoint of step 5 is kept.\n"
    monkeypatch.setattr(cli.world, "is_rank", lambda: True)
    with pytest.raises(KeyboardInterrupt):  # which ends the job on all ranks
        cli.main(["list"])


def test_a_run_interrupted_at_its_start_can_be_resumed(tmp_path, monkeypatch):
    def leave(carry, should_stop):
        raise KeyboardInterrupt

    monkeypatch.setattr(gym, "advance", leave)
    with pytest.raises(KeyboardInterrupt) as caught:
        quietly(tiny(), tmp_path)
    monkeypatch.undo()
    run = the_run(tmp_path)
    state = status.read_status(run)
    assert (state["status"], state["reason"]) == ("stopped", "interrupted")
    (note,) = caught.value.__notes__
    assert note == f"there is no checkpoint yet. Start again: purerl resume {run}"
    said = (run / "stdout.log").read_text()
    assert said.splitlines()[-2:] == ["interrupted", f"  {note}"]
    train.resume(run, screen=Screen(quiet=True))
    assert "reason" not in status.read_status(run)


def test_seeds_that_did_not_start_are_named(tmp_path):
    (tmp_path / "faulty.py").write_text(
        "import gymnasium\n"
        "class Faulty(gymnasium.Wrapper):\n"
        "    def step(self, action):\n"
        "        raise SystemExit(0)\n"
        "gymnasium.register('Faulty-v0', lambda: Faulty(gymnasium.make('CartPole-v1')))\n"
    )
    words = ["train", "vpg", "--env", "faulty:Faulty-v0", "--hidden", "4", "--seed", "0", "7", "8"]
    words += ["--data-dir", str(tmp_path / "my data")]
    done = python(*PURERL, *words, PYTHONPATH=f"{ROOT}:{tmp_path}")
    assert done.code == 4
    run = the_run(tmp_path / "my data")
    assert done.err.splitlines() == [
        "purerl train: environment 0 raised SystemExit in step: 0 (step 1 of its episode 1)",
        "  This happened after environment step 0 of the run.",
        f"  there is no checkpoint yet. Start again: purerl resume '{run}' --env faulty:Faulty-v0",
        "  not started: seed 7 8. Run the same command with --seed 7 8",
    ]
    assert status.read_status(run)["status"] == "failed"


def test_rows_that_cannot_be_shown_are_left_out_with_one_warning(tmp_path, monkeypatch):
    def broken(*_):
        raise ZeroDivisionError("row")

    monkeypatch.setattr(reporting.progress.Table, "format_row", broken)
    monkeypatch.setattr(reporting.progress, "describe_sizes", broken)
    screen = Screen(io.StringIO())
    outcome = train.train(tiny(), data_dir=str(tmp_path), screen=screen)
    assert outcome.code == 0
    said = screen.stream.getvalue()
    assert said.count("warning: the rows are not shown any more: ZeroDivisionError: row") == 1
    assert said.count("warning: the sizes are not shown any more") == 1
    assert len((outcome.run / "progress.txt").read_text().splitlines()) == 3


def test_a_folder_whose_name_is_no_text_can_be_written_to_the_log(tmp_path):
    data = tmp_path / os.fsdecode(b"a\xff")
    outcome = train.train(tiny(), data_dir=str(data), screen=Screen(quiet=True))
    assert outcome.code == 0
    assert "a\\udcff" in (outcome.run / "stdout.log").read_text()


def test_a_failed_check_in_jax_names_the_cache_of_compiled_programs(tmp_path, monkeypatch):
    def fail(carry, should_stop):
        exec(compile("assert False", "/x/jax/_src/interpreters/pxla.py", "exec"))

    monkeypatch.setattr(gym, "advance", fail)
    with pytest.raises(AssertionError) as caught:
        quietly(tiny(), tmp_path)
    assert "Delete the cache: " in caught.value.__notes__[0]

    def fail_elsewhere(carry, should_stop):
        raise AssertionError

    monkeypatch.setattr(gym, "advance", fail_elsewhere)
    with pytest.raises(AssertionError) as caught:
        quietly(tiny(), tmp_path)
    assert "Delete" not in str(caught.value.__notes__)
