"""What a sweep starts: algorithms by `purerl train` and `resume`, and functions of the user."""

import functools
import glob
import inspect
import json
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

from purerl import errors
from purerl.errors import ConfigError, TaskRefused
from purerl.mpi.launch import die_with_parent
from purerl.runs.record import files, safe_files, status
from purerl.runs.record import folder as folders
from purerl.runs.record.files import to_json, write_json
from purerl.runs.settings import config as configs
from purerl.runs.settings import environments, names
from purerl.runs.sweeps.jobs import Plan, Process, Task, Variant, limit_threads

UNFINISHED = ("stopped", "killed")


def make_algorithm_task(
    algo: str,
    variant: Variant,
    folder: Path,
    data_dir: Path,
    plan: Plan,
    base: Mapping[str, Any] | None = None,
) -> Task:
    """Return the task of one run of an algorithm.

    Args:
        algo: name of the algorithm.
        variant: name, seed and settings as `names.build_configuration` takes them.
        folder: folder of the sweep, for the configuration that the process reads.
        data_dir: the run is in `data_dir/name/name_s<seed>`.
        plan: how the run is started.
        base: configuration below the settings.
    """
    name, seed, settings = variant
    complete: dict[str, Any] = {}
    refused = ""
    try:
        content = names.build_configuration(algo, settings, base) | {"seed": seed, "name": name}
        complete = complete_config(content)
    except ConfigError as error:
        refused = str(error)
    look = functools.partial(find_run, complete, data_dir, name)

    def start(log: Path) -> Process:
        if refused:
            raise TaskRefused(refused.replace("\n", "; "))
        env = complete["env"]
        ranks = [] if plan.num_cpu == 1 else [f"--num-cpu={plan.num_cpu}"]
        found = look()
        if found is not None and found.status in UNFINISHED:
            typed = [f"--env={env}"] if ":" in env else []
            words = ["resume", *typed, *ranks, "--", str(found.path)]
        else:
            path = folder / "configs" / f"{name}_s{seed}.json"
            files.make_folder(path.parent)
            write_json(path, content)
            words = ["train", algo, f"--config={path}", f"--env={env}", f"--seed={seed}"]
            words += [f"--data-dir={data_dir}", *ranks]
            words += ["--datestamp" if plan.datestamp else "--no-datestamp"]
        return _launch(words, log, plan.threads)

    return Task(name, seed, dict(settings), look, start)


def _launch(words: list[str], log: Path, threads: int) -> Process:
    """Start a command of `purerl` in a session of its own."""
    paths = os.pathsep.join(path for path in sys.path if path)
    with limit_threads(threads), log.open("ab") as output:
        return subprocess.Popen(
            [sys.executable, "-m", "purerl", *words],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=os.environ | {"PYTHONPATH": paths},
            start_new_session=True,  # Ctrl-C comes from us, once
            preexec_fn=die_with_parent,
        )


def complete_config(content: dict[str, Any]) -> dict[str, Any]:
    """Return the `config.json` of a run without its spaces; no environment is made.

    Raises:
        ConfigError: with all mistakes.
    """
    found = configs.from_json(content, spaces=configs.make_placeholder_spaces(content["algo"]))
    environments.check_available(found.env)
    return _without_spaces(json.loads(json.dumps(configs.to_json(found))))


def find_run(complete: dict[str, Any], data_dir: Path, name: str) -> status.RunStatus | None:
    """Find the run of a configuration: one that is done, else the one that got furthest."""
    order = {"done": 3, "running": 2, "stopped": 1, "killed": 1}
    found = []
    for parent in data_dir.glob(f"*{glob.escape(name)}"):
        for one in status.list_runs(parent):
            if _without_spaces(status.read_settings(one.path)) == complete:
                found.append(one)

    def rank(one: status.RunStatus) -> tuple[int, int, int]:
        return order.get(one.status, 0), one.step, one.path.stat().st_mtime_ns

    return max(found, key=rank, default=None)


def _without_spaces(content: dict[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in content.items() if k != "spaces"}


def _give_up(run: Path) -> None:
    """Mark a run as failed that cannot be continued, so that another may take its place."""
    reason = "ended before its first checkpoint"
    status.write_status(run, status.read_status(run) | {"status": "failed", "reason": reason})


# --- functions of the user -----------------------------------------------------------------------


def make_function_task(
    thunk: Callable[..., Any], variant: Variant, data_dir: Path, plan: Plan
) -> Task:
    """Return the task of one call of a function, `thunk(seed=seed, **settings)`.

    Its run has a folder like others, passed in `logger_kwargs` if the function has that parameter.
    A number that it returns is the score. A function that was stopped is called again.

    Args:
        thunk: function at the top of a module.
        variant: name, seed and arguments, nested as `ExperimentGrid.variants` returns them.
        data_dir: the run is in `data_dir/name/name_s<seed>`.
        plan: how the function is started.
    """
    name, seed, settings = variant
    about: dict[str, Any] = {
        "algo": f"{thunk.__module__}.{thunk.__qualname__}".replace("__main__.", ""),
        "env": str(settings.get("env_name", settings.get("env", "-"))),
        "seed": seed,
        "name": name,
        "exp_name": name,
        "settings": to_json(settings),
        "schedule": {"steps": int(settings.get("steps", 0) or 0)},
    }
    look = functools.partial(find_run, about, data_dir, name)

    def start(log: Path) -> Process:
        found = look()
        if found is not None and found.status in UNFINISHED:
            _give_up(found.path)
        run = folders.create_folder(about, str(data_dir), plan.datestamp)
        given = _arguments(thunk, settings, seed, {"output_dir": str(run), "exp_name": name})
        context = multiprocessing.get_context("spawn")
        process = context.Process(target=_call, args=(thunk, given, run, log, about))
        with limit_threads(plan.threads):
            try:
                process.start()
            except (AttributeError, TypeError) as error:
                raise TaskRefused(f"an argument cannot be handed to a process: {error}") from error
        return process

    return Task(name, seed, dict(settings), look, start)


def check_function(thunk: Any) -> None:
    """Refuse a function that another process cannot import."""
    name = getattr(thunk, "__qualname__", "")
    if not callable(thunk) or not name or "<" in name:
        raise TypeError(
            f"a process can only import a function at the top of a module, with `def`: no lambda, "
            f"no function inside of another, got {thunk!r}."
        )


def _arguments(
    thunk: Callable[..., Any], settings: Mapping[str, Any], seed: int, logger: dict[str, str]
) -> dict[str, Any]:
    """Return the arguments of a function, with Spinning Up's two extras if it has parameters."""
    signature = inspect.signature(thunk)
    given = dict(settings) | {"seed": seed}
    if "logger_kwargs" in signature.parameters:
        given.setdefault("logger_kwargs", logger)
    if "env_fn" in signature.parameters and "env_name" in given:
        import gymnasium

        given["env_fn"] = functools.partial(gymnasium.make, given.pop("env_name"))
    try:
        signature.bind(**given)
    except TypeError as error:
        raise TaskRefused(f"{thunk.__name__}{signature}: {error}") from error
    return given


def _call(
    thunk: Callable[..., Any], given: dict[str, Any], run: Path, log: Path, about: dict[str, Any]
) -> None:
    """Call a function in its own process, and keep its status in the folder of its run."""
    os.setsid()  # Ctrl-C comes from the sweep, once
    die_with_parent()
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    for stream in (1, 2):
        os.dup2(file, stream)
    with safe_files.lock_folder(run):
        state = {"started": time.strftime("%Y-%m-%d %H:%M:%S"), "task": about}
        status.write_status(run, state | {"status": "running"})
        try:
            value = thunk(**given)
        except BaseException as error:
            reason = re.sub(r"\s+", " ", f"{type(error).__name__}: {error}")
            status.write_status(run, state | {"status": "failed", "reason": reason})
            raise
        if not isinstance(value, int | float):
            status.write_status(run, state | {"status": "done"})
        elif math.isfinite(value):
            status.write_status(run, state | {"status": "done", "score": float(value)})
        else:
            reason = f"{thunk.__name__} gave {value}"
            status.write_status(run, state | {"status": "failed", "reason": reason})
            sys.exit(errors.NOT_FINITE)
