"""Requests to stop: Ctrl-C that Python loses, signals of a closing session, ignored signals."""

import gc
import os
import signal
import sys
import threading
import time

import pytest

from purerl.cli import main as cli
from purerl.loops import gym
from purerl.runs import interrupts
from purerl.runs.record import status
from purerl.runs.training import train
from tests.runs.script import quietly, the_run, tiny


def interrupt():
    os.kill(os.getpid(), signal.SIGINT)


def lose_in_a_callback(words):
    def collected(phase, info):
        gc.callbacks.remove(collected)
        interrupt()

    gc.callbacks.append(collected)
    gc.collect()
    for _ in range(300):
        time.sleep(0.01)
    return 0


def lose_in_except(words=()):
    try:
        interrupt()
    except BaseException:
        return 0


def replace_by_another_error(words):
    try:
        interrupt()
    except KeyboardInterrupt:
        raise ImportError("it failed to import") from None


@pytest.mark.parametrize("command", [lose_in_a_callback, replace_by_another_error])
def test_a_ctrl_c_that_python_loses_ends_the_command(command, capsys):
    hook = sys.unraisablehook
    assert cli.run_and_report(command, []) == 130
    assert capsys.readouterr().err == "purerl: interrupted\n"
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert sys.unraisablehook is hook


def test_a_lost_ctrl_c_stops_a_run_before_its_first_advance(tmp_path, monkeypatch, capsys):
    def command(words):
        lose_in_except()
        return quietly(tiny(), tmp_path).code

    monkeypatch.setattr(gym, "advance", lambda *_: pytest.fail("it trains"))
    assert cli.run_and_report(command, []) == 130
    state = status.read_status(the_run(tmp_path))
    assert (state["status"], state["reason"]) == ("stopped", "interrupted")
    assert "there is no checkpoint yet. Start again: purerl resume" in capsys.readouterr().err
    monkeypatch.undo()
    assert cli.run_and_report(lose_in_except, []) == 0
    assert quietly(tiny(), tmp_path, datestamp=True).code == 0  # it was for another command


def test_an_ignored_or_custom_ctrl_c_handler_is_kept():
    def kept(words):
        assert signal.getsignal(signal.SIGINT) is handler
        return 0

    before = signal.getsignal(signal.SIGINT)
    try:
        for handler in (signal.SIG_IGN, lambda number, frame: None):
            signal.signal(signal.SIGINT, handler)
            assert cli.run_and_report(kept, []) == 0
    finally:
        signal.signal(signal.SIGINT, before)
    handler, codes = before, []
    thread = threading.Thread(target=lambda: codes.append(cli.run_and_report(kept, [])))
    thread.start()
    thread.join()
    assert codes == [0]


def test_an_interrupted_program_exits_without_cleanup(monkeypatch):
    """JAX would fail or crash during the cleanup if it was compiling."""
    before, left = signal.getsignal(signal.SIGINT), []
    monkeypatch.setattr(os, "_exit", left.append)
    try:
        cli.run_and_report(lose_in_a_callback, None)
        assert signal.getsignal(signal.SIGINT) is signal.SIG_DFL
    finally:
        signal.signal(signal.SIGINT, before)
    assert left == [130]


def test_the_second_request_ends_at_once_unless_it_is_a_sighup():
    pid = os.getpid()
    before = {one: signal.getsignal(one) for one in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)}
    hard = []
    try:
        for one in before:
            signal.signal(one, lambda number, frame: hard.append(number))
        with interrupts.collect_requests() as asked:
            for number in (signal.SIGHUP, signal.SIGHUP, signal.SIGTERM, signal.SIGHUP):
                os.kill(pid, number)
            assert (len(asked), hard) == (4, [])
            os.kill(pid, signal.SIGINT)
            assert hard == [signal.SIGINT]
        os.kill(pid, signal.SIGHUP)
        assert hard == [signal.SIGINT, signal.SIGHUP]
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as under nohup
        with interrupts.collect_requests() as asked:
            os.kill(pid, signal.SIGHUP)
        assert asked == []
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)


def test_ranks_that_agreed_to_stop_ignore_a_late_request(monkeypatch):
    pid, hard, others = os.getpid(), [], []
    before = {one: signal.getsignal(one) for one in interrupts.ASKING}
    monkeypatch.setattr(train.mpi, "pmax", lambda number: max(number, len(others)))
    try:
        for one in before:
            signal.signal(one, lambda number, frame: hard.append(number))
        signal.signal(signal.SIGINT, signal.default_int_handler)

        def stop(words):
            with interrupts.collect_requests(2) as asked:
                return 75 if interrupts.agree_to_stop(asked, 2) else 0

        for code in (0, 75):
            assert cli.run_and_report(stop, []) == code
            for one in (signal.SIGTERM, signal.SIGHUP):
                os.kill(pid, one)
            assert hard == [signal.SIGTERM, signal.SIGHUP]  # only after the first
            others.append(signal.SIGTERM)
        assert signal.getsignal(signal.SIGINT) is interrupts._ignore
        os.kill(pid, signal.SIGINT)
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)


def test_one_process_that_was_asked_to_stop_restores_its_handlers():
    before = signal.getsignal(signal.SIGTERM)
    with interrupts.collect_requests() as asked:
        os.kill(os.getpid(), signal.SIGTERM)
        assert interrupts.agree_to_stop(asked, 1)
    assert signal.getsignal(signal.SIGTERM) is before
