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
from collections.abc import Iterator
from pathlib import Path


class StorageError(OSError):
    """Something could not be written or is not there."""


class Damaged(StorageError):
    """A file is not what was written."""


@contextlib.contextmanager
def opened(path: Path) -> Iterator[io.BufferedReader]:
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


def check(run: Path) -> None:
    """Refuse a run's folder that holds links, pipes or devices: what is written must stay in it."""
    for folder in (run, within(run, "checkpoints"), within(run, "replay")):
        if not folder.is_dir():
            continue
        with os.scandir(folder) as entries:
            for entry in entries:
                kinds = entry.is_file(follow_symlinks=False), entry.is_dir(follow_symlinks=False)
                if not any(kinds):
                    raise Damaged(f"{entry.path} is a link, a pipe or a device; a run has none.")


def within(run: Path, name: str) -> Path:
    """Return a folder of a run, or refuse one that is a link to elsewhere."""
    path = run / name
    if path.is_symlink():
        raise Damaged(f"{path} is a link, and a run must be in one folder: move it in there.")
    return path


@contextlib.contextmanager
def owned(path: Path) -> Iterator[None]:
    """Own a folder while the block runs; a second process that asks is refused.

    The lock is the kernel's, so it goes with its process however that ends.
    """
    check(path)
    lock = path / ".lock"
    with contextlib.ExitStack() as stack:
        try:  # the kernel's flags: a link would be followed and its file written over
            flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            file = stack.enter_context(os.fdopen(os.open(lock, flags, 0o666), "r+"))
        except OSError as error:
            raise explained(error, lock) from error
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            file.seek(0)
            raise StorageError(
                errno.EBUSY,
                f"{path} is in use by {file.read().strip() or 'another process'}.",
            ) from error
        file.seek(0)
        file.truncate()
        file.write(f"process {os.getpid()} on {socket.gethostname()}\n")
        file.flush()
        yield


def explained(error: OSError, path: Path) -> StorageError:
    """Return the error with the path and the way out."""
    ways = {
        errno.ENOSPC: "the disk is full; make room, or write elsewhere",
        errno.EDQUOT: "the quota is used up; make room, or write elsewhere",
        errno.EROFS: "the disk is read-only; write elsewhere",
        errno.EACCES: "no permission; write elsewhere",
        errno.ENOTDIR: "a part of the path is no folder",
        errno.ENAMETOOLONG: "the name is too long; choose a shorter one",
    }
    return StorageError(
        error.errno, f"{path} could not be written: {ways.get(error.errno or 0, str(error))}."
    )
