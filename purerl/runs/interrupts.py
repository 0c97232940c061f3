"""Signals that ask a program to stop: Ctrl-C from its start on, all of them during a run.

Python loses a KeyboardInterrupt that is raised in a callback of the garbage collector, of which JAX
has some, or where code catches all exceptions. So a program notes each request, and checks later.
"""

import _thread
import contextlib
import signal
import sys
import threading
from collections.abc import Iterator
from typing import Any

ASKING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_raised: list[int] = []  # interrupts that Python may lose


@contextlib.contextmanager
def catch_interrupts(alone: bool) -> Iterator[None]:
    """Lose no Ctrl-C in a block that runs a command; an existing handler stays.

    If the command is `alone` in its process, Ctrl-C after the block ends the process.
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
    except Exception as error:  # raised on in either case
        if _raised:  # something made another error of it
            raise KeyboardInterrupt from error
        raise
    finally:
        signal.signal(signal.SIGINT, signal.SIG_DFL if alone else signal.default_int_handler)
        sys.unraisablehook = before
        _raised.clear()


@contextlib.contextmanager
def allow_immediate_exit() -> Iterator[None]:
    """Let Ctrl-C end the program in a block of imports: numpy's print what is raised in them."""
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
    """Collect the first SIGTERM, SIGHUP or Ctrl-C in a list; the second leaves at once.

    A SIGHUP is never the second: a session that is closed sends several. With several ranks a
    watcher acts on the second. A Ctrl-C that Python lost before is raised at the start.
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
        for number in ASKING if _is_main_thread() else ():  # only the main thread may
            if signal.getsignal(number) is not signal.SIG_IGN:  # as under nohup: respected
                kept[number] = signal.signal(number, ask)
        if _raised:
            _raised.clear()
            raise KeyboardInterrupt
        yield asked
    finally:
        for one, handler in kept.items():
            signal.signal(one, handler)
