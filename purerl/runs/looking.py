"""`purerl list` and `purerl inspect`: what is there, without importing JAX."""

import argparse
import json
import re
from pathlib import Path

from purerl import algos
from purerl.runs import environments, places, regular, storage
from purerl.runs.plain import aligned, printed, warned


def listing(words: list[str]) -> int:
    """Print algorithms, environments that fit them, runs and how they stand."""
    parser = argparse.ArgumentParser(prog="purerl list", description="What there is.")
    parser.add_argument("what", nargs="?", choices=("algos", "envs", "runs"), help="default: all")
    parser.add_argument("algo", nargs="?", help="of `envs`: only those that fit this algorithm")
    parser.add_argument("--data-dir", help="where runs are (default: the user's, else ./runs)")
    args = parser.parse_args(words)
    if args.what in (None, "algos"):
        printed("algorithms: " + ", ".join(algos.NAMES))
    if args.what in (None, "envs"):
        try:
            printed(aligned(environments.rows(args.algo)))
        except ValueError as error:
            parser.error(str(error))
        printed("and every other Gymnasium environment of these kinds, as module:Id too")
    if args.what in ("algos", "envs"):
        return 0
    try:
        data_dir = Path(args.data_dir or places.user_defaults()["data_dir"]).expanduser()
    except (places.ConfigError, storage.Damaged) as error:
        parser.error(str(error))
    found = [*places.standings(data_dir)] if data_dir.is_dir() else []
    if not found:
        printed(f"no runs in {data_dir}")
        return 0
    rows: list[tuple[str, ...]] = [("run", "algo", "env", "seed", "status", "step", "of", "return")]
    for one in found:
        score = "-" if one.score is None else f"{one.score:.1f}"
        name = str(one.path.relative_to(data_dir))
        row = (name, one.algo, one.env, one.seed, one.status, f"{one.step:,}", f"{one.steps:,}")
        rows.append((*map(str, row), score))
    printed(aligned(rows))
    return 0


def inspect(words: list[str]) -> int:
    """Print what a run and its newest checkpoint hold."""
    parser = argparse.ArgumentParser(prog="purerl inspect", description="What a run holds.")
    parser.add_argument("run", type=Path, help="its folder, or that of one of its checkpoints")
    args = parser.parse_args(words)
    path: Path = args.run
    try:
        if (path / "rank0.npz").exists():
            printed(_checkpoint(path))
            return 0
        config = places.read_json(path / "config.json")
        printed(json.dumps(config, indent=2))
        state = places.status(path)
        for name in ("status", "step", "score", "reason", "started", "threads", "ranks"):
            if name in state:
                printed(f"{name}: {state[name]}")
        folder = path / "checkpoints"
        names = (
            sorted(p.name for p in folder.iterdir() if p.name.isdigit()) if folder.is_dir() else []
        )
        printed(f"checkpoints: {', '.join(str(int(n)) for n in names) or 'none'}")
        return _newest([folder / name for name in reversed(names)])
    except (places.ConfigError, storage.StorageError) as error:
        warned(f"purerl inspect: {error}")
        return 6


def _newest(paths: list[Path]) -> int:
    """Print the first checkpoint that is whole; return 6 if one before it is damaged."""
    code = 0
    for path in paths:
        try:
            printed(_checkpoint(path))
            break
        except storage.Damaged as error:
            warned(f"purerl inspect: checkpoint {int(path.name)}: {error}")
            code = 6
    return code


def _checkpoint(path: Path) -> str:
    """Return the arrays of a checkpoint, after checking what its manifest says of them."""
    content = storage.unsealed(regular.within(path.parent, path.name) / "manifest.json")
    rows = [("array", "dtype", "shape")]
    for name, file in sorted(content["files"].items()):
        if not re.fullmatch(r"rank\d{1,6}\.npz", name):
            raise storage.Damaged(f"{path} names a file {name!r}, which purerl does not write.")
        arrays = storage.arrays(path / name, storage.File(*file))
        rows += [(f"{name} {k}", x.dtype.name, str(x.shape)) for k, x in arrays.items()]
    stored = sum(s[2] - s[1] for part in content["segments"] for s in part)
    text = f"checkpoint of step {content['step']:,}, format {content['format']}, {stored:,} rows"
    return text + " of replay memory in segments\n" + aligned(rows)
