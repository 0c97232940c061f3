"""Runs that save many times a second, to be killed.

    python -m tests.reliability.script train ALGO DATA_DIR [STEPS]
    python -m tests.reliability.script resume RUN
    python -m tests.reliability.script calls ALGO DATA_DIR NUMBER     # kill at calls to the disk
    python -m tests.reliability.script back ALGO DATA_DIR NUMBER      # the same while going back

With `calls`, a child process trains until just before its n-th call that changes the disk, and
kills itself there. A second child resumes the run to its end, and a line of JSON is printed. With
`back`, the first child resumes a finished run from its oldest checkpoint.
"""

import dataclasses
import functools
import json
import os
import random
import shutil
import signal
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import purerl
from purerl.runs.record import checkpoint, checkpoint_folders, files, status
from purerl.runs.settings.config import Config, Options
from purerl.runs.training import train
from purerl.runs.training.progress_bar import Screen
from tests.runs.script import final, kept, settings, the_run

WRITES = {"os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.truncate"}


def often(algo: str, steps: int = 30_000, epoch: int = 1_000, save_freq: int = 100) -> Config:
    """Return a configuration whose checkpoints are saved milliseconds apart."""
    config = settings(algo)
    if algo in ("acer", "ppo"):
        epoch = epoch // 10  # a rollout is the shortest between two saves
    schedule = dataclasses.replace(config.schedule, steps=steps, steps_per_epoch=epoch)
    return dataclasses.replace(config, schedule=schedule, options=Options(save_freq, keep=2))


class Torn:
    """A file that calls `before` before, in the middle of and after a write, to kill the process.

    An archive is written in hundreds of pieces. Only its first two pieces and its end count.
    """

    def __init__(self, file: Any, before: Callable[[], None]) -> None:
        self.file, self.before, self.pieces = file, before, 0

    def __enter__(self) -> "Torn":
        return self

    def __exit__(self, *args: object) -> None:
        self.file.flush()
        self.before()
        self.file.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.file, name)

    def write(self, content: Any) -> int:
        self.pieces += 1
        if self.pieces > 2:
            return self.file.write(content)
        self.before()
        half = len(content) // 2
        written = self.file.write(content[:half])
        self.file.flush()
        self.before()
        return written + self.file.write(content[half:])


def kill_before(call: int, below: str) -> list[int]:
    """Kill this process just before its n-th call that changes the disk; return their count."""
    seen = [0]

    def before() -> None:
        seen[0] += 1
        if seen[0] == call:
            os.kill(os.getpid(), signal.SIGKILL)

    def audit(event: str, args: tuple[Any, ...]) -> None:
        if event in WRITES and args and (str(args[0]).startswith(below) or args[-1] != -1):
            before()

    def torn(path: Any, mode: str = "r", **options: Any) -> Any:
        if mode not in ("wb", "xb", "a"):
            return open(path, mode, **options)
        return Torn(open(path, mode, **options), before)

    def fsync(descriptor: int) -> None:
        before()
        real(descriptor)

    real, os.fsync = os.fsync, fsync
    sys.addaudithook(audit)
    vars(files)["open"] = torn
    return seen


def run_forks(body: Callable[[], int]) -> int:
    """Run a function in a child process; return its exit code, negative for a signal."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    try:
        code = body()
        sys.stdout.flush()
    except BaseException:
        traceback.print_exc()
        code = 1
    os._exit(code)


def end(run: Path) -> Any:
    """Return everything that a finished run leaves, and its checkpoints."""
    return final(run), kept(run)


def at_every_call(algo: str, data: Path, number: int, back: bool) -> Iterator[dict[str, Any]]:
    """Kill at `number` of all calls, resume, and compare the end with an undisturbed run."""
    config = often(algo, steps=600, epoch=200)

    def done(here: Path, call: int) -> int:
        """Train, or resume an existing run from its oldest checkpoint; count the calls."""
        purerl.setup()
        seen, quiet = kill_before(call, str(here)), Screen(quiet=True)
        if (here / "whole").exists():
            oldest = checkpoint_folders.list_steps(run := the_run(here / "whole"))[0]
            code = train.resume(run, at=oldest, screen=quiet).code
        else:
            code = train.train(config, data_dir=str(here / "whole"), screen=quiet).code
        (here / "calls").write_text(str(seen[0]))
        return code

    assert run_forks(lambda: done(data, 0)) == 0
    wanted = end(the_run(data / "whole"))
    if back:
        assert run_forks(lambda: done(data, 0)) == 0
        assert end(the_run(data / "whole")) == wanted
    calls = int((data / "calls").read_text())
    every = range(1, calls + 1)
    chosen = sorted(random.Random(0).sample(every, min(number, calls)))
    for call in chosen:
        here = data / "one"

        def second(here: Path = here) -> int:
            purerl.setup()
            return train.resume(the_run(here / "whole"), screen=Screen(quiet=True)).code

        here.mkdir()
        if back:
            shutil.copytree(data / "whole", here / "whole")
        first = run_forks(functools.partial(done, here, call))
        found: dict[str, Any] = {"call": call, "of": calls, "first": first}
        there = [p.parent for p in here.glob("whole/*/*/config.json")]
        steps = checkpoint_folders.list_steps(there[0]) if there else []
        found["newest"] = steps[-1] if steps else None
        if steps:
            loaded = checkpoint.load(there[0], {}, 0)
            found["skipped"] = list(loaded.skipped)
            if status.read_status(there[0])["status"] != "done":
                found["second"] = run_forks(second)
            found["same"] = end(there[0]) == wanted
        shutil.rmtree(here, ignore_errors=True)
        yield found


if __name__ == "__main__":
    action, what, *rest = sys.argv[1:]
    if action in ("calls", "back"):
        for line in at_every_call(what, Path(rest[0]), int(rest[1]), action == "back"):
            print(json.dumps(line), flush=True)
        sys.exit(0)
    purerl.setup()
    if action == "train":
        outcome = train.train(often(what, *map(int, rest[1:])), data_dir=rest[0])
    else:
        outcome = train.resume(Path(what))
    sys.exit(outcome.code)
