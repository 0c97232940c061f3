"""Hashes of the configuration and the logs in a checkpoint, so that later changes are noticed.

These files are for people and other programs, so they contain no checksum of their own.
"""

import hashlib
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from purerl.errors import Damaged
from purerl.runs.record import safe_files

WHOLE = ("config.json",)  # must not grow either
TABLE = "progress.txt"  # its header and rows grow to the right when a column is new
NAMES = (*WHOLE, "metrics.jsonl", "episodes.csv", TABLE)
_PIECE = 2**20  # bytes read at once, and in a row at most


def hash_logs(run: Path) -> dict[str, Any]:
    """Return length and SHA-256 of each file that exists."""
    return {name: [*_digest(run / name)] for name in NAMES if (run / name).exists()}


def find_changes(run: Path, then: Any) -> list[str]:
    """Return a message for each file that changed; rows that came later do not matter."""
    messages = []
    for name, (length, digest) in then.items():
        try:
            if _digest(run / name, length + (name in WHOLE)) == (length, digest):
                continue
            messages.append(f"{run / name} was changed after the checkpoint: its SHA-256 differs.")
        except Damaged as error:
            messages.append(str(error))
    return messages


def _digest(path: Path, most: int = 2**63) -> tuple[int, str]:
    """Return length and SHA-256 of the first bytes of a file; of a table, without empty cells."""
    digest, length = hashlib.sha256(), 0
    with safe_files.open_file(path) as file:
        pieces: Iterator[bytes] = iter(lambda: file.read(_PIECE), b"")
        if path.name == TABLE:
            rows = iter(lambda: file.readline(_PIECE), b"")
            pieces = (row.rstrip(b"\t\n") for row in itertools.islice(rows, 1, None))
        for piece in pieces:
            piece = piece[: most - length]
            digest.update(piece)
            length += len(piece)
            if length == most:
                break
    return length, digest.hexdigest()
