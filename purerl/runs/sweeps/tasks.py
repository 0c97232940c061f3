"""Tasks of a sweep: algorithms (with `purerl train` and `resume`) and functions of the user."""

import contextlib
import functools
import glob
import inspect
import math
import multiprocessing
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from purerl import algos, errors
from purerl.errors import ConfigError, TaskRefused
from purerl.mpi.launch import die_with_parent
from purerl.runs.record import files, folder, safe_files, status
from purerl.runs.record.status import RunStatus
from purerl.runs.settings import aliases, config, environments
from purerl.runs.sweeps.jobs import Entries, Plan, Process, Task, Variant
from purerl.runs.sweeps.results import TaskResult

Thunk = Callable[..., Any]


def make_algorithm_task(
    algo: Any, variant: Variant, sweep: Path, plan: Plan, base: Mapping[str, Any] | None = None
) -> Task:
    """Make the task of one run of an algorithm.

    Its process reads the configuration from a file: `base`, overridden by the variant's settings.
    If the configuration is refused, starting the task raises `TaskRefused`.
    """
    name, seed, settings = variant
    data_dir = _choose_folder(sweep, name)
    complete: dict[str, Any] = {}
    refused = ""
    try:
        content = aliases.build_configuration(algo, settings, base) | {"seed": seed, "name": name}
        complete = complete_config(content, algo, plan.num_cpu)
    except ConfigError as error:
        refused = str(error)

    def start(log: Path, unfinished: RunStatus | None) -> Process:
        if refused:
            raise TaskRefused(refused.replace("\n", "; "))
        env = complete["env"]
        ranks = [] if plan.num_cpu == 1 else [f"--num-cpu={plan.num_cpu}"]
        if unfinished is not None:
            module = [f"--env={env}"] if ":" in env else []  # no file can name a module
            module += [] if isinstance(algo, str) else [f"--algo={algos.get_name(algo)}"]
            words = ["resume", *module, *ranks, "--", str(unfinished.path)]
        else:
            path = sweep / "configs" / f"{name}_s{seed}.json"
            files.make_folder(path.parent)
            files.write_json(path, content)
            words = ["train", algos.get_name(algo), f"--config={path}", f"--env={env}"]
            words += [f"--seed={seed}", f"--data-dir={data_dir}", *ranks]
            words += ["--datestamp" if plan.datestamp else "--no-datestamp"]
        with log.open("ab") as output:
            return subprocess.Popen(
                [sys.executable, "-m", "purerl", *words],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
                start_new_session=True,  # the sweep passes Ctrl-C on, once
                preexec_fn=die_with_parent,
            )

    look = functools.partial(find_run, complete, data_dir, name)
    return Task(TaskResult(name, seed, settings=settings), look, start)


def complete_config(content: dict[str, Any], algo: Any, ranks: int) -> dict[str, Any]:
    """Return a complete `config.json` with placeholder spaces, or raise `ConfigError`."""
    spaces = config.make_placeholder_spaces(algo, content)
    found = config.from_json(content, spaces=spaces, custom=algo)
    environments.check_available(found.env)
    return config.to_json(config.settle(found, ranks)[0])


def find_run(complete: dict[str, Any], data_dir: Path, name: str) -> RunStatus | None:
    """Find the run of a configuration: a done one if there is one, else the most advanced one."""
    order = {"done": 3, "running": 2, "stopped": 1, "killed": 1}
    found: dict[tuple[int, int, int], RunStatus] = {}
    for parent in data_dir.glob(f"*{glob.escape(name)}"):
        for one in status.list_runs(parent):
            with contextlib.suppress(ConfigError, errors.Damaged, FileNotFoundError):  # deleted
                if _are_same(status.read_settings(one.path), complete):
                    age = one.path.stat().st_mtime_ns
                    found[order.get(one.status, 0), one.step, age] = one
    return found[max(found)] if found else None


def _are_same(settings: dict[str, Any], complete: dict[str, Any]) -> bool:
    """Compare the settings of a run with a configuration that knows no environment.

    Only the run has the spaces of its environment, and the torso that these choose for images.
    """
    found, wanted = ({k: v for k, v in x.items() if k != "spaces"} for x in (settings, complete))
    spec, other = found.pop("spec", {}), wanted.pop("spec", {})
    own = {"torso": other.get("torso") or spec.get("torso")}
    return found == wanted and spec | own == other | own


def _choose_folder(sweep: Path, name: str) -> Path:
    """Return the data folder of a run; a run with the sweep's name is directly in its folder."""
    return sweep.parent if name == sweep.name else sweep


# --- user functions ------------------------------------------------------------------------------


def make_function_task(thunk: Thunk, variant: Variant, sweep: Path, plan: Plan) -> Task:
    """Make the task of one function call, `thunk(seed=seed, **settings)`.

    A number that it returns is the score. A function that was stopped is called again.
    """
    word = getattr(thunk, "__qualname__", "")
    if not callable(thunk) or not word or "<" in word:
        raise TypeError(
            f"thunk must be a function defined with `def` at the top of a module, because other "
            f"processes import it (no lambda, no inner function), got {thunk!r}."
        )
    if plan.num_cpu != 1:
        raise ValueError(f"num_cpu must be 1 for a function (use mpi.fork), got {plan.num_cpu}.")
    name, seed, settings = variant
    data_dir = _choose_folder(sweep, name)
    about: dict[str, Any] = {
        "algo": f"{thunk.__module__}.{word}".replace("__main__.", ""),
        "env": str(settings.get("env_name", settings.get("env", "-"))),
        "seed": seed,
        "name": name,
        "exp_name": name,
        "settings": files.to_json(settings),
        "schedule": {"steps": int(settings.get("steps", 0) or 0)},
    }

    def start(log: Path, unfinished: RunStatus | None) -> Process:
        if unfinished is not None:  # give it up, so that another run can replace it
            failed = {"status": "failed", "reason": "ended before its first checkpoint"}
            status.write_status(unfinished.path, status.read_status(unfinished.path) | failed)
        run = folder.create_folder(about, str(data_dir), plan.datestamp)
        given = _complete_arguments(thunk, settings | {"seed": seed}, run, name)
        context = multiprocessing.get_context("spawn")
        process = context.Process(target=_call, args=(thunk, given, run, log, about))
        try:
            process.start()
        except (AttributeError, TypeError) as error:
            raise TaskRefused(f"an argument cannot be sent to a process: {error}") from error
        return process

    look = functools.partial(find_run, about, data_dir, name)
    return Task(TaskResult(name, seed, settings=settings), look, start)


def _complete_arguments(thunk: Thunk, given: Entries, run: Path, name: str) -> Entries:
    """Return all arguments: `logger_kwargs` and `env_fn` are added if the function takes them."""
    signature = inspect.signature(thunk)
    if "logger_kwargs" in signature.parameters:
        given.setdefault("logger_kwargs", {"output_dir": str(run), "exp_name": name})
    if "env_fn" in signature.parameters and "env_name" in given:
        import gymnasium

        given["env_fn"] = functools.partial(gymnasium.make, given.pop("env_name"))
    try:
        signature.bind(**given)
    except TypeError as error:
        raise TaskRefused(f"cannot call {thunk.__name__}{signature}: {error}") from error
    return given


def _call(thunk: Thunk, given: Entries, run: Path, log: Path, about: Entries) -> None:
    """Call a function in this process, and write its status to the folder of its run."""
    os.setsid()  # the sweep passes Ctrl-C on, once
    die_with_parent()
    with log.open("ab") as file:
        for stream in (1, 2):
            os.dup2(file.fileno(), stream)
    with safe_files.lock_folder(run):
        state = {"started": time.strftime("%Y-%m-%d %H:%M:%S"), "task": about}
        status.write_status(run, state | {"status": "running"})
        try:
            value = thunk(**given)
        except BaseException as error:
            reason = re.sub(r"\s+", " ", f"{type(error).__name__}: {error}")
            status.write_status(run, state | {"status": "failed", "reason": reason})
            raise
        score = {"score": float(value)} if isinstance(value, int | float) else {}
        if not all(map(math.isfinite, score.values())):
            reason = f"{thunk.__name__} returned {value}, which is not a finite number"
            status.write_status(run, state | {"status": "failed", "reason": reason})
            sys.exit(errors.NOT_FINITE)
        status.write_status(run, state | {"status": "done"} | score)
