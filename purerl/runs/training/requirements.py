"""Check that runs can be trained, before they start: settings, memory, functions, several seeds."""

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax

from purerl import mpi
from purerl.errors import ConfigError
from purerl.loops import devices
from purerl.runs.record import checkpoint, checkpoint_folders, status
from purerl.runs.settings import config as configs
from purerl.runs.settings import environments
from purerl.runs.settings.config import Config
from purerl.runs.training.sinks import Sink, check_packages

EnvFn = Callable[[], Any]
# Settings that may differ between runs that are trained together.
OWN = ("seed", "name", *(f"options.{x}" for x in ("keep", "tensorboard", "wandb")))


def check_runs(
    made: Sequence[Config], sinks: Sequence[Sink], eval_env_fn: Any, on_record: Any, at: Any = ""
) -> None:
    """Refuse a run, or several in one program, that cannot be trained.

    The other arguments are those of `train` and `resume`, which all ranks must have been given.
    """
    check_packages(made[0])
    _check_functions(made[0], eval_env_fn, on_record)
    check_together(made, sinks)
    check_memory(made[0], mpi.num_procs(), len(made))
    mpi.assert_in_sync(_flatten_config(made[0]) | {"checkpoint": str(at)}, "the configuration")


def check_together(made: Sequence[Config], sinks: Sequence[Sink] = ()) -> None:
    """Refuse several runs that one program cannot train."""
    first, *others = made
    refused = {
        f"{mpi.num_procs()} ranks": mpi.num_procs() > 1,
        f"devices={first.schedule.devices}": first.schedule.devices > 1,
        "wandb": any(config.options.wandb for config in made),
        "custom sinks": sinks,
        "equal seeds": len({config.seed for config in made}) < len(made),
    }
    for what in (name for name, is_used in refused.items() if is_used and others):
        raise ConfigError(
            f"{what} and several seeds in one program do not go together. Leave one of them out, "
            f"or train the seeds one after the other."
        )
    wanted = _flatten_config(first)
    for other in others:
        found = _flatten_config(other)
        for name in wanted | found:
            ours, theirs = wanted.get(name), found.get(name)
            if ours != theirs and name not in OWN:
                way = "Train them one after the other"
                way = "Give one total with --steps" if name == "schedule.steps" else way
                raise ConfigError(
                    f"seeds in one program share their settings, but {name} is {ours} with seed "
                    f"{first.seed} and {theirs} with seed {other.seed}. {way}."
                )


def check_memory(config: Config, ranks: int, seeds: int = 1) -> None:
    """Refuse a run that does not fit into memory, or counts that are not divisible by the ranks.

    Several seeds need twice their memory while they are joined into one program.
    """
    devices.check_platform()
    try:
        schedule = config.schedule.resolve(ranks)
        learner = jax.eval_shape(lambda: config.module.init(jax.random.key(0), config.spec))
        devices.check_memory(
            config.spec.env, schedule, learner, ranks, seeds if seeds == 1 else 2 * seeds
        )
    except ValueError as error:
        raise ConfigError(str(error)) from error


def choose_env_fns(
    config: Config, env_fn: EnvFn | None, eval_env_fn: EnvFn | None
) -> tuple[EnvFn, EnvFn]:
    """Return what makes the environments of training and of test episodes; in JAX, these."""
    training, test = (
        environments.choose_training_env(one, config.env, config.options.wrapper)
        for one in (env_fn, eval_env_fn or env_fn)
    )
    return training, test


def _check_functions(config: Config, eval_env_fn: Any, on_record: Any) -> None:
    """Refuse arguments that are not functions, and test environments with other spaces."""
    for name, given in (("eval_env_fn", eval_env_fn), ("on_record", on_record)):
        if given is not None and not callable(given):
            raise ConfigError(f"{name} must be a function or None, got {given!r}.")
    if eval_env_fn is not None:
        _, test_env_fn = choose_env_fns(config, None, eval_env_fn)
        found = environments.read_env_spec("of eval_env_fn", test_env_fn)
        if found != config.spec.env:
            raise ConfigError(
                f"eval_env_fn must make environments with the spaces of training, "
                f"{config.spec.env}, got {found}."
            )


def _flatten_config(config: Config) -> dict[str, str]:
    """Return the entries of a configuration as text by their names, to compare between ranks."""
    entries = checkpoint.flatten_settings(configs.to_json(config))
    return {name: repr(entry) for name, entry in entries.items()}


def read_config(
    run: Path, env_fn: EnvFn | None, spec: Any, steps: int | None, algo: Any = None
) -> Config:
    """Return the configuration of a run, with a new total of steps (rounded up) or its last."""
    config = configs.from_json(status.read_json(run / "config.json"), env_fn, spec, custom=algo)
    total = status.read_status(run).get("steps") if steps is None else steps
    if total is None:  # the status is missing or damaged
        total = checkpoint_folders.read_total(run) or config.schedule.steps
    try:
        schedule = dataclasses.replace(config.schedule, steps=total)
        if steps is not None:
            total = schedule.settle(mpi.num_procs()).steps
            schedule = dataclasses.replace(schedule, steps=total)
    except (ValueError, TypeError) as error:
        raise ConfigError(str(error)) from error
    return dataclasses.replace(config, schedule=schedule)
