"""Tasks of a sweep: algorithms by `purerl train` and `resume`, and functions of the user."""

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
    """Return the task of one run of an algorithm.

    Its process reads the configuration from the folder of the sweep: `base`, and above it the
    variant's settings. If they are refused, starting the task fails.
    """
    name, seed, settings = variant
    data_dir = _choose_folder(sweep, name)
    complete: dict[str, Any] = {}
    refused = ""
    try:
        content = aliases.build_configuration(algo, settings, base) | {"seed": seed, "name": name}
        complete = complete_config(content, algo)
    except ConfigError as error:
        refused = str(error)

    def start(log: Path, unfinished: RunStatus | None) -> Process:
        if refused:
            raise TaskRefused(refused.replace("\n", "; "))
        env = complete["env"]
        ranks = [] if plan.num_cpu == 1 else [f"--num-cpu={plan.num_cpu}"]
        if unfinished is not None:
            typed = [f"--env={env}"] if ":" in env else []
            typed += [] if isinstance(algo, str) else [f"--algo={algos.get_name(algo)}"]
            words = ["resume", *typed, *ranks, "--", str(unfinished.path)]
        else:
            path = sweep / "configs" / f"{name}_s{seed}.json"
            files.make_folder(path.parent)
            files.write_json(path, content)
            words = [
                "train",
                algos.get_name(algo),
                f"--config={path}",
                f"--env={env}",
                f"--seed={seed}",
            ]
            words += [f"--data-dir={data_dir}", *ranks]
            words += ["--datestamp" if plan.datestamp else "--no-datestamp"]
        with log.open("ab") as output:
            return subprocess.Popen(
                [sys.executable, "-m", "purerl", *words],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
                start_new_session=True,  # Ctrl-C comes from us, once
                preexec_fn=die_with_parent,
            )

    look = functools.partial(find_run, complete, data_dir, name)
    return Task(TaskResult(name, seed, settings=settings), look, start)


def complete_config(content: dict[str, Any], algo: Any) -> dict[str, Any]:
    """Return the `config.json` of a run with placeholder spaces, or raise `ConfigError`."""
    spaces = config.make_placeholder_spaces(algo)
    found = config.from_json(content, spaces=spaces, custom=algo)
    environments.check_available(found.env)
    return config.to_json(found)


def find_run(complete: dict[str, Any], data_dir: Path, name: str) -> RunStatus | None:
    """Find the run of a configuration: one that is done, else the one that got furthest."""
    same = {"spaces": None}  # those of a run are read from its environment
    order = {"done": 3, "running": 2, "stopped": 1, "killed": 1}
    found = {
        (order.get(one.status, 0), one.step, one.path.stat().st_mtime_ns): one
        for parent in data_dir.glob(f"*{glob.escape(name)}")
        for one in status.list_runs(parent)
        if status.read_settings(one.path) | same == complete | same
    }
    return found[max(found)] if found else None


def _choose_folder(sweep: Path, name: str) -> Path:
    """Return the folder above `name/name_s<seed>`; a run with the sweep's name is in its folder."""
    return sweep.parent if name == sweep.name else sweep


# --- functions of the user -----------------------------------------------------------------------


def make_function_task(thunk: Thunk, variant: Variant, sweep: Path, plan: Plan) -> Task:
    """Return the task of one call of a function, `thunk(seed=seed, **settings)`.

    A number that it returns is the score. A function that was stopped is called again.
    """
    word = getattr(thunk, "__qualname__", "")
    if not callable(thunk) or not word or "<" in word:
        raise TypeError(
            f"a process can only import a function at the top of a module, with `def`: no lambda, "
            f"no function inside of another, got {thunk!r}."
        )
    if plan.num_cpu != 1:
        raise ValueError("num_cpu is for algorithms; a function calls purerl.mpi.fork itself.")
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
        if unfinished is not None:  # so that another run may take its place
            failed = {"status": "failed", "reason": "ended before its first checkpoint"}
            status.write_status(unfinished.path, status.read_status(unfinished.path) | failed)
        run = folder.create_folder(about, str(data_dir), plan.datestamp)
        given = _complete_arguments(thunk, settings | {"seed": seed}, run, name)
        context = multiprocessing.get_context("spawn")
        process = context.Process(target=_call, args=(thunk, given, run, log, about))
        try:
            process.start()
        except (AttributeError, TypeError) as error:
            raise TaskRefused(f"an argument cannot be handed to a process: {error}") from error
        return process

    look = functools.partial(find_run, about, data_dir, name)
    return Task(TaskResult(name, seed, settings=settings), look, start)


def _complete_arguments(thunk: Thunk, given: Entries, run: Path, name: str) -> Entries:
    """Return the arguments of a function, with Spinning Up's two extras if it has parameters."""
    signature = inspect.signature(thunk)
    if "logger_kwargs" in signature.parameters:
        given.setdefault("logger_kwargs", {"output_dir": str(run), "exp_name": name})
    if "env_fn" in signature.parameters and "env_name" in given:
        import gymnasium

        given["env_fn"] = functools.partial(gymnasium.make, given.pop("env_name"))
    try:
        signature.bind(**given)
    except TypeError as error:
        raise TaskRefused(f"{thunk.__name__}{signature}: {error}") from error
    return given


def _call(thunk: Thunk, given: Entries, run: Path, log: Path, about: Entries) -> None:
    """Call a function in its own process, and keep its status in the folder of its run."""
    os.setsid()  # Ctrl-C comes from the sweep, once
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
            reason = f"{thunk.__name__} gave {value}"
            status.write_status(run, state | {"status": "failed", "reason": reason})
            sys.exit(errors.NOT_FINITE)
        status.write_status(run, state | {"status": "done"} | score)
