"""`purerl inspect`: the settings of a run and the arrays of a checkpoint, without importing JAX."""

import json
import re
from functools import partial
from pathlib import Path

from purerl.cli.checkpoint_arguments import RUN
from purerl.cli.options import Parser
from purerl.errors import NO_CHECKPOINT, ConfigError, Damaged, NoCheckpoint, StorageError
from purerl.runs.console import align_columns, print_lines, print_warning
from purerl.runs.record import checkpoint_folders, files, safe_files, status
from purerl.runs.record.arrays import read_arrays

EXAMPLES = f"examples:\n  purerl inspect {RUN}\n  purerl inspect {RUN}/checkpoints/000000010000\n"
SHOWN = ("status", "step", "score", "reason", "started", "threads", "ranks")


def main(words: list[str]) -> int:
    """Print the contents of a run and of its newest checkpoint, or of one checkpoint."""
    parser = Parser("inspect", "Show the contents of a run or a checkpoint.", EXAMPLES)
    parser.add_argument("run", type=Path, help="folder of a run, or of one of its checkpoints")
    path: Path = parser.parse_args(words).run
    try:
        if not (path / "rank0.npz").exists():
            return _describe_run(status.find_run(path))
        print_lines(_describe_checkpoint(path))
        return 0
    except RecursionError as error:
        raise ConfigError(f"{path / 'config.json'} is nested too deeply for a run.") from error
    except StorageError as error:
        raise NoCheckpoint(str(error)) from error


def _describe_run(run: Path) -> int:
    """Print settings, status and the newest intact checkpoint; return 6 if a newer is damaged."""
    for key, value in status.read_config(run).items():
        parts = {f".{k}": v for k, v in value.items()} if isinstance(value, dict) else {"": value}
        for part, entry in parts.items():
            print_lines(f"{key}{part} = {json.dumps(entry)}")
    state = status.read_status(run)
    if status.is_damaged(run):
        print_warning(f"purerl inspect: {run / status.STATUS} is damaged, and is not shown.")
    for name in [name for name in SHOWN if name in state]:
        print_lines(f"{name}: {state[name]}")
    steps, code = checkpoint_folders.list_steps(run), 0
    print_lines(f"checkpoints: {', '.join(f'{step:,}' for step in steps) or 'none'}")
    for step in reversed(steps):
        try:
            path = checkpoint_folders.checkpoint_folder(run, step)
            text = checkpoint_folders.try_read(run, step, partial(_describe_checkpoint, path))
            if text is not None:
                print_lines(text)
                break
        except StorageError as error:
            print_warning(f"purerl inspect: {error}")
            code = NO_CHECKPOINT
    return code


def _describe_checkpoint(path: Path) -> str:
    """Return the arrays of a checkpoint, after verifying them against its manifest."""
    folder = safe_files.get_subfolder(path.parent, path.name)
    content = files.read_sealed_json(folder / "manifest.json")
    rows = [("array", "dtype", "shape", "bytes")]
    for name, file in sorted(content["files"].items()):
        if not re.fullmatch(r"rank\d{1,6}\.npz", name):
            raise Damaged(f"the manifest of {path} lists {name!r}, which purerl never writes.")
        for k, x in read_arrays(path / name, files.File(*file)).items():
            rows.append((f"{name} {k}", x.dtype.name, str(x.shape), f"{x.nbytes:,}"))
    stored = sum(s[2] - s[1] for part in content["segments"] for s in part)
    text = f"checkpoint of step {content['step']:,}, format {content['format']}, {stored:,} rows"
    return text + " of the replay buffer in segments\n" + align_columns(rows)
