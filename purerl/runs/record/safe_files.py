"""Safe file access: refuse symlinks, pipes and devices, lock folders, and explain errors.

A folder from another person may contain links to the user's own files, and pipes that never end.
"""

import contextlib
import errno
import fcntl
import io
import os
import socket
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

from purerl.errors import Damaged, StorageError

TRIES, PAUSE = 100, 0.01  # seconds; `is_running` holds the lock for a moment
_SAFELY = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC  # follow no link, wait for no pipe or device
_locks: set[TextIO] = set()  # open lock files of this process
_ADVICE = {
    errno.ENOSPC: "the disk is full; free some space, or write elsewhere",
    errno.EDQUOT: "the quota is used up; free some space, or write elsewhere",
    errno.EROFS: "the disk is read-only; write elsewhere",
    errno.EACCES: "no permission; write elsewhere",
    errno.ENOENT: "its folder is missing",
    errno.ENOTDIR: "a part of the path is not a folder",
    errno.ENAMETOOLONG: "the name is too long; choose a shorter one",
}


@contextlib.contextmanager
def open_file(path: Path) -> Iterator[io.BufferedReader]:
    """Open a regular file for reading; never follow a link or wait for a pipe or device."""
    try:
        descriptor = os.open(path, os.O_RDONLY | _SAFELY)
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise ValueError
    except (OSError, ValueError) as error:
        raise Damaged(f"{path} is missing, or not a regular file.") from error
    try:
        with os.fdopen(descriptor, "rb") as file:
            yield file
    except StorageError:
        raise
    except OSError as error:
        raise Damaged(f"{path} cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise Damaged(f"{path} is not a text file: {error}.") from error


def get_subfolder(run: Path, name: str) -> Path:
    """Return a subfolder of a run; refuse a link to another place, also for writing."""
    path = run / name
    if path.is_symlink():
        raise Damaged(f"{path} is a link, but a run must be in one folder. Move its files there.")
    return path


def _is_plain(path: Path) -> bool:
    """Return whether a path is a file or a folder, or is missing; False for a link or a pipe."""
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:  # another process deleted it meanwhile
        return True
    return stat.S_ISREG(mode) or stat.S_ISDIR(mode)


@contextlib.contextmanager
def lock_folder(run: Path) -> Iterator[None]:
    """Lock a run's folder while the `with` block runs; refuse a second process, and links in it.

    The kernel releases the lock when the process ends, however it ends. Processes that it forks do
    not hold the lock: they may outlive it.
    """
    for folder in (run, get_subfolder(run, "checkpoints"), get_subfolder(run, "replay")):
        for path in folder.iterdir() if folder.is_dir() else ():
            if not _is_plain(path):
                raise Damaged(f"{path} is a link, a pipe or a device. A run has none; remove it.")
    lock = run / ".lock"
    with explain_errors(lock):  # `open` would follow a link and overwrite its file
        descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | _SAFELY, 0o666)
    with os.fdopen(descriptor, "r+") as file:
        _locks.add(file)
        try:
            _take_lock(run, lock, file)
            yield
        finally:
            _locks.discard(file)


def _take_lock(run: Path, lock: Path, file: TextIO) -> None:
    """Lock a file and write this process into it; wait a moment for others that look at it."""
    for _ in range(TRIES):
        with explain_errors(lock), contextlib.suppress(BlockingIOError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        time.sleep(PAUSE)
    else:
        owner = file.read().strip() or "another process"
        raise StorageError(errno.EBUSY, f"{run} is in use by {owner}. Wait, or stop it.")
    file.truncate()
    file.write(f"process {os.getpid()} on {socket.gethostname()}\n")
    file.flush()


def _drop_locks() -> None:
    """Close the lock files of the parent in a forked child, which would keep the locks."""
    while _locks:
        _locks.pop().close()


os.register_at_fork(after_in_child=_drop_locks)


@contextlib.contextmanager
def explain_errors(path: Path) -> Iterator[None]:
    """Turn system errors in a block that writes a file into errors with its path and advice."""
    try:
        yield
    except StorageError:
        raise
    except OSError as error:
        why = _ADVICE.get(error.errno or 0) or error.strerror or str(error)
        raise StorageError(error.errno, f"{path} could not be written: {why}.") from error
