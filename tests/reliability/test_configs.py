"""Bad configurations: each wrong value of each field raises one error that names the field."""

import collections
import dataclasses
import json
import math
import time
import typing
from types import NoneType

import pytest

from purerl import algos
from purerl.errors import ConfigError
from purerl.runs.settings import config as configs
from purerl.runs.settings.config import Options

ENVS = dict.fromkeys(("acer", "dqn", "pqn", "reinforce", "sac_discrete"), "CartPole-v1")
NETWORKS = ("actor", "critic", "optimizer")  # objects in Python, which no file can contain
WRONG = {
    "negative": -1,
    "zero": 0,
    "huge": 10**40,
    "huger": 1e308,
    "beyond": 10**400,
    "tiny": 1e-60,
    "nan": math.nan,
    "inf": math.inf,
    "minus inf": -math.inf,
    "word": "x",
    "number as a word": "1",
    "true": True,
    "list": [1],
    "list of words": ["x"],
    "empty list": [],
    "object": {"x": 1},
    "none": None,
    "fraction": 1.5,
}


def parts(algo):
    """Return the three parts of a configuration with their dataclasses."""
    return {"spec": algo.Spec, "schedule": type(algo.SCHEDULE), "options": Options}


def fields(algo):
    for part, cls in parts(algo).items():
        hints = typing.get_type_hints(cls)
        for field in dataclasses.fields(cls):
            if field.name != "env":
                yield part, field.name, hints[field.name]


# Fields that accept a kind of value that most other fields refuse.
SENSE = {
    "word": "wandb",  # a project's name
    "number as a word": "wandb",
    # zero switches off noise, a penalty or a pass, or is the bound of an interval
    "zero": "act_noise action_l2 adam_b1 alpha her_k random_action "
    "damping_coeff drop_quantiles dropout ent_coef eps_end eps_start gamma lam noise_clip "
    "num_test_episodes polyak renorm_warmup start_steps target_entropy_scale target_noise "
    "train_pi_iters "
    "train_v_iters log_std_init target_entropy max_ratio q_coef replay_ratio rms_decay rms_init",
    "negative": "log_std_init target_entropy",  # a logarithm, an entropy
    "fraction": "act_noise action_l2 alpha her_k "
    "alpha_init adam_eps clip_ratio damping_coeff delta ent_coef "
    "head_scale log_std_init lr max_grad_norm noise_clip pi_lr q_lr target_entropy target_kl "
    "target_noise v_max vf_clip vf_lr max_ratio q_coef replay_ratio reward_scale rms_eps rms_init",
    # like zero, where zero is allowed
    "tiny": "act_noise action_l2 adam_b1 alpha her_k random_action "
    "damping_coeff dropout ent_coef eps_end eps_start gamma lam "
    "log_std_init max_ratio noise_clip polyak q_coef replay_ratio rms_decay rms_init "
    "target_entropy target_entropy_scale target_noise",
}


def makes_sense(name, hint, kind):
    """Return whether a value is accepted on purpose; the comments say why."""
    kinds = typing.get_args(hint) or (hint,)
    if kind == "none":  # where the comment of the field gives None a meaning
        return NoneType in kinds or name in NETWORKS
    if kind == "true":  # booleans, but the environments here have no goals
        if name == "her":
            return False
        return bool in kinds
    if name == "log_info" and kind in ("list of words", "empty list"):
        return True
    if kind in ("list", "empty list"):  # tuples of integers; an empty one means a linear function
        return tuple in map(typing.get_origin, (hint, *kinds)) and name != "log_info"
    return name in SENSE.get(kind, "").split()


LEARNED = ("alpha_init", "target_entropy")  # settings that are used only with alpha="auto"


def configuration(name, **entries):
    if name == "sac" and any(field in LEARNED for field in entries.get("spec", ())):
        entries["spec"] = {"alpha": "auto"} | entries["spec"]
    return {"algo": name, "env": ENVS.get(name, "Pendulum-v1")} | entries


def tried(content):
    """Return `accepted` or the error of a configuration, and its CPU seconds."""
    began = time.process_time()
    try:
        configs.from_json(json.loads(json.dumps(content)))
        found = "accepted"
    except ConfigError as error:
        found = str(error)
    return found, time.process_time() - began


def typo(name):
    return name[:-2] + name[-1] + name[-2] if name[-2] != name[-1] else name + "x"


def test_every_field_of_every_algorithm_refuses_wrong_values(figures):
    wrong, counts, slowest = [], collections.Counter(), 0.0
    for name in algos.NAMES:
        tried(configuration(name))  # imports
        for part, field, hint in fields(algos.load(name)):
            for kind, value in WRONG.items():
                found, seconds = tried(configuration(name, **{part: {field: value}}))
                slowest = max(slowest, seconds)
                good, accepted = makes_sense(field, hint, kind), found == "accepted"
                named = field in found and "\n" not in found and len(found) < 500
                counts["accepted on purpose" if good else "refused"] += 1
                if good != accepted or not (accepted or named):
                    wrong.append((name, part, field, kind, found[:150]))
            found, _ = tried(configuration(name, **{part: {typo(field): 1}}))
            counts["typing errors"] += 1
            if f"has no entry '{typo(field)}'" not in found or field not in found:
                wrong.append((name, part, typo(field), found[:150]))
    figures(**counts, slowest=round(slowest, 3))
    assert not wrong, "\n".join(map(str, wrong))
    assert counts["refused"] >= 300


@pytest.mark.parametrize("key", ["algo", "env", "seed", "name", "spec", "schedule", "options"])
def test_every_entry_of_a_configuration_is_checked(key):
    good = {"seed": ("zero",), "spec": (), "schedule": (), "options": ()}
    good |= {"name": ("word", "number as a word"), "env": (), "algo": ()}
    for kind, value in WRONG.items():
        found, _ = tried(configuration("ppo") | {key: value})
        assert (found == "accepted") == (kind in good[key]), (kind, found)


TOGETHER = [
    ({"batch_size": 200, "replay_size": 100}, "batch_size must not exceed replay_size"),
    ({"update_after": 10}, "update_after must be at least batch_size"),
    ({"replay_size": 2**31 - 1}, "replay_size must be an integer of at most"),
    ({"steps": 10**12}, "steps must be"),
]


@pytest.mark.parametrize(("schedule", "message"), TOGETHER)
def test_contradicting_fields_are_refused(schedule, message):
    assert message in tried(configuration("td3", schedule=schedule))[0]
