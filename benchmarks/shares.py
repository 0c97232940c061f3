"""Print the shares of a worker's time by line of Python, and by operation of XLA.

    yes go | head -12 | py-spy record --idle -r 500 -f raw -o stacks.txt -- \\
        python benchmarks/worker_purerl.py dqn-cartpole1 purerl
    python -m benchmarks.shares stacks.txt          # shares of the samples within a window
    python -m benchmarks.shares --ops dqn-cartpole1 # shares of XLA's operations in a window

A sample counts for the innermost line of this project or of Gymnasium. A compiled program counts
for the line that calls it. `--idle` is needed because XLA runs programs in its own thread while
Python's thread waits.
"""

import argparse
import collections
import gzip
import json
import re
import tempfile
from pathlib import Path
from typing import Any


def count_lines(path: Path) -> collections.Counter[str]:
    """Count py-spy's samples by line of the code that waits for them."""
    found = collections.Counter[str]()
    for record in path.read_text().splitlines():
        stack, number = record.rsplit(" ", 1)
        frames = stack.split(";")
        if any(".window (" in frame for frame in frames):
            own = [frame for frame in frames if re.search("purerl/|gymnasium/", frame)]
            found[(own or frames)[-1]] += int(number)
    return found


def trace_operations(task: str) -> collections.Counter[str]:
    """Trace one window with JAX's profiler; sum the microseconds of each operation."""
    import jax

    from benchmarks import worker_purerl

    window = worker_purerl.make_window(task)
    window()
    options = jax.profiler.ProfileOptions()
    options.python_tracer_level = 0  # tracing Python would cost more than the calls it traces
    with tempfile.TemporaryDirectory() as folder:
        with jax.profiler.trace(folder, create_perfetto_trace=True, profiler_options=options):
            window()
        (trace,) = Path(folder).rglob("perfetto_trace.json.gz")
        events = json.loads(gzip.decompress(trace.read_bytes()))["traceEvents"]
    found = collections.Counter[str]()
    open_: dict[tuple[int, int], list[dict[str, Any]]] = {}
    for event in sorted((e for e in events if "dur" in e), key=lambda e: (e["ts"], -e["dur"])):
        stack = open_.setdefault((event["pid"], event["tid"]), [])
        while stack and stack[-1]["ts"] + stack[-1]["dur"] <= event["ts"]:
            stack.pop()
        if stack:  # do not count nested operations twice
            found[describe_operation(stack[-1])] -= event["dur"]
        stack.append(event)
        found[describe_operation(event)] += event["dur"]
    return collections.Counter({name: n for name, n in found.items() if "wait for" not in name})


def describe_operation(event: dict[str, Any]) -> str:
    """Return an operation's name without its number."""
    return re.sub(r"[.\d]+$", "", event["name"])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", help="file written by py-spy; with --ops, a task of compare.py")
    parser.add_argument("--ops", action="store_true", help="trace XLA's operations in a task")
    parser.add_argument("--top", type=int, default=25, help="number of lines to print")
    args = parser.parse_args()
    found = trace_operations(args.what) if args.ops else count_lines(Path(args.what))
    total = found.total()
    for name, number in found.most_common(args.top):
        print(f"{100 * number / total:5.1f} %  {number:9.0f}  {name}")


if __name__ == "__main__":
    main()
