"""Plain files in a folder of one's own: what is not one is neither read nor written.

A folder from somebody else may hold links to files of the user, and pipes that never end.
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
from typing import IO

from purerl.errors import Damaged, StorageError

TRIES = 100  # for the lock of a folder, which whoever looks at it may hold for a moment
PAUSE = 0.01  # seconds between two


@contextlib.contextmanager
def open_file(path: Path) -> Iterator[io.BufferedReader]:
    """Open a plain file to read: no link is followed, no pipe or device waited for."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError) as error:
        raise Damaged(f"{path} is missing, or no plain file.") from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise Damaged(f"{path} is missing, or no plain file.")
    try:
        with os.fdopen(descriptor, "rb") as file:
            yield file
    except StorageError:
        raise
    except OSError as error:
        raise Damaged(f"{path} cannot be read: {error.strerror}.") from error


def refuse_special_files(run: Path) -> None:
    """Refuse a run's folder that holds links, pipes or devices: what is written must stay in it."""
    for folder in (run, get_subfolder(run, "checkpoints"), get_subfolder(run, "replay")):
        if not folder.is_dir():
            continue
        with os.scandir(folder) as entries:
            for entry in entries:
                kinds = entry.is_file(follow_symlinks=False), entry.is_dir(follow_symlinks=False)
                if not any(kinds):
                    raise Damaged(f"{entry.path} is a link, a pipe or a device; a run has none.")


def get_subfolder(run: Path, name: str) -> Path:
    """Return a folder of a run, or refuse one that is a link to elsewhere."""
    path = run / name
    if path.is_symlink():
        raise Damaged(f"{path} is a link, and a run must be in one folder: move it in there.")
    return path


@contextlib.contextmanager
def lock_folder(path: Path) -> Iterator[None]:
    """Own a folder while the block runs; a second process that asks is refused.

    The lock is the kernel's, so it goes with its process however that ends.
    """
    refuse_special_files(path)
    lock = path / ".lock"
    with contextlib.ExitStack() as stack:
        try:  # the kernel's flags: a link would be followed and its file written over
            flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            file = stack.enter_context(os.fdopen(os.open(lock, flags, 0o666), "r+"))
        except OSError as error:
            raise explain_os_error(error, lock) from error
        if not _take_lock(file, lock):
            words = file.read().strip() or "another process"
            raise StorageError(errno.EBUSY, f"{path} is in use by {words}.")
        file.truncate()
        file.write(f"process {os.getpid()} on {socket.gethostname()}\n")
        file.flush()
        yield


def _take_lock(file: IO[str], lock: Path) -> bool:
    """Take the lock of a file; where an owner keeps it, give up after a second."""
    for _ in range(TRIES):
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(PAUSE)
        except OSError as error:
            raise explain_os_error(error, lock) from error
        else:
            return True
    return False


def explain_os_error(error: OSError, path: Path) -> StorageError:
    """Return the error with the path and the way out."""
    ways = {
        errno.ENOSPC: "the disk is full; make room, or write elsewhere",
        errno.EDQUOT: "the quota is used up; make room, or write elsewhere",
        errno.EROFS: "the disk is read-only; write elsewhere",
        errno.EACCES: "no permission; write elsewhere",
        errno.ENOENT: "its folder is missing",
        errno.ENOTDIR: "a part of the path is no folder",
        errno.ENAMETOOLONG: "the name is too long; choose a shorter one",
    }
    why = ways.get(error.errno or 0) or error.strerror or str(error)
    return StorageError(error.errno, f"{path} could not be written: {why}.")
