"""Read hostile folders in every way under an audit hook; print a line for each.

python -m tests.reliability.sweep FOLDER NUMBER
"""

import contextlib
import io
import json
import os
import shutil
import signal
import sys
import time
from pathlib import Path
from typing import Any

import purerl
from purerl import errors
from purerl.cli.commands import inspect
from purerl.cli.commands import list as listing
from purerl.errors import ConfigError, SnapshotMismatch
from purerl.runs.record import checkpoint, checkpoint_folders, files, machine, status
from purerl.runs.record import folder as record_folder
from purerl.runs.settings import config
from purerl.runs.settings.config import Options
from purerl.runs.training import train
from purerl.runs.training.progress_bar import Screen
from tests.mpi.launch import ROOT
from tests.reliability import hostile
from tests.runs.script import settings

NAMED = (ConfigError, errors.StorageError, errors.NoCheckpoint, SnapshotMismatch)
FORBIDDEN = (
    "exec", "os.system", "os.exec", "os.posix_spawn", "os.fork", "os.forkpty", "subprocess.Popen",
    "pty.spawn", "pickle.find_class", "marshal.loads", "marshal.load", "ctypes.dlopen",
    "code.__new__", "socket.connect", "socket.bind", "urllib.Request", "import",
)  # fmt: skip
CHANGES = ("os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.link", "os.symlink", "os.truncate")

SYSTEM = ("/proc/self", "/proc/meminfo", "/proc/cpuinfo", "/sys/fs/cgroup")  # about the machine


class Guard:
    """Audit hook that records forbidden events, and paths outside of the run's folder."""

    def __init__(self, run: Path) -> None:
        self.run, self.watching, self.seen = str(run), False, []
        sys.addaudithook(self.hook)

    def hook(self, event: str, args: tuple[Any, ...]) -> None:
        if not self.watching:
            return
        if event == "exec" and sys._getframe(2).f_globals["__name__"] == "typing":
            return  # the annotations of our own dataclasses
        if event in FORBIDDEN:
            self.seen.append(f"{event} {args!r:.120}")
        elif event == "open" and args[0] is not None and not isinstance(args[0], int):
            path, mode, flags = os.fsdecode(args[0]), args[1] or "", args[2] or 0
            if not (flags & os.O_NOFOLLOW and os.path.islink(path)):  # the kernel refuses those
                self.path(event, path, bool(set(mode) & set("wax+") or flags & 3))
        elif event in CHANGES and args[-1] == -1:
            self.path(event, os.fsdecode(args[0]), True)

    def path(self, event: str, path: str, writes: bool) -> None:
        real = os.path.realpath(path)
        code = not writes and real.startswith((sys.prefix, sys.base_prefix, str(ROOT)))
        system = not writes and path.startswith(SYSTEM)
        if not (real.startswith(self.run) or code or system):
            self.seen.append(f"{event} outside: {real}")


class Heard(Screen):
    """Screen that collects the lines about skipped checkpoints."""

    def __init__(self, said: list[str]) -> None:
        super().__init__(quiet=True)
        self.said = said

    def say(self, line: str) -> None:
        if line.startswith("skipped a damaged checkpoint"):
            self.said.append(line[:200])


def read(run: Path) -> tuple[list[str], float]:
    """Read a run in every way; return the errors, and the CPU seconds of the longest."""
    said: list[str] = []
    longest = 0.0
    ways = (
        lambda: train.resume(run, steps=600, screen=Heard(said)),
        lambda: status.read_status(run),
        lambda: list(status.list_runs(run.parent)),
        lambda: checkpoint_folders.read_best(run),
        lambda: said.extend(checkpoint.load(run, {}, 0).changed),
        lambda: config.from_json(status.read_json(run / "config.json")),
        lambda: listing.main(["runs", "--data-dir", str(run.parent)]),
        lambda: inspect.main([str(run)]),
    )
    for number, way in enumerate(ways):
        began = time.process_time()
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            try:
                way()
            except NAMED as error:
                said.append(f"{type(error).__name__}: {error}"[:200])
            except Exception as error:
                said.append(f"raw {number} {type(error).__name__}: {error}"[:200])
        longest = max(longest, time.process_time() - began)
    return said, round(longest, 3)


def memory(name: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(name):
            return int(line.split()[1]) // 1024
    return 0


def good_run(data: Path) -> Path:
    content = config.to_json(settings("td3"))
    content["schedule"] |= {"steps": 500, "steps_per_epoch": 250}
    content["options"] = vars(Options(100, 2))
    made = config.from_json(content)
    return train.train(made, data_dir=str(data), screen=Screen(quiet=True)).run


def main(folder: Path, number: int) -> None:
    good = good_run(folder / "good")
    outside, mark, run = folder / "outside", folder / "mark", folder / "runs" / "run"
    run.parent.mkdir()
    shutil.copytree(good, run)
    read(run)  # imports and compiles everything that reading needs
    # A run without a readable status file describes the machine again, for which it calls git.
    facts = machine.describe_machine()
    record_folder.describe_machine = lambda: facts
    shutil.rmtree(run)
    guard = Guard(run)
    chosen = [*hostile.cases(folder, outside, mark)]
    for name, change in chosen[:: max(1, len(chosen) // number)]:
        outside.mkdir()
        (outside / "secret").write_text("mine\n")
        kept = outside / "0-000000000000-000000000100.npz"
        kept.write_text("mine")
        shutil.copytree(good, run)
        change(run)
        Path("/proc/self/clear_refs").write_text("5")
        before = memory("VmRSS")
        guard.seen, guard.watching = [], True
        signal.alarm(60)
        said, seconds = read(run)
        signal.alarm(0)
        guard.watching = False
        found = {
            "case": name,
            "seconds": seconds,
            "mb": memory("VmHWM") - before,
            "seen": guard.seen,
            "marked": mark.exists(),
            "touched": (outside / "secret").read_text() != "mine\n" or not kept.exists(),
            "said": said,
        }
        sys.stdout.write(json.dumps(found) + "\n")
        sys.stdout.flush()
        files.remove(run)
        files.remove(outside)


if __name__ == "__main__":
    purerl.setup()
    main(Path(sys.argv[1]), int(sys.argv[2]))
