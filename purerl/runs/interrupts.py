"""Requests to stop: Ctrl-C during any command, also SIGTERM and SIGHUP during a run.

Python loses a KeyboardInterrupt that is raised where code catches all exceptions, or in a callback
of the garbage collector, such as JAX's. So purerl records each request, and checks it later.
"""

import _thread
import contextlib
import signal
import sys
import threading
from collections.abc import Iterator
from typing import Any

from purerl import mpi

ASKING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_raised: list[int] = []  # interrupts that Python may lose


@contextlib.contextmanager
def catch_interrupts(alone: bool) -> Iterator[None]:
    """Handle Ctrl-C in a block so that none is lost; keep a custom handler.

    If the command in the block is `alone` in its process, a later Ctrl-C ends the process.
    """
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler or not _is_main_thread():
        yield
        return
    before = sys.unraisablehook

    def unraisable(lost: Any) -> None:
        if lost.exc_type is not KeyboardInterrupt:
            before(lost)
            return
        timer = threading.Timer(0.05, _interrupt_again)  # outside of the callback
        timer.daemon = True
        timer.start()

    _raised.clear()
    sys.unraisablehook = unraisable
    signal.signal(signal.SIGINT, _interrupt)
    try:
        yield
    except Exception as error:  # re-raised in both cases
        if _raised:  # something replaced it by another error
            raise KeyboardInterrupt from error
        raise
    finally:
        if signal.getsignal(signal.SIGINT) is _interrupt:  # else the ranks are stopping
            signal.signal(signal.SIGINT, signal.SIG_DFL if alone else signal.default_int_handler)
        sys.unraisablehook = before
        _raised.clear()


@contextlib.contextmanager
def allow_immediate_exit() -> Iterator[None]:
    """Let Ctrl-C end the process directly during imports: NumPy would print the exception."""
    ours = signal.getsignal(signal.SIGINT) is _interrupt
    if ours:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        yield
    finally:
        if ours:
            signal.signal(signal.SIGINT, _interrupt)


def _is_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


def _interrupt(number: int, _: Any) -> None:
    _raised.append(number)
    raise KeyboardInterrupt


def _interrupt_again() -> None:
    if _raised:
        _thread.interrupt_main()


@contextlib.contextmanager
def collect_requests(ranks: int = 1) -> Iterator[list[int]]:
    """Collect requests (SIGTERM, SIGHUP, Ctrl-C) in a list; the second ends the process.

    A SIGHUP never counts as the second, because a closing session sends several. With several
    ranks, a watcher handles the second. A Ctrl-C that Python lost before is raised at the start.

    The same request reaches some ranks later than others, even after the run has ended. So a rank
    whose list is not empty handles no signal after the block; only its watcher does.
    """
    asked: list[int] = []
    kept: dict[int, Any] = {}

    def ask(number: int, _: Any) -> None:
        asked.append(number)
        if number == signal.SIGHUP or ranks > 1:
            return
        for one in kept.keys() - {signal.SIGHUP}:
            signal.signal(one, kept[one])

    try:
        for number in ASKING if _is_main_thread() else ():  # only it may set handlers
            if signal.getsignal(number) is not signal.SIG_IGN:  # ignored, as under nohup: keep
                kept[number] = signal.signal(number, ask)
        if _raised:
            _raised.clear()
            raise KeyboardInterrupt
        yield asked
    finally:
        for one, handler in kept.items():
            signal.signal(one, _ignore if ranks > 1 and asked else handler)


def _ignore(number: int, _: Any) -> None:
    """Do nothing. With `SIG_IGN` instead, the watcher would not see a second signal."""


def agree_to_stop(asked: list[int], ranks: int) -> bool:
    """Return whether any rank was asked to stop; from then on, all of them count as asked."""
    stop = bool(mpi.pmax(len(asked)) if ranks > 1 else asked)
    if stop and not asked:
        asked.append(signal.SIGTERM)
    return stop
