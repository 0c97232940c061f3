"""`purerl train` and `purerl resume`: options from the dataclasses, and stable exit codes.

0 done; 2 a mistake in what was typed; 3 not finite; 4 an environment failed; 5 storage; 6 no
checkpoint that can be used; 7 ranks that disagree; 75 stopped on request, `purerl resume` goes on.
"""

import argparse
import dataclasses
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import purerl
from purerl import algos, cli, mpi
from purerl.loops.carry import NonFiniteError
from purerl.loops.snapshot import Mismatch
from purerl.loops.vector import EnvFault
from purerl.runs import config as configs
from purerl.runs import train as runs
from purerl.runs.checkpoint import Refused
from purerl.runs.config import ConfigError, Options
from purerl.runs.storage import StorageError

CODES: dict[type[Exception], int] = {
    ConfigError: 2,
    mpi.MPIUnavailable: 2,
    NonFiniteError: 3,
    EnvFault: 4,
    StorageError: 5,
    Refused: 6,
    Mismatch: 6,
}


def train(words: list[str]) -> int:
    """Train one run per seed, one after the other."""
    mpi.init()  # first, so that a rank that fails from here on ends the job
    name = words[0] if words else ""
    if not name or name.startswith("-"):
        names = ", ".join(algos.NAMES)
        sys.stdout.write(f"usage: purerl train ALGO --env ID [settings]\nALGO: {names}\n")
        return 0 if name in ("-h", "--help") else 2
    try:
        algo = algos.load(name)
    except ValueError as error:
        sys.stderr.write(f"purerl train: {error}\n")
        return 2
    parser = argparse.ArgumentParser(
        prog=f"purerl train {name}",
        usage=f"purerl train {name} --env ID [settings]; --help lists them",
        description=_first(algo),
    )
    group = parser.add_argument_group("run")
    group.add_argument("--env", "--env-id", help="Gymnasium id, or module:Id")
    group.add_argument("--seed", type=cli.seed, nargs="+", help="one run for each (default: 0)")
    group.add_argument("--name", "--exp-name", "--exp_name", help="of the runs (default: env-algo)")
    group.add_argument("--data-dir", "--data_dir", help="where runs are kept (default: runs)")
    group.add_argument("--config", type=Path, help="JSON as a run's config.json: defaults for all")
    group.add_argument("--num-cpu", "--num_cpu", "--cpu", type=int, help="MPI ranks")
    cli.add_fields(parser, algo.Spec, algo.SCHEDULE, Options)
    args = parser.parse_args(words[1:])
    try:
        content = configs.read(args.config) if args.config else {}
        if content.get("algo", name) != name:
            raise ConfigError(f"{args.config} is for {content['algo']!r}, not {name!r}.")
        content = content | {"algo": name, "env": args.env or content.get("env")}
        if content["env"] is None:
            raise ConfigError("--env is needed, as --env CartPole-v1.")
        for part, source in (
            ("spec", algo.Spec), ("schedule", algo.SCHEDULE), ("options", Options),
        ):  # fmt: skip
            content[part] = content.get(part, {}) | _typed(args, source)
        if args.name:
            content["name"] = args.name
        env_fn = configs.make(args.env) if args.env else None
        seeds = args.seed or [content.get("seed", 0)]
        made = [configs.from_json(content | {"seed": seed}, env_fn) for seed in seeds]
        made[0].schedule.resolve(args.num_cpu or 1)
        mpi.fork(args.num_cpu)
    except (ConfigError, ValueError, StorageError, mpi.MPIUnavailable) as error:
        parser.error(str(error))
    purerl.setup(devices=made[0].schedule.devices)
    code = 0
    for config in made:
        code = _ended(lambda c=config: runs.train(c, env_fn, data_dir=args.data_dir))
        if code:
            break
    return code


def resume(words: list[str]) -> int:
    """Go on with a run."""
    mpi.init()
    parser = argparse.ArgumentParser(
        prog="purerl resume", description="Go on with a run that was stopped, killed or is done."
    )
    parser.add_argument("run", type=Path, help="its folder")
    parser.add_argument("--steps", type=cli.integer, help="new total (default: as it was started)")
    parser.add_argument("--checkpoint", type=cli.integer, help="its step (default: the newest)")
    parser.add_argument("--env", help="where the run's environment is module:Id, to allow it")
    parser.add_argument("--num-cpu", "--num_cpu", "--cpu", type=int, help="MPI ranks")
    args = parser.parse_args(words)
    try:
        devices = int(configs.read(args.run / "config.json")["schedule"].get("devices", 1))
        mpi.fork(args.num_cpu)
    except (KeyError, TypeError, AttributeError, ValueError, StorageError) as error:
        parser.error(f"{args.run} is no run: {error}")
    except mpi.MPIUnavailable as error:
        parser.error(str(error))
    purerl.setup(devices=devices)
    env_fn = configs.make(args.env) if args.env else None
    return _ended(lambda: runs.resume(args.run, env_fn, steps=args.steps, at=args.checkpoint))


def _ended(run: Any) -> int:
    """Run, and return the exit code that says how it ended."""
    try:
        return int(run().code)
    except tuple(CODES) as error:
        if mpi.num_procs() > 1:
            raise  # a rank that fails ends the job, with its traceback
        notes = "".join(f"\n  {note}" for note in getattr(error, "__notes__", ()))
        sys.stderr.write(f"purerl: {error}{notes}\n")
        return next(code for kind, code in CODES.items() if isinstance(error, kind))


def _typed(args: argparse.Namespace, source: Any) -> dict[str, Any]:
    """Return the fields of a dataclass that were typed."""
    names = {field.name for field in dataclasses.fields(source)} - {"env"}
    return {k: v for k, v in vars(args).items() if k in names}


def _first(algo: ModuleType) -> str:
    return str(algo.__doc__).partition("\n")[0]
