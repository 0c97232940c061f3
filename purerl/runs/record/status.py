"""The status of runs and the user's defaults. This module does not import JAX.

A run's `status.json` contains versions, machine, command, status and step. Older runs have a
`manifest.json` instead, which the first write replaces.
"""

import contextlib
import fcntl
import hashlib
import json
import math
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from purerl.algos import NAMES
from purerl.errors import ConfigError, Damaged
from purerl.runs.console import quote_words
from purerl.runs.record import files, safe_files

STATUS, OLD_STATUS = "status.json", "manifest.json"
USER_FILE = "~/.config/purerl.json"
PARTS = ("checkpoints", "replay")  # folders inside a run; they hold no runs
MAX_CONFIG = 2**20  # bytes
MAX_REASON = 10_000  # characters of the reason in a status
DEFAULTS = {"data_dir": "runs", "datestamp": False}


class RunStatus(NamedTuple):
    """A run as `purerl list runs` shows it."""

    path: Path
    algo: str
    env: str
    seed: int
    status: str  # running, done, stopped, failed, killed; damaged or unknown without a valid file
    step: int
    steps: int
    score: float | None
    reason: str


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON file that contains an object."""
    try:
        content = json.loads(files.read_text(path, MAX_CONFIG))
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path} is not valid JSON: {error}") from error
    if not isinstance(content, dict):
        raise ConfigError(f"{path} must contain a JSON object, got {type(content).__name__}.")
    return content


def read_user_defaults() -> dict[str, Any]:
    """Return the default `data_dir` and `datestamp` of the user.

    `PURERL_DATA_DIR` and `PURERL_DATESTAMP` (0 or 1) come first, then the file `PURERL_CONFIG` or
    else `~/.config/purerl.json`, then `DEFAULTS`.
    """
    path = Path(os.path.expanduser(os.environ.get("PURERL_CONFIG", USER_FILE)))
    given = read_json(path) if path.exists() else {}
    for name, value in given.items():
        if type(value) is not type(DEFAULTS.get(name)):
            raise ConfigError(
                f"{path} may only contain data_dir (text) and datestamp (true or false), got "
                f"{name!r}: {value!r}."
            )
    found: dict[str, Any] = DEFAULTS | given
    stamp = os.environ.get("PURERL_DATESTAMP") or str(int(found["datestamp"]))
    if stamp not in ("0", "1"):
        raise ConfigError(f"PURERL_DATESTAMP must be 0 or 1, got {stamp!r}.")
    data_dir = os.environ.get("PURERL_DATA_DIR", found["data_dir"])
    return {"data_dir": data_dir, "datestamp": stamp == "1"}


def expand_home(path: str) -> Path:
    """Return a path with `~` replaced by the user's home folder."""
    try:
        return Path(path).expanduser()
    except RuntimeError as error:
        raise ConfigError(
            f"{path} has no meaning, because there is no such home folder. Set HOME, or give the "
            f"path without ~."
        ) from error


def read_status(run: Path) -> dict[str, Any]:
    """Return the entries of a run's status file; empty if it is missing or was changed."""
    content = _read_first(run, (STATUS, OLD_STATUS, STATUS))  # a writer replaces the old one
    return content if content.pop("sha256", None) == hash_status(content) else {}


def is_damaged(run: Path) -> bool:
    """Return whether a run has a status file that was changed or cannot be read."""
    there = any(os.path.lexists(run / name) for name in (STATUS, OLD_STATUS))
    return there and not read_status(run)


def _read_first(run: Path, names: Sequence[str]) -> dict[str, Any]:
    """Return the content of the first file that exists; empty if there is none or it is damaged."""
    for name in names:
        try:
            return read_json(run / name)
        except ConfigError:
            return {}
        except Damaged:
            if os.path.lexists(run / name):
                return {}
    return {}


def read_settings(run: Path) -> dict[str, Any]:
    """Return the settings of a run: its `config.json`, or the task of a sweep over a function.

    Such a function may write its own `config.json`, as Spinning Up's loggers do.
    """
    task = read_status(run).get("task")
    return task if isinstance(task, dict) else read_json(run / "config.json")


def write_status(run: Path, content: dict[str, Any]) -> None:
    """Write the status file of a run, with a checksum of its entries; shorten a long reason."""
    if len(reason := str(content.get("reason", ""))) > MAX_REASON:
        content = content | {"reason": f"{reason[:MAX_REASON]} ..."}
    files.write_json(run / STATUS, content | {"sha256": hash_status(content)}, indent=2)
    if (run / OLD_STATUS).is_file():
        files.remove(run / OLD_STATUS)


def hash_status(content: dict[str, Any]) -> str:
    """Return the checksum of the other entries of a status file."""
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()


CALLS = {
    "resume": "in Python: purerl.runs.training.train.resume(pathlib.Path({run!r}), {parts})",
    "resume_together": "in Python: purerl.runs.training.train.resume_together({runs}, {parts})",
    "watch": "in Python: purerl.load({run!r}, {parts}).video()",
    "doctor": "in Python: purerl.runs.training.diagnosis.diagnose(pathlib.Path({run!r}), {parts})",
}


def format_command(verb: str, *runs: Path, steps: int | None = None, ranks: Any = None) -> str:
    """Return the shell command for a run, or for several that continue in one program.

    If the run has custom parts that no command can restore, return a call in Python. `steps` is a
    new total. `ranks` defaults to the number in the status of the run.
    """
    run, paths = runs[0], [*runs]
    if runs[1:] and {one.path for one in list_runs(run.parent)} == {*runs}:
        paths = [run.parent]
    words = [f"./{x}" if str(x).startswith("-") else str(x) for x in paths]  # or it would be a flag
    words = ["purerl", verb, *words, *(["--together"] if runs[1:] else [])]
    words += ["--steps", str(steps)] if steps else []
    ranks = ranks or read_status(run).get("ranks", 1)
    several = ranks != 1 and verb == "resume"
    with contextlib.suppress(ConfigError, Damaged):
        config = read_json(run / "config.json")
        if verb in CALLS and (parts := list_custom_parts(config)):
            parts += [f"steps={steps}"] if steps else []
            call = CALLS[f"{verb}_together" if runs[1:] else verb]
            call = call.format(run=str(run), runs=[*map(str, runs)], parts=", ".join(parts))
            return call.replace(":", f" on {ranks} ranks:", 1) if several else call
        env, algo = (str(config.get(name, "")) for name in ("env", "algo"))
        words += ["--env", env] if verb != "plot" and imports_module(env) else []
        words += ["--algo", algo] if algo not in ("", *NAMES) and verb != "plot" else []
    words += ["--num-cpu", str(ranks)] if several else []
    return quote_words(words)


def list_custom_parts(config: dict[str, Any]) -> list[str]:
    """Return the arguments with which Python must give what `config.json` cannot contain."""
    env, algo, spec = (config.get(name, "") for name in ("env", "algo", "spec"))
    found = [] if is_id(str(env)) else ["env_fn=..."]
    if isinstance(spec, dict) and any(isinstance(value, dict) for value in spec.values()):
        found.append("spec=...")
    if str(algo).partition(".")[0] in ("custom", "__main__"):
        found.append("algo=...")
    return found


def is_id(env: str) -> bool:
    """Return whether Gymnasium or purerl makes an environment of this name, here or elsewhere."""
    from gymnasium import error  # here for start-up time
    from gymnasium.envs import registration

    from purerl.envs.registration import lacks_robotics, register_env

    if ":" in env and not imports_module(env):
        return True
    env = register_env(env)
    if lacks_robotics(env):  # another process may have it
        return True
    try:
        space, name, version = registration.parse_env_id(env)
    except error.Error:
        return ":" in env
    if version is None and registration.find_highest_version(space, name) is not None:
        return True
    return ":" in env or env in registration.registry


def imports_module(env: str) -> bool:
    """Return whether an id has the form `module:Id`, unlike `jax:CartPole-v1`."""
    from purerl.envs.names import is_jax_name  # here for start-up time

    return ":" in env and not is_jax_name(env)


def list_runs(data_dir: Path) -> Iterator[RunStatus]:
    """Yield the status of each run below a folder; ignore folders that vanish meanwhile."""
    folders = []
    for folder, inner, names in os.walk(data_dir):
        if "config.json" in names:
            folders.append(Path(folder))
            inner[:] = [name for name in inner if name not in PARTS]
    for path in sorted(folders):
        # A `config.json` of another program is not a run.
        with contextlib.suppress(Damaged, KeyError, TypeError, ValueError, OverflowError):
            yield read_run(path)


def read_run(run: Path) -> RunStatus:
    """Return the status of a run; raise `Damaged` or another error if the folder is not a run."""
    config, state = read_settings(run), read_status(run)
    if state.get("status") == "running" and not is_running(run):
        state = read_status(run)  # it may have ended since
        if state.get("status") == "running":
            state["status"] = "killed"
    algo, env, seed = str(config["algo"]), str(config["env"]), int(config["seed"])
    found, reason = str(state.get("status", "unknown")), str(state.get("reason", ""))
    if not state and is_damaged(run):
        found = "damaged"
    step, total = int(state.get("step", 0)), int(state.get("steps", config["schedule"]["steps"]))
    score = float(math.nan if state.get("score") is None else state["score"])
    known = score if math.isfinite(score) else None
    return RunStatus(run, algo, env, seed, found, step, total, known, reason)


def is_running(run: Path) -> bool:
    """Return whether a process holds the lock of a run."""
    try:
        with safe_files.open_file(run / ".lock") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except Damaged as error:  # locked, or without a lock file
        return isinstance(error.__cause__, BlockingIOError)
    return False


def find_run(given: Path) -> Path:
    """Return the run that a path or a short name matches; refuse one that matches several.

    The path is a run, a folder that contains one run, or the beginning of such a path in the data
    folder, but `x_s1` is not the beginning of `x_s10`. If nothing is found, return the path.
    """
    if (given / "config.json").exists():
        return given
    home = expand_home(read_user_defaults()["data_dir"])
    for place in (given, home / given):
        if (place / "config.json").exists():
            return place
        found = [one.path for one in list_runs(place)]
        if not found and place != given and place.parent.is_dir():
            no_digit = r"(?!\d)" if place.name[-1:].isdigit() else ""
            begins = re.compile(re.escape(place.name) + no_digit)
            folders = [path for path in place.parent.iterdir() if begins.match(path.name)]
            found = [one.path for folder in folders for one in list_runs(folder)]
        found.sort()
        if len(found) > 1:
            several = ", ".join(map(str, found[:5])) + (", ..." if len(found) > 5 else "")
            raise ConfigError(f"{given} matches {len(found)} runs: {several}. Choose one of them.")
        if found:
            return found[0]
    return given


def read_devices(folder: Path) -> int:
    """Read the number of devices of a run from its `config.json`."""
    schedule = read_config(folder).get("schedule")
    return schedule.get("devices", 1) if isinstance(schedule, dict) else 1


def read_config(folder: Path) -> dict[str, Any]:
    """Read the `config.json` of a run; for other folders, raise an error that suggests runs."""
    if (folder / "config.json").is_file():
        try:
            return read_json(folder / "config.json")
        except Damaged as error:
            raise ConfigError(f"{folder} is not a run: {error}") from error
    hint = ""
    if below := [str(one.path) for one in list_runs(folder)]:
        hint = f" It contains these runs: {', '.join(below[:5])}."
    else:
        with contextlib.suppress(ConfigError, Damaged):  # errors in the user's defaults
            data_dir = expand_home(read_user_defaults()["data_dir"])
            runs = [one.path for one in list_runs(data_dir)]
            meant = [str(run) for run in runs if folder.name in (run.name, run.parent.name)]
            hint = f" Did you mean {' or '.join(meant[:5])}?" if meant else ""
    reason = "it has no config.json" if folder.exists() else "there is no such folder"
    raise ConfigError(f"{folder} is not a run: {reason}.{hint or ' purerl list runs shows all.'}")
