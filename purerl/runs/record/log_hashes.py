"""What a checkpoint remembers of the plain files beside it, so that a change is noticed.

Configuration and logs are for people and other programs to read, so they carry no checksum of
their own; a checkpoint holds one of each, up to where the file had come.
"""

import hashlib
from pathlib import Path
from typing import Any

from purerl.errors import Damaged
from purerl.runs.record import safe_files

WHOLE = ("config.json",)
GROWING = ("metrics.jsonl", "episodes.csv")
TABLE = "progress.txt"  # its header and rows grow to the right when a column is new


def hash_logs(run: Path) -> dict[str, Any]:
    """Return length and SHA-256 of each file that is there."""
    names = [name for name in (*WHOLE, *GROWING, TABLE) if (run / name).exists()]
    return {name: [*_digest(run / name)] for name in names}


def find_changes(run: Path, then: Any) -> list[str]:
    """Say what of the files is not as it was; rows that came later are not looked at."""
    said = []
    for name, (length, digest) in then.items():
        try:
            now = _digest(run / name, length + (name in WHOLE))
        except Damaged as error:
            said.append(str(error))
            continue
        if now != (length, digest):
            said.append(f"{run / name} was changed after the checkpoint: its SHA-256 differs.")
    return said


def _digest(path: Path, most: int = 2**63) -> tuple[int, str]:
    """Return length and SHA-256 of a file, or of its first bytes."""
    digest, length = hashlib.sha256(), 0
    with safe_files.open_file(path) as file:
        if path.name == TABLE:
            file.readline(_PIECE)
        while piece := file.readline(_PIECE) if path.name == TABLE else file.read(_PIECE):
            if path.name == TABLE:
                piece = piece.rstrip(b"\t\n")
            piece = piece[: most - length]
            digest.update(piece)
            length += len(piece)
            if length == most:
                break
    return length, digest.hexdigest()


_PIECE = 2**20  # bytes read at once, and a line may have
