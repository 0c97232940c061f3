"""`purerl inspect`: the settings of a run and the arrays of a checkpoint, without importing JAX."""

import json
import re
from pathlib import Path
from typing import Any

from purerl.cli.options import Parser
from purerl.errors import NO_CHECKPOINT, ConfigError, Damaged, NoCheckpoint, StorageError
from purerl.runs.console import align_columns, print_lines, print_warning
from purerl.runs.record import checkpoint_folders, files, safe_files, status
from purerl.runs.record.arrays import read_arrays

EXAMPLES = """examples:
  purerl inspect runs/cartpole-v1-ppo/cartpole-v1-ppo_s0
  purerl inspect runs/cartpole-v1-ppo/cartpole-v1-ppo_s0/checkpoints/000000010000
"""
SHOWN = ("status", "step", "score", "reason", "started", "threads", "ranks")


def main(words: list[str]) -> int:
    """Print what a run and its newest checkpoint hold."""
    parser = Parser("inspect", "What a run or a checkpoint holds.", EXAMPLES)
    parser.add_argument("run", type=Path, help="its folder, or that of one of its checkpoints")
    path: Path = parser.parse_args(words).run
    try:
        if (path / "rank0.npz").exists():
            print_lines(_describe_checkpoint(path))
            return 0
        print_lines("\n".join(_format_config(status.read_config(path))))
        state = status.read_status(path)
        for name in [name for name in SHOWN if name in state]:
            print_lines(f"{name}: {state[name]}")
        return _print_newest(path)
    except RecursionError as error:
        raise ConfigError(f"{path / 'config.json'} is nested too deeply to be a run's.") from error
    except StorageError as error:
        raise NoCheckpoint(str(error)) from error


def _format_config(content: dict[str, Any]) -> list[str]:
    """Return a configuration as lines, `spec.gamma = 0.99`."""
    lines = []
    for key, value in content.items():
        parts = {f".{k}": v for k, v in value.items()} if isinstance(value, dict) else {"": value}
        lines += [f"{key}{part} = {json.dumps(entry)}" for part, entry in parts.items()]
    return lines


def _print_newest(run: Path) -> int:
    """Print the newest complete checkpoint, and which newer ones are damaged; return 6 for any."""
    steps, code = checkpoint_folders.list_steps(run), 0
    print_lines(f"checkpoints: {', '.join(f'{step:,}' for step in steps) or 'none'}")
    for step in reversed(steps):
        try:
            print_lines(_describe_checkpoint(run / "checkpoints" / f"{step:012d}"))
        except StorageError as error:
            print_warning(f"purerl inspect: {error}")
            code = NO_CHECKPOINT
        else:
            break
    return code


def _describe_checkpoint(path: Path) -> str:
    """Return the arrays of a checkpoint, after verifying them against its manifest."""
    content = files.read_sealed_json(
        safe_files.get_subfolder(path.parent, path.name) / "manifest.json"
    )
    rows = [("array", "dtype", "shape", "bytes")]
    for name, file in sorted(content["files"].items()):
        if not re.fullmatch(r"rank\d{1,6}\.npz", name):
            raise Damaged(f"{path} names a file {name!r}, which purerl does not write.")
        arrays = read_arrays(path / name, files.File(*file))
        rows += [
            (f"{name} {k}", x.dtype.name, str(x.shape), f"{x.nbytes:,}") for k, x in arrays.items()
        ]
    stored = sum(s[2] - s[1] for part in content["segments"] for s in part)
    text = f"checkpoint of step {content['step']:,}, format {content['format']}, {stored:,} rows"
    return text + " of replay memory in segments\n" + align_columns(rows)
