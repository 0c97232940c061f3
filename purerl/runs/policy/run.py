"""Trained runs in Python: policy, logged numbers, evaluation, video and export.

    run = purerl.load("runs/pendulum-v1-sac/pendulum-v1-sac_s0", "best")
    act = run.policy(obs)  # for env.step
    run.evaluate(episodes=20).mean

Loading reads the learner of a checkpoint and the spaces in `config.json`. It creates no replay
buffer and no environment, and nothing in the folder can execute code.
"""

import csv
import dataclasses
import os
import typing
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np

from purerl import algos
from purerl.errors import ConfigError, Damaged
from purerl.loops import choose_loop, devices
from purerl.loops.adapters.goals import flatten_obs
from purerl.loops.adapters.in_jax import is_jax_env
from purerl.runs.policy import evaluation, export, video
from purerl.runs.record import checkpoint as checkpoints
from purerl.runs.record import checkpoint_folders, files, progress, status
from purerl.runs.settings import aliases, environments, presets
from purerl.runs.settings import config as configs
from purerl.runs.training import train as training
from purerl.runs.training.progress_bar import Screen
from purerl.runs.training.saving import describe_run
from purerl.spaces import Box

NOT_ABOUT_POLICIES = ("schedule", "ranks")  # entries of a checkpoint that no policy depends on


@dataclasses.dataclass(frozen=True, eq=False)
class Run:
    """A run and the parameters of one of its checkpoints."""

    folder: Path
    config: configs.Config = dataclasses.field(repr=False)
    step: int  # environment steps at the checkpoint
    params: Any = dataclasses.field(repr=False)
    env_fn: Callable[[], Any] | None = None  # makes the environment, if its id cannot
    skipped: tuple[str, ...] = ()  # for each newer checkpoint, why it was not used
    state: Any = dataclasses.field(default=None, repr=False)  # State of the learner

    @property
    def algo(self) -> ModuleType:
        """Module of the algorithm."""
        return self.config.module

    @property
    def status(self) -> str:
        """State of the run: running, done, stopped, failed or killed."""
        try:
            return status.read_run(self.folder).status
        except (Damaged, KeyError, TypeError, ValueError, OverflowError):
            return "unknown"

    @property
    def metrics(self) -> dict[str, np.ndarray]:
        """Columns of `progress.txt`: one number per epoch, NaN for an empty cell."""
        path = self.folder / "progress.txt"
        checkpoint_folders.check_header(path)
        return _read_columns(path, "\t")

    @property
    def episodes(self) -> dict[str, np.ndarray]:
        """Columns of `episodes.csv`: one entry per episode; `kind` is `train` or `test`.

        `step` is the environment step at the end of the episode's epoch.
        """
        return _read_columns(self.folder / "episodes.csv", ",")

    def policy(self, obs: Any, key: jax.Array | None = None) -> Any:
        """Return actions for `env.step`: deterministic, or exploratory if a key is given.

        Args:
            obs: One observation `[*obs_shape]`, or several `[..., *obs_shape]`. In an environment
                with goals also a dict as it returns one.
            key: Typed key such as `jax.random.key(0)`; use a new one for each call.

        Returns:
            One action (an `int` if actions are Discrete), or an array with an action per row.
        """
        env = self.params.spec.env
        if isinstance(obs, Mapping) and env.goal_size:
            obs, _ = flatten_obs(obs, env)
        obs = np.asarray(obs)
        env.check_obs(obs)
        if not np.can_cast(obs.dtype, env.obs_dtype, "same_kind"):
            raise ValueError(f"obs must be of dtype {env.obs_dtype}, got {obs.dtype}.")
        obs = obs.astype(env.obs_dtype, copy=False)
        if key is None:
            act = self.algo.policy(self.params, obs)
        else:
            act = self.algo.act(self.params, obs, key)
        if isinstance(env.action, Box):
            return np.asarray(env.clip(np.asarray(act)))
        return int(act) if act.ndim == 0 else np.asarray(act, np.int64)

    def evaluate(
        self,
        episodes: int = 10,
        seed: int = 10_000,
        deterministic: bool = True,
        max_ep_len: int | None = None,
    ) -> evaluation.Evaluation:
        """Play episodes in new environments; the same seed gives the same episodes.

        Args:
            episodes: Number of episodes.
            seed: Seed of the episodes and of exploration.
            deterministic: Whether to act without exploration.
            max_ep_len: Maximum length of an episode in steps; None for the limit of training, 0
                for the environment's own limit.
        """
        if max_ep_len is None:
            max_ep_len = self.config.schedule.max_ep_len
        how = (seed, 0, episodes, max_ep_len or None, deterministic)
        names = progress.list_logged_success(self.folder)
        chosen = self._choose_env_fn()
        env = chosen.env if isinstance(chosen, environments.JaxMaker) else self.make_env_fn()
        try:
            loop = choose_loop(env)
            found = loop.evaluate(self.algo, self.params, env, *how, log_info=names)
        except ValueError as error:
            raise ConfigError(str(error)) from error
        values = (found[f"test_{what}"] for what in ("returns", "lengths", *names))
        return evaluation.summarise_episodes(*values)

    def video(self, path: str | Path | None = None, **how: Any) -> Path:
        """Record episodes to a GIF or MP4 file and return its path; see `video.record_video`."""
        return video.record_video(self, path, **how)[0]

    def export(self, form: str = "numpy", folder: str | Path | None = None) -> Path:
        """Export the policy to a folder that works without purerl; see `export.export_policy`."""
        return export.export_policy(self, form, folder)

    def make_env_fn(self) -> Callable[..., Any]:
        """Return a function that makes the environment, or raises `ConfigError` with the cause."""
        env, env_fn = self.config.env, self._choose_env_fn()

        def make(**options: Any) -> Any:
            try:
                return env_fn(**options)
            except (gymnasium.error.Error, ImportError) as error:
                unknown = isinstance(error, gymnasium.error.UnregisteredEnv)
                hint = " If training used a function, pass it again as env_fn." if unknown else ""
                raise ConfigError(f"environment {env}: {error}{hint}") from error

        return make

    def _choose_env_fn(self) -> Callable[..., Any]:
        env = self.config.env
        given = self.env_fn or environments.make_env_fn_of_file(env)
        return environments.choose_env_fn(given, env, self.config.options.wrapper)


def load(
    path: str | Path,
    checkpoint: str | int = "last",
    env_fn: Callable[[], Any] | None = None,
    spec: Any = None,
    say: Callable[[str], None] = warnings.warn,
    algo: Any = None,
) -> Run:
    """Load a run with the policy of one of its checkpoints.

    Args:
        path: Folder of the run.
        checkpoint: `last` (the newest complete one), `best`, or the step of a checkpoint.
        env_fn: Function that makes the environment, if its id cannot.
        spec: The run's Spec if it has custom networks, which no file can restore.
        say: Function that is called for each checkpoint that is skipped, with the reason.
        algo: Module of the run's algorithm if it is custom, because no file may import it.

    Raises:
        ConfigError: if the folder is not a run, or its configuration cannot be used.
        NoCheckpoint: if no checkpoint can be used.
    """
    devices.check_platform()
    env_fn = environments.JaxMaker(env_fn) if is_jax_env(env_fn) else env_fn
    folder = Path(path)
    content = status.read_config(folder)
    spaces = configs.parse_spaces(content["spaces"]) if "spaces" in content else None
    config = configs.from_json(content, env_fn, spec, spaces, algo)
    about = {k: v for k, v in describe_run(config).items() if k not in NOT_ABOUT_POLICIES}
    shapes = jax.eval_shape(lambda: config.module.init(jax.random.key(0), config.spec))
    pairs, tree = jax.tree_util.tree_flatten_with_path(shapes)
    wanted = {jax.tree_util.keystr(leaf): x for leaf, x in pairs}
    found = checkpoints.load_learner(folder, about, wanted, checkpoint)
    for why in found.skipped:
        say(f"skipped a checkpoint: {why}")
    state = jax.tree.unflatten(tree, [jnp.asarray(found.frozen.learner[name]) for name in wanted])
    return Run(folder, config, found.step, state.params, env_fn, found.skipped, state)


@typing.overload
def train(algo: str | Any, env: Any, *, seeds: Sequence[int], **settings: Any) -> list[Run]: ...


@typing.overload
def train(algo: str | Any, env: Any, *, seeds: None = None, **settings: Any) -> Run: ...


def train(
    algo: str | Any,
    env: Any,
    *,
    seed: int | None = None,
    seeds: Sequence[int] | None = None,
    name: str | None = None,
    env_name: str | None = None,
    data_dir: str | None = None,
    datestamp: bool | None = None,
    quiet: bool = False,
    preset: str | None = None,
    eval_env_fn: Callable[[], Any] | None = None,
    on_record: Callable[[dict[str, Any]], Any] | None = None,
    **settings: Any,
) -> Any:
    """Train in a new folder and return the run, as `purerl train` does.

    With `seeds`, one program trains several runs, each in its own folder, and they are returned as
    a list.

    Args:
        algo: Name of an algorithm, or the module of a custom one.
        env: Gymnasium id or a name such as `jax:CartPole-v1`; a function that makes the
            environment; or an environment in JAX.
        seed: Integer in 0 .. 2**32 - 1; None for 0.
        seeds: Several seeds instead of one.
        name: Name of the run; None for environment and algorithm.
        env_name: Name of an environment given as a function; None for the function's name. If it
            is a Gymnasium id, commands and `purerl.load` make the environment of that id.
        data_dir: Folder of all runs; None for the user's default, else `runs`.
        datestamp: Whether folder names begin with the date; None for the user's default.
        quiet: Whether to print nothing.
        preset: Name of a preset, or `none`; None for that of the environment `env`, if it has one.
        eval_env_fn: Function that makes the environment of the test episodes; None for `env`.
        on_record: Function that is called with the record of each epoch, a dict of numbers with
            the seed.
        **settings: Fields of the algorithm's `Spec` (also networks), of its schedule, and of
            `purerl.runs.settings.config.Options`.
    """
    env_fn: Any
    if is_jax_env(env):
        env_fn, word = environments.JaxMaker(env), str(env_name or f"{type(env).__name__}()")
    elif callable(env):
        env_fn, word = env, str(env_name or getattr(env, "__name__", "env"))
        if env_name is None and status.is_id(word):
            word += "()"  # otherwise commands would make Gymnasium's environment of this name
    elif isinstance(env, str):
        env_fn, word = environments.make_env_fn(env), env
    else:
        raise ConfigError(
            f"env must be a Gymnasium id, a function that makes the environment, such as "
            f"lambda: gymnasium.make('CartPole-v1'), or an environment in JAX, got {env!r}."
        )
    if seeds is not None and (seed is not None or not len(seeds)):
        raise ConfigError(f"give either seed or at least one of seeds, got {seed} and {seeds!r}.")
    several = [seed or 0] if seeds is None else [*seeds]
    algo = algos.load(algo)
    given = {"algo": algos.get_name(algo), "env": word, "seed": several[0]}
    given |= {"name": name} if name else {}
    chosen = presets.choose_preset(given["algo"], env, preset)
    tuned = _sort_settings(algo, chosen.settings) if chosen else {}
    parts = {
        part: tuned.get(part, {}) | own for part, own in _sort_settings(algo, settings).items()
    }
    config = configs.from_json(parts | given, env_fn, custom=algo)
    outcomes = training.train_together(
        [dataclasses.replace(config, seed=one) for one in several],
        env_fn,
        Screen(quiet=quiet),
        eval_env_fn=eval_env_fn,
        on_record=on_record,
        notes=[presets.describe_preset(chosen, settings)] if chosen else (),
        data_dir=data_dir,
        datestamp=datestamp,
    )
    runs = []
    for outcome in outcomes:
        state = devices.unreplicate(outcome.carry.learner)
        rest = (outcome.step, state.params, None if isinstance(env, str) else env_fn)
        runs.append(Run(outcome.run, outcome.config, *rest, state=state))
    return runs[0] if seeds is None else runs


def _sort_settings(algo: Any, settings: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Group settings by the part of the configuration that they belong to."""
    sources = configs.get_sources(algo)
    parts = {x.name: part for part, cls in sources.items() for x in dataclasses.fields(cls)}
    del parts["env"]
    other = {k: v for k, v in aliases.SYNONYMS.items() if v in parts and k not in parts}
    if twice := [other[name] for name in settings if other.get(name) in settings]:
        raise ConfigError(f"{twice[0]} is given twice, also under another name.")
    settings = {other.get(name, name): value for name, value in settings.items()}
    for name in settings:
        if name not in parts:
            hint = aliases.suggest(name, parts) or f" Choose from {', '.join(parts)}."
            raise ConfigError(f"{algos.get_name(algo)} has no setting {name!r}.{hint}")
    return {part: {k: v for k, v in settings.items() if parts[k] == part} for part in sources}


def _read_columns(path: Path, delimiter: str) -> dict[str, np.ndarray]:
    """Read the columns of a table, without an incomplete last line."""
    try:
        columns = zip(*csv.reader(files.read_lines(path), delimiter=delimiter), strict=True)
        return {name: _parse_numbers(cells) for name, *cells in columns}
    except Damaged:
        if os.path.lexists(path):
            raise
        return {}
    except csv.Error as error:
        raise Damaged(f"{path} is not a table: {error}.") from error
    except ValueError as error:
        raise Damaged(f"{path} has rows that are longer or shorter than its header.") from error


def _parse_numbers(cells: list[str]) -> np.ndarray:
    """Return cells as numbers (NaN if empty), or as strings if any cell is not a number."""
    try:
        return np.array([cell or "nan" for cell in cells], float)
    except ValueError:
        return np.array(cells)
