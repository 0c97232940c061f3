"""Requests to stop are counted while the main thread waits, and passed on once."""

import signal
import threading

from purerl.mpi import signals


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
    assert not requests.note_lateness(30.0, 7.0)  # the collective began after the signal
    assert not requests.note_lateness(12.0, 4.0)
    assert requests.note_lateness(17.0, 4.0)
    assert not requests.note_lateness(18.0, 4.0)  # reported already
    signals.write_note(str(tmp_path), signal.SIGINT, signals.AGAIN)
    assert requests.poll(8.1) == signal.SIGINT


def test_a_signal_is_seen_while_the_main_thread_is_blocked():
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
