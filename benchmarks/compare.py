"""Compare the speed of purerl and other libraries in one run, in turns, pinned to one core.

    make bench                                   # everything, about half an hour
    make bench ARGS="td3-updates-256 sac-start --repeats 9"
    make bench ARGS="--before ../old dqn-cartpole"    # with another checkout, not with peers

Each contender is a process that waits for its turn. In each round every contender runs one window,
so changes of the machine's speed affect all of them alike. The output has the best and the median
window, and the ratio of purerl to each peer (best to best, median to median). Torch runs with one
thread, because there is one core.

A task that ends in `-start` measures new processes, from their start to the first completed update
after 100 environment steps. purerl runs with an empty and with a filled compilation cache. The
peers fill none by themselves. A task that ends in `-devices2` splits purerl's batches over two CPU
devices and gives every contender all cores.

Tasks with `-scan` train with environments in JAX, beside Rejax, which needs an environment of its
own: `requirements-rejax.txt`. `-seeds64` measures new processes that train 64 seeds for 100,000
steps each.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).parent
TASKS = (
    *(f"{algo}-updates-{size}" for algo in ("td3", "sac", "ddpg") for size in (100, 256)),
    *("td3-halfcheetah", "td3-pendulum", "sac-halfcheetah", "dqn-cartpole"),  # bursts of 50
)
STEPS = ("dqn-cartpole1", "td3-halfcheetah1")  # one update after every step
ON_POLICY = (
    *(
        f"ppo-{env}-{schedule}"
        for schedule in ("full", "small")
        for env in ("cartpole", "halfcheetah")
    ),
    *(f"{algo}-{env}-full" for algo in ("trpo", "vpg") for env in ("cartpole", "halfcheetah")),
    *("ppo-update", "trpo-update", "vpg-update"),
    "acer-cartpole",  # the defaults, with 4 replayed updates per rollout of 160 steps
)
SPLIT = ("sac-updates-256-devices2",)
STARTS = ("td3-start", "sac-start")
SCAN = ("ppo-cartpole-scan", "dqn-cartpole-scan", "sac-pendulum-scan", "td3-pendulum-scan")
SEEDS = ("ppo-cartpole-scan-seeds64",)
ALL = (*TASKS, *STEPS, *ON_POLICY, *SPLIT, *SCAN, *STARTS, *SEEDS, "limit")
PEERS = ("sbx", "sb3")  # in most tasks
WORKERS = {"rejax": "worker_rejax.py", "cleanrl": "worker_peer_cleanrl.py"}
WORKERS |= dict.fromkeys(PEERS, "worker_peer.py")
ABSENT = {"trpo": ("sbx",), "vpg": PEERS, "acer": PEERS}  # SB3 has TRPO in sb3-contrib


class Program(NamedTuple):
    """The interpreter of a contender, and the checkout of purerl whose worker it runs."""

    python: str
    checkout: Path = HERE.parent


def make_environment(
    cache: str | None = None, threads: int = 1, checkout: Path = HERE.parent
) -> dict[str, str]:
    """Return the environment variables of a worker: threads, its checkout, and its cache."""
    env = dict(os.environ)
    env |= {"OMP_NUM_THREADS": str(threads), "JAX_PLATFORMS": "cpu"}
    env |= {"PYTHONPATH": str(checkout)}
    if cache is not None:
        env["XDG_CACHE_HOME"] = cache
    return env


def find_worker(name: str, program: Program) -> str:
    """Return the path of the script that a contender runs."""
    return str(program.checkout / "benchmarks" / WORKERS.get(name, "worker_purerl.py"))


class Contender:
    """A worker process that runs one window of a task on request."""

    def __init__(self, name: str, program: Program, task: str, cores: set[int]) -> None:
        self.name, self.windows = name, list[float]()
        if name in PEERS:
            task = task.partition("-devices")[0]
        self.process = subprocess.Popen(
            [program.python, find_worker(name, program), task, name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=make_environment(threads=len(cores), checkout=program.checkout),
            preexec_fn=lambda: os.sched_setaffinity(0, cores),
        )
        self.read("ready")

    def read(self, word: str) -> str:
        """Return the rest of the next line that starts with `word`."""
        assert self.process.stdout
        for line in self.process.stdout:
            if line.startswith(word):
                return line.removeprefix(word).strip()
        raise RuntimeError(
            f"{self.name} ended with code {self.process.wait()}. Run its worker by hand to see why."
        )

    def window(self) -> None:
        """Run one window and store its rate."""
        assert self.process.stdin
        self.process.stdin.write("go\n")
        self.process.stdin.flush()
        self.windows.append(float(self.read("rate")))

    def close(self) -> None:
        """End the process."""
        assert self.process.stdin
        self.process.stdin.close()
        self.process.wait()


def find_peers(task: str, args: argparse.Namespace) -> dict[str, Program]:
    """Return the peers of a task."""
    if "-scan" in task:
        return {"rejax": Program(args.rejax)}
    absent = ABSENT.get(task.partition("-")[0], ())
    if task in STEPS:
        return {name: Program(args.peers) for name in (*PEERS, "cleanrl")}
    return {name: Program(args.peers) for name in PEERS if name not in absent}


def compare(task: str, programs: dict[str, Program], repeats: int, core: int) -> None:
    """Run all contenders of one task in turns, and print their rates."""
    cores = os.sched_getaffinity(0) if "-devices" in task else {core}
    contenders = [Contender(name, program, task, cores) for name, program in programs.items()]
    for _ in range(repeats):
        for contender in contenders:
            contender.window()
    for contender in contenders:
        contender.close()
    ours = contenders[0].windows
    for contender in contenders:
        best, middle = max(contender.windows), statistics.median(contender.windows)
        ratio = f"{max(ours) / best:5.2f} best  {statistics.median(ours) / middle:5.2f} median"
        print(f"{task:<21} {contender.name:<7} {best:9.1f} best  {middle:9.1f} median   {ratio}")
    sys.stdout.flush()


def time_start(task: str, name: str, program: Program, cache: str, core: int) -> float:
    """Return the seconds from the start of a process to its line `updated` or `done`."""
    began = time.perf_counter()
    process = subprocess.Popen(
        [program.python, find_worker(name, program), task, name],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=make_environment(cache, checkout=program.checkout),
        preexec_fn=lambda: os.sched_setaffinity(0, {core}),
    )
    assert process.stdout
    lines: Any = process.stdout
    if not any(line.startswith(("updated", "done")) for line in lines):
        raise RuntimeError(
            f"{name} ended with code {process.wait()}. Run its worker by hand to see why."
        )
    seconds = time.perf_counter() - began
    process.wait()
    return seconds


def compare_start(task: str, programs: dict[str, Program], repeats: int, core: int) -> None:
    """Print seconds from process start to the first update or the end, cold and warm, in turns."""
    found: dict[str, list[float]] = {}
    for _ in range(repeats):
        for name, program in programs.items():
            with tempfile.TemporaryDirectory() as cache:
                for state in ("cold", "warm")[: 1 if name in WORKERS else 2]:
                    seconds = time_start(task, name, program, cache, core)
                    found.setdefault(f"{name} {state}", []).append(seconds)
    for label, seconds_ in found.items():
        best, middle = min(seconds_), statistics.median(seconds_)
        print(f"{task:<16} {label:<12} {best:6.2f} s best  {middle:6.2f} s median", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("tasks", nargs="*", help=f"tasks (default: all): {', '.join(ALL)}")
    text = "Python interpreter with SBX, SB3 and the packages of CleanRL"
    parser.add_argument("--peers", default=".venv-peers/bin/python", help=text)
    text = "Python interpreter with Rejax"
    parser.add_argument("--rejax", default=".venv-rejax/bin/python", help=text)
    text = "another checkout of purerl to compare with, instead of the peers"
    parser.add_argument("--before", type=Path, metavar="FOLDER", help=text)
    parser.add_argument("--repeats", type=int, default=7, help="windows of each contender")
    text = "number of the core for all contenders"
    parser.add_argument("--core", type=int, default=max(os.sched_getaffinity(0)), help=text)
    args = parser.parse_args()
    if args.before and not (args.before / "benchmarks" / "worker_purerl.py").exists():
        parser.error(f"--before must be a checkout of purerl, got {args.before}")
    ours = Program(sys.executable)
    before = {"before": Program(sys.executable, args.before.resolve())} if args.before else None
    for task in args.tasks or ALL:
        others = before or find_peers(task, args)
        if task in (*STARTS, *SEEDS):
            compare_start(task, {"purerl": ours} | others, max(3, args.repeats // 2), args.core)
        elif task == "limit":
            compare("limit", {"purerl": ours}, args.repeats, args.core)
        elif task in (*TASKS, *STEPS, *ON_POLICY, *SPLIT, *SCAN):
            compare(task, {"purerl": ours} | others, args.repeats, args.core)
        else:
            parser.error(f"task must be one of {', '.join(ALL)}, got {task!r}")


if __name__ == "__main__":
    main()
