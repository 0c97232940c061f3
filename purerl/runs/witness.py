"""What a checkpoint remembers of the plain files beside it, so that a change is noticed.

Configuration and logs are for people and other programs to read, so they carry no checksum of
their own; a checkpoint holds one of each, up to where the file had come.
"""

import hashlib
from pathlib import Path
from typing import Any

from purerl.runs import storage
from purerl.runs.storage import Damaged

WHOLE = ("config.json",)
GROWING = ("metrics.jsonl", "episodes.csv")
TABLE = "progress.txt"  # its header and rows grow to the right when a column is new


def seen(run: Path) -> dict[str, Any]:
    """Return length and SHA-256 of each file that is there."""
    found: dict[str, Any] = {}
    for name in (*WHOLE, *GROWING, TABLE):
        if (run / name).exists():
            content = _content(run / name)
            found[name] = [len(content), hashlib.sha256(content).hexdigest()]
    return found


def changed(run: Path, then: Any) -> list[str]:
    """Say what of the files is not as it was; rows that came later are not looked at."""
    said = []
    for name, (length, digest) in then.items():
        try:
            content = _content(run / name)
        except Damaged as error:
            said.append(str(error))
            continue
        if name not in WHOLE:
            content = content[:length]
        if hashlib.sha256(content).hexdigest() != digest:
            said.append(f"{run / name} was changed after the checkpoint: its SHA-256 differs.")
    return said


def _content(path: Path) -> bytes:
    with storage.plain(path) as file:
        content = file.read()
    if path.name != TABLE:
        return content
    _, _, rows = content.partition(b"\n")
    return b"\n".join(row.rstrip(b"\t") for row in rows.split(b"\n"))
