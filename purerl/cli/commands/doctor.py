"""`purerl doctor`: what this machine has; `purerl doctor RUN`: whether a run is sound."""

import argparse
import contextlib
import ctypes
import ctypes.util
import importlib.util
import os
import platform
from pathlib import Path

from purerl import errors
from purerl.cli import run_arguments
from purerl.cli.options import Parser
from purerl.runs.console import align_columns, print_lines, print_warning
from purerl.runs.record import machine as machine_
from purerl.runs.record import manifest, status
from purerl.runs.settings import environments

EXTRAS = {  # by a module of each
    "mpi": "mpi4py",
    "classic": "pygame",
    "plot": "matplotlib",
    "video": "PIL",
    "export": "flatbuffers",
    "tensorboard": "tensorboardX",
    "wandb": "wandb",
}
SHOWN = 8  # names of what is not finite


def doctor(words: list[str]) -> int:
    """Print a report on the machine or on a run."""
    parser = Parser(
        "doctor",
        "What this machine has; with a run, whether it is sound, and if learning diverged,\n"
        "which update, metric and parameter did first.",
    )
    parser.add_argument("run", nargs="?", type=Path, help="folder of a run")
    parser.add_argument("--replay", action="store_true", help="replay it even if it did not fail")
    parser.add_argument("--checkpoint", type=int, help="replay from this step (default: newest)")
    parser.add_argument("--env", help="where the run's environment is module:Id, to allow it")
    args = parser.parse_args(words)
    if args.run is None:
        print_lines(align_columns([*describe_machine().items()]))
        return 0
    try:
        status.read_json(args.run / "config.json")
    except (errors.ConfigError, errors.Damaged) as error:
        parser.error(f"{args.run} is no run: {error}")
    return _check_run(args)


def describe_machine() -> dict[str, str]:
    """Return what decides whether and how fast purerl works here."""
    import jax

    from purerl import mpi
    from purerl.mpi.launch import find_launcher
    from purerl.runs.policy import video

    found = machine_.list_versions()
    found["system"] = f"{platform.platform()}, {os.cpu_count()} cores, {_memory()}"
    found["devices"] = ", ".join(str(device) for device in jax.devices())
    found["threads"] = (
        f"1 of XLA in the commands and after purerl.setup(); elsewhere "
        f"{os.environ.get('NPROC', 'as many as cores')}"
    )
    found["mpi"] = f"{mpi.num_procs()} rank, launcher {find_launcher() or 'missing'}"
    modules = EXTRAS | environments.MODULES
    missing = [x for x, module in modules.items() if importlib.util.find_spec(module) is None]
    found["extras"] = f"missing: {', '.join(missing)}" if missing else "all there"
    screen = video.get_display()
    silent = "" if video.has_display() else ", where nobody answers"
    found["display"] = f"{screen}{silent}" if screen else "none"
    found["headless"] = _headless()
    root = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "purerl" / "jax"
    sizes = [x.stat().st_size for x in root.glob("*")] if root.is_dir() else []
    found["cache"] = f"{root}: {len(sizes)} files, {sum(sizes) / 1e6:.0f} MB"
    return found


def _headless() -> str:
    """Say with what MuJoCo could draw without a display; that they load is all that is tried."""
    there = []
    for library in ("EGL", "OSMesa"):
        with contextlib.suppress(OSError):
            if name := ctypes.util.find_library(library):
                ctypes.CDLL(name)
                there.append(f"{name} loads")
    chosen = os.environ.get("MUJOCO_GL", "unset")
    return f"{', '.join(there) or 'neither libEGL nor libOSMesa'}; MUJOCO_GL={chosen}"


def _memory() -> str:
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return f"{pages / 2**30:.0f} GiB"


def _check_run(args: argparse.Namespace) -> int:
    """Check the checkpoints of a run, and replay it if it diverged."""
    from purerl.runs.record import checkpoint

    run, code = args.run, 0
    state = status.read_status(run)
    print_lines(f"status: {state.get('status', 'unknown')}, step {state.get('step', 0):,}")
    if state.get("reason"):
        print_lines(f"reason: {state['reason']}")
    whole = []
    for step in manifest.list_steps(run):
        try:
            checkpoint.verify(run, step)
            print_lines(f"checkpoint {step:,}: whole")
            whole.append(step)
        except errors.Damaged as error:
            print_lines(f"checkpoint {step:,}: {error}")
            code = 6
    reason = str(state.get("reason", ""))
    if args.replay or reason.startswith(("Diverged", "NonFiniteError")):
        if state.get("ranks", 1) == 1:
            return _diagnose(args) or code
        print_lines(f"it ran on {state['ranks']} ranks, and can be replayed on one alone")
    elif not code:
        print_lines("nothing to replay")
    elif whole:
        print_lines(f"resume takes the one of step {whole[-1]:,}")
    else:
        print_lines("none can be used: the run cannot go on")
    return code


def _diagnose(args: argparse.Namespace) -> int:
    import purerl
    from purerl.errors import NoCheckpoint, SnapshotMismatch
    from purerl.runs.training import diagnosis

    purerl.setup()
    try:
        env_fn = run_arguments.parse_env(args.env, args.run)
        finding = diagnosis.diagnose(args.run, env_fn, at=args.checkpoint, say=print_lines)
    except (errors.ConfigError, NoCheckpoint, SnapshotMismatch, errors.StorageError) as error:
        print_warning(f"purerl doctor: {error}")
        return 2 if isinstance(error, errors.ConfigError) else 6
    if finding is None:
        print_lines("it does not diverge again: versions or threads may not be those of the run")
        return 0
    for line in describe_finding(finding):
        print_lines(line)
    return 3


def describe_finding(finding: object) -> list[str]:
    """Return a finding as lines."""
    from purerl.runs.training.diagnosis import Finding

    assert isinstance(finding, Finding)
    if not finding.update:
        return [f"the environment gave it: {finding.message}"]
    lines = [f"update {finding.update:,}, environment step {finding.step:,}, is the first"]
    lines += [f"  not finite: {name}" for name in finding.bad[:SHOWN]]
    if len(finding.bad) > SHOWN:
        lines.append(f"  and {len(finding.bad) - SHOWN} more")
    if finding.line:
        lines.append(f"  first NaN: {finding.line}")
    lines.append(f"  largest parameter before: {finding.largest[0]}, {finding.largest[1]:.3g}")
    lines.append(f"batch and parameters before the update: {finding.saved}")
    return lines
