"""A trained run in Python: its policy, its numbers, evaluation, video, export.

    run = purerl.train("sac", "Pendulum-v1", steps=20_000)
    run = purerl.load("runs/pendulum-v1-sac/pendulum-v1-sac_s0", "best")
    act = run.policy(obs)                      # what env.step takes
    run.evaluate(episodes=20).mean
    run.video("swing.gif")

A policy is read from the learner's part of a checkpoint and the spaces in `config.json`: no replay
memory and no environment is made, and nothing in the folder can execute code.
"""

import csv
import dataclasses
import difflib
import math
import warnings
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np

from purerl import algos, errors
from purerl.cli import run_arguments
from purerl.errors import ConfigError
from purerl.loops import devices
from purerl.runs.policy import evaluation, export, video
from purerl.runs.record import checkpoint as checkpoints
from purerl.runs.record import files, manifest
from purerl.runs.record import status as places
from purerl.runs.settings import config as configs
from purerl.runs.settings.config import Config, Options
from purerl.runs.training import train as training
from purerl.runs.training.progress_bar import Screen
from purerl.runs.training.saving import describe_run
from purerl.spaces import Discrete

NOT_ABOUT_POLICIES = ("schedule", "ranks")  # of what checkpoints say


@dataclasses.dataclass(frozen=True, eq=False)
class Run:
    """A run and the parameters of one of its checkpoints."""

    folder: Path
    config: Config = dataclasses.field(repr=False)
    step: int  # environment steps that the parameters have learned from
    params: Any = dataclasses.field(repr=False)
    env_fn: Callable[[], Any] | None = None  # makes the environment, where its id does not
    skipped: tuple[str, ...] = ()  # why newer checkpoints were not taken

    @property
    def algo(self) -> ModuleType:
        """The module of the algorithm."""
        return algos.load(self.config.algo)

    @property
    def status(self) -> str:
        """How the run stands now: running, done, stopped, failed or killed."""
        found = [one.status for one in places.list_runs(self.folder) if one.path == self.folder]
        return found[0] if found else "unknown"

    @property
    def metrics(self) -> dict[str, np.ndarray]:
        """The columns of `progress.txt`, a number per epoch, NaN where there is none."""
        return _columns(self.folder / "progress.txt", "\t")

    @property
    def episodes(self) -> dict[str, np.ndarray]:
        """The columns of `episodes.csv`, an entry per episode; `kind` is `train` or `test`.

        `step` is where the epoch ended in which the episode did.
        """
        return _columns(self.folder / "episodes.csv", ",")

    def policy(self, obs: Any, key: jax.Array | None = None) -> Any:
        """Return what `env.step` takes: deterministic, or exploring where a key is given.

        Args:
            obs: one observation `[*obs_shape]`, or several `[..., *obs_shape]`.
            key: typed key such as `jax.random.key(0)`; another one at each call.

        Returns:
            One action, an `int` where actions are Discrete; or an array of as many as `obs` has.
        """
        env = self.params.spec.env
        obs = _convert_obs(obs, env)
        if key is None:
            act = self.algo.policy(self.params, obs)
        else:
            act = self.algo.act(self.params, obs, key)
        if isinstance(env.action, Discrete):
            return int(act) if act.ndim == 0 else np.asarray(act, np.int64)
        return np.asarray(env.clip(np.asarray(act)))

    def evaluate(
        self,
        episodes: int = 10,
        seed: int = 10_000,
        deterministic: bool = True,
        max_ep_len: int | None = None,
    ) -> evaluation.Evaluation:
        """Play episodes in environments of their own; the same seed gives the same episodes.

        Args:
            episodes: how many.
            seed: of episodes and of exploring.
            deterministic: or exploring, as in training.
            max_ep_len: cut episodes here; None as in training, 0 for the environment's own limit.
        """
        return evaluation.play_episodes(
            self, self.made(), episodes, seed, deterministic, max_ep_len
        )

    def video(self, path: str | Path | None = None, **how: Any) -> Path:
        """Play episodes into a GIF or MP4 file and return its path; see `video.save`."""
        return video.save_video(self, path, **how)

    def export(self, form: str = "numpy", folder: str | Path | None = None) -> Path:
        """Write the policy as a folder that needs no purerl; see `export.save`."""
        return export.export_policy(self, form, folder)

    def made(self) -> Callable[..., Any]:
        """Return the function that makes the environment; what it lacks is said in one line."""
        env, env_fn = self.config.env, self.env_fn or configs.make_env_fn_of_file(self.config.env)

        def make(**options: Any) -> Any:
            try:
                return env_fn(**options)
            except (gymnasium.error.Error, ImportError) as error:
                unknown = isinstance(error, gymnasium.error.UnregisteredEnv)
                hint = " If it was a function in training, give env_fn again." if unknown else ""
                raise ConfigError(f"environment {env}: {error}{hint}") from error

        return make


def load(
    path: str | Path,
    checkpoint: str | int = "last",
    env_fn: Callable[[], Any] | None = None,
    spec: Any = None,
    say: Callable[[str], None] = warnings.warn,
) -> Run:
    """Load a run with the policy of one of its checkpoints.

    Args:
        path: folder of the run.
        checkpoint: `last` for the newest that is whole, `best`, or a step.
        env_fn: makes the environment, where the id in the configuration does not.
        spec: the Spec, for networks of one's own, which no file can bring back.
        say: is told why newer checkpoints were passed over.

    Raises:
        ConfigError: if the folder is no run, or its configuration cannot be used.
        Refused: if no checkpoint can be used.
    """
    folder = Path(path)
    config = _read_config(folder, env_fn, spec)
    wanted_about = describe_run(config)
    of_policy = {name: x for name, x in wanted_about.items() if name not in NOT_ABOUT_POLICIES}
    algo = algos.load(config.algo)
    shapes = jax.eval_shape(lambda: algo.init(jax.random.key(0), config.spec))
    pairs, tree = jax.tree_util.tree_flatten_with_path(shapes)
    wanted = {jax.tree_util.keystr(leaf): x for leaf, x in pairs}
    found = checkpoints.load_learner(
        folder, of_policy, wanted, manifest.resolve_step(folder, checkpoint)
    )
    for why in found.skipped:
        say(f"passed over: {why}")
    state = jax.tree.unflatten(tree, [jnp.asarray(found.arrays[name]) for name in wanted])
    return Run(folder, config, found.step, state.params, env_fn, found.skipped)


def train(
    algo: str,
    env: str | Callable[[], Any],
    *,
    seed: int = 0,
    name: str | None = None,
    env_name: str | None = None,
    data_dir: str | None = None,
    datestamp: bool | None = None,
    quiet: bool = False,
    **settings: Any,
) -> Run:
    """Train in a new folder and return the run, as `purerl train` does.

    Args:
        algo: name of the algorithm.
        env: Gymnasium id, or a function that makes the environment.
        seed: 0 .. 2**32 - 1.
        name: of the run; None for environment and algorithm.
        env_name: of an environment that is given as a function; None for the function's own.
        data_dir: where runs are kept; None for the user's choice, else `runs`.
        datestamp: begin the names of folders with the date; None for the user's choice.
        quiet: print nothing.
        **settings: fields of the algorithm's `Spec` (networks as well), of its schedule, and of
            `purerl.runs.settings.config.Options`.
    """
    if callable(env):
        env_fn, word = env, env_name or getattr(env, "__name__", "env")
    elif isinstance(env, str):
        env_fn, word = configs.make_env_fn(env), env
    else:
        raise ConfigError(
            f"env must be an id of Gymnasium, or a function that makes the environment, as "
            f"lambda: gymnasium.make('CartPole-v1'), got {env!r}."
        )
    given = {"algo": algo, "env": word, "seed": seed} | ({"name": name} if name else {})
    config = configs.from_json(_sort_settings(algo, settings) | given, env_fn)
    screen = Screen(quiet=quiet)
    outcome = training.train(config, env_fn, screen, data_dir=data_dir, datestamp=datestamp)
    params = devices.unreplicate(outcome.carry.learner.params)
    return Run(outcome.run, config, outcome.step, params, env_fn if callable(env) else None)


def _read_config(folder: Path, env_fn: Callable[[], Any] | None, spec: Any) -> Config:
    """Read the configuration of a run; where it says the spaces, no environment is made."""
    if not (folder / "config.json").is_file():
        raise ConfigError(run_arguments.explain_no_run(folder))
    try:
        content = places.read_json(folder / "config.json")
    except errors.Damaged as error:
        raise ConfigError(str(error)) from error
    env = configs.parse_spaces(content["spaces"]) if "spaces" in content else None
    return configs.from_json(content, env_fn, spec, env)


def _sort_settings(algo: str, settings: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return settings by the dataclass they are fields of."""
    try:
        module = algos.load(algo)
    except ValueError as error:
        raise ConfigError(str(error)) from error
    sources = {"spec": module.Spec, "schedule": type(module.SCHEDULE), "options": Options}
    names = {
        field.name: part
        for part, source in sources.items()
        for field in dataclasses.fields(source)
        if field.name != "env"
    }
    found: dict[str, dict[str, Any]] = {part: {} for part in sources}
    for name, value in settings.items():
        if name not in names:
            near = difflib.get_close_matches(name, names, 1)
            hint = f" Did you mean {near[0]!r}?" if near else f" Known are {', '.join(names)}."
            raise ConfigError(f"{algo} has no setting {name!r}.{hint}")
        found[names[name]][name] = value
    return found


def _convert_obs(obs: Any, env: Any) -> np.ndarray:
    """Return observations as the loop stores them, or say what they must be."""
    obs = np.asarray(obs)
    env.check_obs(obs)
    if not np.can_cast(obs.dtype, env.obs_dtype, "same_kind"):
        raise ValueError(f"obs must be of dtype {env.obs_dtype}, got {obs.dtype}.")
    return obs.astype(env.obs_dtype, copy=False)


def _columns(path: Path, delimiter: str) -> dict[str, np.ndarray]:
    """Read a table; a last line that is being written is left out."""
    if not path.exists():
        return {}
    rows = csv.reader(files.read_lines(path), delimiter=delimiter)
    try:
        header = next(rows, [])
        columns: list[list[str]] = [[] for _ in header]
        for row in rows:
            if len(row) != len(header):
                raise errors.Damaged(f"{path} has rows that are longer or shorter than its header.")
            for column, cell in zip(columns, row, strict=True):
                column.append(cell)
    except csv.Error as error:
        raise errors.Damaged(f"{path} is no table: {error}.") from error
    return {name: _numbers(cells) for name, cells in zip(header, columns, strict=True)}


def _numbers(cells: Any) -> np.ndarray:
    """Return cells as numbers; as words where they are none."""
    try:
        return np.array([float(cell) if cell else math.nan for cell in cells])
    except ValueError:
        return np.array(cells)
