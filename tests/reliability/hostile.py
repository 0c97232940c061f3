"""Folders of runs that somebody prepared: a name, and what to do to a good run.

Contents: pickles, objects, claims, bombs, deep and huge JSON. Names: paths out of the folder.
Kinds: links, pipes, folders where files should be. Sealed ones carry right checksums.
"""

import json
import os
import pickle
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from purerl.runs.record import checkpoint_folders as manifest_
from purerl.runs.record import files, status
from tests.runs.record import test_arrays

FILES = (
    "config.json", "status.json", "progress.txt", "metrics.jsonl", "episodes.csv", "stdout.log",
    "checkpoints/best.json", "CHECKPOINT/manifest.json", "CHECKPOINT/rank0.npz", "SEGMENT",
)  # fmt: skip
Change = Callable[[Path], None]
Case = tuple[str, Change]


class Bomb:
    """Its pickle writes a file when it is opened."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> Any:
        return os.system, (f"touch {self.mark}",)


def newest(run: Path) -> Path:
    return run / "checkpoints" / f"{manifest_.list_steps(run)[-1]:012d}"


def find(run: Path, name: str) -> Path:
    """Return the path of a kind of file."""
    if name == "SEGMENT":
        return sorted((run / "replay").iterdir())[-1]
    return run / name.replace("CHECKPOINT", str(newest(run).relative_to(run)))


def put(name: str, content: bytes) -> Change:
    """Replace a file, without a right checksum."""

    def change(run: Path) -> None:
        find(run, name).write_bytes(content)

    return change


def reseal(edit: Callable[[dict[str, Any]], Any], name: str = "CHECKPOINT/manifest.json") -> Change:
    """Edit a sealed file and give it a right checksum."""

    def change(run: Path) -> None:
        path = find(run, name)
        content = files.read_sealed_json(path)
        edit(content)
        path.write_bytes(files.seal_json(content))

    return change


def swap_content(content: bytes, name: str) -> Change:
    """Replace arrays, and have the manifest say that they are right."""

    def change(run: Path) -> None:
        path = find(run, name)
        path.unlink()
        file = files.write_file(path, content)

        def edit(manifest: dict[str, Any]) -> None:
            if name == "SEGMENT":
                manifest["segments"][0][-1][3:] = list(file)
            else:
                manifest["files"]["rank0.npz"] = list(file)

        reseal(edit)(run)

    return change


def edit_json(file: str, **entries: Any) -> Change:
    """Change entries of a plain JSON file; `status.json` gets a right checksum."""

    def change(run: Path) -> None:
        path = run / file
        content = json.loads(path.read_text()) | entries
        if file == "status.json":
            content.pop("sha256")
            content["sha256"] = status.hash_status(content)
        path.write_text(json.dumps(content))

    return change


def sparse(name: str, size: int) -> Change:
    def change(run: Path) -> None:
        with open(find(run, name), "r+b") as file:
            file.truncate(size)

    return change


def instead(name: str, make: Callable[[Path], None]) -> Change:
    """Put something that is no plain file in the place of one."""

    def change(run: Path) -> None:
        path = run / ".lock" if name == ".lock" else find(run, name)
        files.remove(path)
        make(path)

    return change


def contents(folder: Path, mark: Path) -> Iterator[Case]:
    """Hostile contents under every name."""
    bomb = pickle.dumps(Bomb(mark))
    for name in FILES:
        yield f"pickle as {name}", put(name, bomb)
    for content, what in test_arrays.hostile(folder):
        for name in ("CHECKPOINT/rank0.npz", "SEGMENT"):
            yield f"{what} as {name}, sealed", swap_content(content, name)
    good = {"host obs": test_arrays.ARRAYS["a"]}
    for i, member in enumerate(("../../evil.npy", "/tmp/evil.npy", "a/../../evil", "nul\0name")):
        path = folder / "slip.npz"
        path.write_bytes(test_arrays.pack(good))
        with zipfile.ZipFile(path, "a") as archive:
            archive.writestr(member, bomb)
        yield (
            f"member out of the folder {i}",
            swap_content(path.read_bytes(), "CHECKPOINT/rank0.npz"),
        )
    encrypted = bytearray(test_arrays.pack(good))
    for at in (encrypted.find(b"PK\x01\x02") + 8, 6):
        encrypted[at] |= 1
    yield "encrypted", swap_content(bytes(encrypted), "CHECKPOINT/rank0.npz")


def jsons() -> Iterator[Case]:
    """Hostile JSON: deep, large, endless, of other types."""
    big = 3_900_000
    texts = {
        "deep": "[" * big, "many": "[" + "[]," * (big // 3) + "[]]", "digits": "9" * big,
        "deep objects": '{"a":' * 500_000, "endless": '{"step": 1e999999}', "a list": "[1]",
        "nothing": "", "no text": "\udcff", "nan": '{"step": NaN, "seed": Infinity}',
    }  # fmt: skip
    for what, text in texts.items():
        for name in ("config.json", "status.json", "CHECKPOINT/manifest.json"):
            yield f"{what} as {name}", put(name, text.encode("utf-8", "surrogateescape"))
    for name in (
        "config.json",
        "CHECKPOINT/manifest.json",
        "checkpoints/best.json",
        "progress.txt",
    ):
        yield f"1 GB with holes as {name}", sparse(name, 10**9)
    for name in ("CHECKPOINT/rank0.npz", "SEGMENT"):
        yield f"1 GB with holes as {name}", sparse(name, 10**9)
    for env in (
        "os:system",
        "tests.reliability.evil:Evil-v0",
        "a.b:C",
        ":",
        "../x",
        7,
        None,
        ["x"],
    ):
        yield f"environment {env!r}", edit_json("config.json", env=env)
    for entry in (
        {"algo": "os"}, {"algo": "../sac"}, {"algo": ["td3"]}, {"seed": 10**400}, {"seed": "0"},
        {"name": "../../x"}, {"name": "x\x1b[2J"}, {"spec": []}, {"spec": {"hidden": [10**12]}},
        {"spec": {"actor": {"repr": "__import__('os').system('true')"}}}, {"schedule": None},
        {"spec": {"activation": "__import__"}}, {"schedule": {"steps": float("nan")}},
    ):  # fmt: skip
        yield f"configuration {entry!r:.60}", edit_json("config.json", **entry)
    for entry in ({"step": 10**400}, {"status": "\x1b]0;x\x07"}, {"score": "x"}, {"step": None}):
        yield f"status {entry!r:.60}", edit_json("status.json", **entry)


def manifests() -> Iterator[Case]:
    """Manifests of checkpoints that are sealed and lie."""
    for name in ("../../../etc/passwd", "/etc/passwd", "/dev/zero", "rank0.npz\0", "rank1.npz", 5):
        yield f"file {name!r}", reseal(lambda m, n=name: m["files"].update({n: [1, "x"]}))
        yield f"segment {name!r}", reseal(lambda m, n=name: m["segments"][0][0].__setitem__(0, n))
    for entry in (
        {"step": 10**400}, {"rows": [10**400]}, {"rows": ["x"]}, {"facts": [None]}, {"facts": [{}]},
        {"segments": [[["0-000000000000-000000000001.npz", "0", 1, 1, "x"]]]}, {"notes": [1]},
        {"seen": {"../../../etc/passwd": [1, "x"]}}, {"seen": None}, {"best": "x"}, {"about": 3},
        {"files": {}}, {"format": [1]},
    ):  # fmt: skip
        yield f"manifest {entry!r:.60}", reseal(lambda m, e=entry: m.update(e))
    for fact in (
        {"episodes": [-1]}, {"episodes": ["x"]}, {"episodes": []}, {"updates": -1}, {"calls": None},
        {"epoch": 1.5}, {"updates": 10**400}, {"episodes": [10**400]},
    ):  # fmt: skip
        yield f"facts {fact!r:.60}", reseal(lambda m, f=fact: m["facts"][0].update(f))
    for score in ({"step": 10**400, "score": 0}, {"step": "x", "score": []}, {}):
        yield (
            f"best {score!r:.50}",
            reseal(lambda m, s=score: (m.clear(), m.update(s)), "checkpoints/best.json"),
        )


def kinds(outside: Path) -> Iterator[Case]:
    """Links, pipes and folders in the place of files."""
    secret = outside / "secret"
    for name in (*FILES, ".lock"):
        yield f"link as {name}", instead(name, lambda path: path.symlink_to(secret))
        yield f"pipe as {name}", instead(name, lambda path: os.mkfifo(path))
        yield f"folder as {name}", instead(name, lambda path: path.mkdir())
    for name in ("checkpoints", "replay"):
        yield f"link as {name}", instead(name, lambda path: path.symlink_to(outside))
    for name in (".status.json.tmp", ".progress.txt.tmp"):
        yield f"link as {name}", lambda run, n=name: (run / n).symlink_to(secret)
    yield (
        "a step that is a link",
        lambda run: (
            newest(run).rename(outside / "away")
            and (run / "checkpoints" / "000000009999").symlink_to(outside / "away")
        ),
    )


def cases(folder: Path, outside: Path, mark: Path) -> Iterator[Case]:
    yield from contents(folder, mark)
    yield from jsons()
    yield from manifests()
    yield from kinds(outside)
