"""Names of settings: purerl's and Spinning Up's, and the place of each in a configuration.

A setting is a field of the algorithm's `Spec`, of its schedule or of `Options`, or one of the run
itself. It is named by its field (`gamma`), by part and field (`spec.gamma`, `schedule:steps`) or
as Spinning Up names it (`ac_kwargs:hidden_sizes`). This module does not import JAX.
"""

import dataclasses
import difflib
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from purerl import algos
from purerl.errors import ConfigError
from purerl.fields import PARTS
from purerl.runs.record.files import to_json
from purerl.schedules import OnPolicySchedule, SequenceSchedule
from purerl.schedules.common import EPOCH, ROLLOUT

STABLE_BASELINES = {
    "gae_lambda": "lam",
    "clip_range": "clip_ratio",
    "buffer_size": "replay_size",
    "train_freq": "update_every",
    "gradient_steps": "updates_per_burst",
    "n_envs": "num_envs",
    "n_critics": "num_critics",
    "n_quantiles": "num_quantiles",
    "top_quantiles_to_drop_per_net": "drop_quantiles",
}
SYNONYMS = STABLE_BASELINES | {  # names in Spinning Up and in other libraries
    "env_name": "env",
    "env_id": "env",
    "exp_name": "name",
    "total_timesteps": "steps",
    "ac_kwargs:hidden_sizes": "hidden",
    "hidden_sizes": "hidden",
    "hid": "hidden",
    "ac_kwargs:activation": "activation",
    "act": "activation",
    "algo": "method",  # for TRPO: trpo or npg
    "cpu": "num_cpu",
    "dt": "datestamp",
    "l": "layers",
}
# Settings of other libraries that are no synonyms: the setting that must exist, and the way.
ELSEWHERE = {
    "n_epochs": ("train_pi_iters", "train_pi_iters and train_v_iters"),
    "n_steps": ("rollout_steps", "rollout_steps = n_steps * num_envs"),
    "tau": ("polyak", "polyak = 1 - tau"),
    "target_update_interval": ("target_every", "target_every, counted in updates"),
    "learning_starts": ("start_steps", "start_steps and update_after"),
    "eval_freq": ("num_test_episodes", "num_test_episodes, played every steps_per_epoch steps"),
    "n_eval_episodes": ("num_test_episodes", "num_test_episodes"),
    "exploration_fraction": ("eps_decay", "eps_decay, counted in updates"),
    "exploration_initial_eps": ("eps_start", "eps_start"),
    "exploration_final_eps": ("eps_end", "eps_end"),
    "clip_range_vf": ("vf_clip", "vf_clip"),
    "ent_coef": ("alpha", "alpha; auto learns it"),
    "normalize_advantage": ("lam", "always done, once per rollout"),
    "target_kl": ("delta", "delta"),
    "cg_max_steps": ("cg_iters", "cg_iters"),
    "line_search_max_iter": ("backtrack_iters", "backtrack_iters"),
    "line_search_shrinking_factor": ("backtrack_coeff", "backtrack_coeff"),
    "n_critic_updates": ("backtrack_iters", "train_v_iters"),
    "correction_term": ("max_ratio", "max_ratio"),
    "rprop_alpha": ("rms_decay", "rms_decay"),
    "rprop_epsilon": ("rms_eps", "rms_eps"),
    "vf_coef": ("vf_lr", "vf_lr: policy and value function have optimizers of their own"),
    "policy_kwargs": ("hidden", "hidden and activation"),
    "n": ("steps", "steps"),
    "n_timesteps": ("steps", "steps"),
    "f": ("data_dir", "data_dir"),
    "log_folder": ("data_dir", "data_dir"),
    "tensorboard_log": ("tensorboard", "tensorboard; its files are in the folder of the run"),
    "i": ("steps", "another command, `purerl resume RUN`"),
    "trained_agent": ("steps", "another command, `purerl resume RUN`"),
    "vec_env": ("num_envs", "num_envs; one process steps them one after the other"),
    "num_threads": ("num_cpu", "num_cpu, the number of processes with one thread each"),
    "enjoy": ("watch", "the command watch, or eval"),
    "record_video": ("watch", "the command watch --save FILE"),
    "optimize": ("sweep", "the command sweep"),
    "goal_selection_strategy": ("her_strategy", "her_strategy"),
    "n_sampled_goal": ("her_k", "her_k"),
    "her": ("steps", "a setting of algorithms that replay transitions, such as dqn and sac"),
    "no_her": ("steps", "a setting of algorithms that replay transitions, such as dqn and sac"),
    "n_step": ("steps", "a setting of algorithms that replay transitions, such as dqn and sac"),
    "scale_rewards": ("steps", "a setting of ppo, and of algorithms that replay transitions"),
    "device": ("steps", "the environment variable JAX_PLATFORMS, for example JAX_PLATFORMS=cpu"),
}
REFUSED = {
    "actor_critic": "give custom networks in Python, as Spec(actor=..., critic=...)",
    "actor": "give a custom network in Python, as Spec(actor=...)",
    "critic": "give a custom network in Python, as Spec(critic=...)",
    "optimizer": "give an optimizer in Python, as Spec(optimizer=...)",
    "ac_kwargs": "give its entries: ac_kwargs:hidden_sizes and ac_kwargs:activation",
    "logger_kwargs": "give exp_name and data_dir",
    "env_fn": "give env, a Gymnasium id or module:Id",
}
# Settings of the run itself, and their types. steps = epochs * steps_per_epoch, and hidden is one
# width, repeated `layers` times.
RUN: dict[str, Any] = {"env": str, "seed": int, "name": str, "data_dir": str, "datestamp": bool}
RUN |= {"num_cpu": int, "epochs": int, "layers": int}
COMMAND = ("seed", "data_dir", "datestamp", "num_cpu")  # given once, each by its own flag


class Setting(NamedTuple):
    """Place of a setting in a configuration."""

    part: str  # spec, schedule, options, or run
    name: str
    hint: Any  # annotated type


def list_settings(algo: Any) -> dict[str, Setting]:
    """Return the settings of an algorithm by the names of their fields."""
    from purerl.runs.settings import config  # imports NumPy and Gymnasium: here for start-up time

    found = {name: Setting("run", name, hint) for name, hint in RUN.items()}
    for part, source in config.get_sources(algo).items():
        hints = typing.get_type_hints(source)
        for field in dataclasses.fields(source):
            if field.name not in ("env", "actor", "critic", "optimizer"):
                found[field.name] = Setting(part, field.name, hints[field.name])
    return found


def resolve_name(algo: Any, key: str) -> Setting:
    """Return the setting that a key names; for an unknown key, raise an error with hints."""
    known = list_settings(algo)
    word = key.replace("-", "_")
    part, _, name = word.replace(".", ":").rpartition(":")
    setting = known.get(SYNONYMS.get(word, word))
    if setting is not None:
        return setting
    for refused in (word, word.partition(":")[0]):
        if refused in REFUSED:
            raise ConfigError(f"{key}: {REFUSED[refused]}.")
    if part not in PARTS or name not in known:
        ours = SYNONYMS.keys() - STABLE_BASELINES.keys()
        near = [*known, *(other for other in ours if SYNONYMS[other] in known)]
        raise ConfigError(f"{algos.get_name(algo)} has no setting {key!r}.{suggest(name, near)}")
    setting = known[name]
    if setting.part != part:
        raise ConfigError(f"{key}: {name} belongs to {setting.part}, not to {part}. Write {name}.")
    return setting


def suggest(word: str, known: Iterable[str], form: Callable[[str], str] = repr) -> str:
    """Return ` Did you mean ...?` with the most similar known names, or an empty text.

    These are, ignoring case, the word itself or its synonym. Else they are the names that begin or
    end with it, or else the name with the nearest spelling. `form` formats a name for the hint.
    """
    known, word = {name.lower(): name for name in known}, word.lower()
    setting, way = ELSEWHERE.get(word, ("", ""))
    if setting in known:
        return f" In purerl this is {way}."
    word = word.replace("learning_rate", "lr")
    near = [n for n in (word, SYNONYMS.get(word)) if n in known][:1]
    if not near and len(word) > 1:
        near = [n for n in known if n.startswith(word) and word != "lr"]  # not lr_decay_updates
        near += [n for n in known if n.endswith(f"_{word}") or word.endswith(f"_{n}")]
    near = near[:3] or difflib.get_close_matches(word, known, 1)
    return f" Did you mean {' or '.join(form(known[n]) for n in near)}?" if near else ""


def drop_duplicates(key: str, values: Sequence[Any]) -> tuple[list[Any], str]:
    """Return the values of a setting without duplicates, and a message if some were dropped."""
    different = list({repr(v): v for v in values}.values())
    if len(different) == len(values):
        return different, ""
    shown = ", ".join(str(to_json(v)) for v in different)
    return different, f"{key}: dropped duplicate values, using {shown}"


def normalise_activation(value: Any) -> Any:
    """Return the name of an activation from a path (`torch.nn.ReLU`), function or synonym."""
    value = getattr(value, "__name__", value)
    if not isinstance(value, str):
        return value
    name = value.rpartition(".")[2].lower()
    return {"leakyrelu": "leaky_relu", "swish": "silu"}.get(name, name)


def build_configuration(
    algo: Any, settings: Mapping[str, Any], base: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return the configuration `base` with settings under any names; report all wrong keys."""
    name = algos.get_name(algo)
    made: dict[str, Any] = {part: {} for part in PARTS} | dict(base or {}) | {"algo": name}
    wrong = [f"{p} must be an object, got {made[p]!r}." for p in PARTS if type(made[p]) is not dict]
    if wrong:
        raise ConfigError("\n".join(wrong))
    parts = {part: dict(made[part]) for part in PARTS} | {"run": {}}
    seen: dict[str, str] = {}
    for key, value in settings.items():
        try:
            part, name, _ = resolve_name(algo, key)
        except ConfigError as error:
            wrong.append(str(error))
            continue
        if name in seen:
            wrong.append(f"{seen[name]} and {key} are the same setting. Give only one.")
        seen[name] = key
        parts[part][name] = normalise_activation(value) if name == "activation" else value
    if "steps" in seen and "epochs" in seen:
        wrong.append(f"{seen['steps']} and {seen['epochs']} both set the run's length. Give one.")
    if wrong:
        raise ConfigError("\n".join(wrong))
    spec, schedule, run = parts["spec"], parts["schedule"], parts.pop("run")
    if (epochs := run.get("epochs")) is not None:
        if (per_epoch := schedule.get("steps_per_epoch")) is None:
            schedule["steps_per_epoch"] = per_epoch = EPOCH
            default = algos.load(algo).SCHEDULE
            has_rollouts = isinstance(default, OnPolicySchedule) and not default.rollout_steps
            if has_rollouts and not isinstance(default, SequenceSchedule):
                # A rollout shall not be as long as an epoch.
                schedule.setdefault("rollout_steps", ROLLOUT)
        if isinstance(per_epoch, int):  # else the schedule refuses it
            schedule["steps"] = epochs * per_epoch
    layers = run.get("layers")
    if layers is not None or isinstance(spec.get("hidden"), int):  # a number is a tuple of one
        width = spec.get("hidden", algos.load(algo).Spec.hidden[:1])
        width = tuple(width) if isinstance(width, tuple | list) else (width,)
        if layers is not None and len(width) != 1:
            raise ConfigError(f"l = {layers} needs one width to repeat, got hid = {list(width)}.")
        spec["hidden"] = width * (1 if layers is None else layers)
    return made | parts | {name: run[name] for name in ("env", "seed", "name") if name in run}
