"""`purerl doctor`: report on this machine; `purerl doctor RUN`: check a run."""

import argparse
import contextlib
import ctypes
import ctypes.util
import os
import platform
from functools import partial
from pathlib import Path

from purerl.cli import checkpoint_arguments
from purerl.cli.options import Parser
from purerl.errors import NO_CHECKPOINT, NOT_FINITE, Damaged, NoCheckpoint, StorageError
from purerl.runs.console import align_columns, print_lines
from purerl.runs.record import checkpoint_folders, machine, status


def main(words: list[str]) -> int:
    """Print a report on the machine or on a run."""
    parser = Parser(
        "doctor",
        "Report on this machine. With a run: check its checkpoints and, if learning\n"
        "diverged, find the first update, metric and parameter that did.",
    )
    parser.add_argument("run", nargs="?", type=Path, help="folder of a run")
    parser.add_argument("--replay", action="store_true", help="replay a run that did not diverge")
    text = "step of the checkpoint to replay from (default: the newest)"
    parser.add_argument("--checkpoint", type=int, metavar="STEP", help=text)
    checkpoint_arguments.add_import_flags(parser)
    args = parser.parse_args(words)
    if args.run:
        return _check_run(args)
    report = align_columns([*describe_machine().items()])
    if home := os.environ.get("HOME", "").rstrip("/"):  # reports are public
        report = report.replace(f"{home}/", "~/")
    print_lines(f"Paste these lines into a report:\n\n```text\n{report}\n```")
    return 0


def describe_machine() -> dict[str, str]:
    """Return what affects whether purerl works on this machine, and how fast."""
    import jax  # start-up time

    import purerl
    from purerl import compiler, mpi
    from purerl.loops.devices import check_platform
    from purerl.mpi.launch import find_launcher
    from purerl.runs.policy import video

    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30
    threads = os.environ.get("NPROC", "as many as cores")
    missing = ", ".join(filter(machine.explain_missing, machine.EXTRAS))
    silent = "" if video.has_display() else " (does not respond)"
    check_platform()
    options = compiler.select_options(compiler.FAST)
    root = purerl.find_cache()
    sizes = [x.stat().st_size for x in Path(root).glob("*")] if root else []
    return machine.list_versions() | {
        "system": f"{platform.platform()}, {os.cpu_count()} cores, {memory:.0f} GiB",
        "processor": machine.name_processor(),
        "platform": jax.default_backend(),
        "devices": ", ".join(f"{device} ({device.device_kind})" for device in jax.devices()),
        "XLA_FLAGS": machine.read_flags(),
        "compiler": ", ".join(f"{k}={v}" for k, v in options.items()) or "default options",
        "threads": f"1 for XLA in the commands and after purerl.setup(); otherwise {threads}",
        "mpi": f"{mpi.num_procs()} rank, launcher {find_launcher() or 'missing'}",
        "extras": f"missing: {missing}" if missing else "all installed",
        "display": f"{name}{silent}" if (name := video.get_display()) else "none",
        "headless": list_headless_libraries(),
        "cache": f"{root or 'none'}: {len(sizes)} files, {sum(sizes) / 1e6:.0f} MB",
    }


def list_headless_libraries() -> str:
    """Return the libraries that load and let MuJoCo draw without a display."""
    there = []
    for library in ("EGL", "OSMesa"):
        with contextlib.suppress(OSError):
            if name := ctypes.util.find_library(library):
                ctypes.CDLL(name)
                there.append(f"{name} loads")
    chosen = os.environ.get("MUJOCO_GL", "unset")
    return f"{', '.join(there) or 'neither libEGL nor libOSMesa'}; MUJOCO_GL={chosen}"


def _check_run(args: argparse.Namespace) -> int:
    """Check the checkpoints of a run, and replay it if it diverged."""
    from purerl.runs.record import checkpoint  # start-up time

    args.run = status.find_run(args.run)
    run, code, whole = args.run, 0, []
    status.read_config(run)
    state = status.read_status(run)
    word = "damaged" if status.is_damaged(run) else "unknown"
    print_lines(f"status: {state.get('status', word)}, step {state.get('step', 0):,}")
    if state.get("reason"):
        print_lines(f"reason: {state['reason']}")
    for step in checkpoint_folders.list_steps(run):
        try:
            if checkpoint_folders.try_read(run, step, partial(checkpoint.verify, run, step)):
                print_lines(f"checkpoint {step:,}: intact")
                whole.append(step)
        except Damaged as error:
            print_lines(f"checkpoint {step:,}: {error}")
            code = NO_CHECKPOINT
    if args.replay or str(state.get("reason")).startswith(("Diverged", "NonFiniteError")):
        if state.get("ranks", 1) == 1:
            return _diagnose(args) or code
        print_lines(f"not replayed: it ran on {state['ranks']} ranks, a replay needs a run on one")
    elif not code:
        print_lines("nothing to replay: the run did not diverge")
    elif whole:
        print_lines(f"resume will use the checkpoint of step {whole[-1]:,}")
    else:
        print_lines("no checkpoint can be used: the run cannot continue")
    return code


def _diagnose(args: argparse.Namespace) -> int:
    """Replay a run and print what diverged first."""
    from purerl import setup  # start-up time
    from purerl.runs.training import diagnosis

    setup(devices=status.read_devices(args.run))
    env_fn = checkpoint_arguments.parse_env(args.env, args.run, "doctor")
    algo = checkpoint_arguments.parse_algo(args.algo)
    try:
        finding = diagnosis.diagnose(args.run, env_fn, args.checkpoint, print_lines, algo)
    except StorageError as error:
        raise NoCheckpoint(str(error)) from error
    none = "the replay did not diverge: versions or threads may differ from those of the run"
    print_lines(finding.describe() if finding else none)
    return NOT_FINITE if finding else 0
