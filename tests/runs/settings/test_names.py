"""Settings under any of their names, and words read by their types."""

import argparse
import random

import pytest

from purerl import algos
from purerl.cli import values
from purerl.errors import ConfigError
from purerl.runs.settings import config, names

FUZZ = 4_000


@pytest.mark.parametrize(
    ("algo", "key", "place"),
    [
        ("ppo", "gamma", ("spec", "gamma")),
        ("ppo", "spec.gamma", ("spec", "gamma")),
        ("ppo", "spec:gamma", ("spec", "gamma")),
        ("ppo", "ac_kwargs:hidden_sizes", ("spec", "hidden")),
        ("ppo", "ac_kwargs:activation", ("spec", "activation")),
        ("ppo", "hid", ("spec", "hidden")),
        ("ppo", "act", ("spec", "activation")),
        ("ppo", "pi-lr", ("spec", "pi_lr")),
        ("trpo", "algo", ("spec", "method")),
        ("sac", "total_timesteps", ("schedule", "steps")),
        ("sac", "schedule:replay_size", ("schedule", "replay_size")),
        ("sac", "options.save_freq", ("options", "save_freq")),
        ("sac", "env_name", ("run", "env")),
        ("sac", "exp_name", ("run", "name")),
        ("sac", "dt", ("run", "datestamp")),
        ("sac", "l", ("run", "layers")),
    ],
)
def test_a_setting_is_found_under_its_names(algo, key, place):
    assert names.resolve_name(algo, key)[:2] == place


@pytest.mark.parametrize(
    ("algo", "key", "message"),
    [
        ("ppo", "clip", "Did you mean 'clip_ratio' or 'vf_clip'?"),
        ("ppo", "learning-rate", "no setting 'learning-rate'. Did you mean 'pi_lr' or 'vf_lr'?"),
        ("dqn", "learning_rate", "Did you mean 'lr'?"),
        ("ppo", "Gamma", "Did you mean 'gamma'?"),
        ("trpo", "Algo", "Did you mean 'algo'?"),
        ("ppo", "gama", "no setting 'gama'. Did you mean 'gamma'?"),
        ("ppo", "lr", "Did you mean 'pi_lr' or 'vf_lr'?"),
        ("ppo", "spec:steps", "steps is a field of schedule, not of spec"),
        ("ppo", "other:gamma", "no setting 'other:gamma'"),
        ("ppo", "gam", "Did you mean 'gamma'?"),
        ("ppo", "actor_critic", "given in Python"),
        ("ppo", "actor", "given in Python"),
        ("ppo", "logger_kwargs:output_dir", "give exp_name and data_dir"),
        ("ppo", "replay_size", "no setting 'replay_size'"),
        ("dqn", "pi_lr", "Did you mean"),
    ],
)
def test_other_words_are_refused_with_the_nearest(algo, key, message):
    with pytest.raises(ConfigError) as error:
        names.resolve_name(algo, key)
    assert message in str(error.value)


def test_no_hint_leads_to_a_word_that_the_algorithm_does_not_know():
    with pytest.raises(ConfigError, match=r"^ppo has no setting 'algo'\.$"):
        names.resolve_name("ppo", "algo")


def test_a_configuration_is_made_of_settings_under_any_names():
    given = {"env_name": "CartPole-v1", "hid": 64, "l": 2, "ac_kwargs:activation": "torch.nn.ReLU"}
    made = names.build_configuration(
        "ppo", given | {"epochs": 3, "steps_per_epoch": 500, "seed": 7}
    )
    assert made["spec"] == {"hidden": (64, 64), "activation": "relu"}
    assert made["schedule"] == {"steps_per_epoch": 500, "steps": 1500}
    assert (made["env"], made["seed"], made["algo"]) == ("CartPole-v1", 7, "ppo")
    assert names.build_configuration("ppo", {"epochs": 2})["schedule"] == {"steps": 8000}
    assert names.build_configuration("ppo", {"hid": 32})["spec"] == {"hidden": (32,)}
    assert names.build_configuration("sac", {"l": 3})["spec"] == {"hidden": (256, 256, 256)}
    base = {"env": "A-v0", "spec": {"gamma": 0.9, "lam": 0.5}}
    made = names.build_configuration("ppo", {"gamma": 0.8}, base)
    assert made["spec"] == {"gamma": 0.8, "lam": 0.5}
    assert base["spec"]["gamma"] == 0.9


@pytest.mark.parametrize(
    ("given", "messages"),
    [
        ({"gamma": 1, "spec.gamma": 1}, ["gamma and spec.gamma are the same setting"]),
        ({"steps": 1, "epochs": 1}, ["steps and epochs both say how long"]),
        ({"hid": (64, 32), "l": 2}, ["l = 2 repeats one width, got hid = [64, 32]"]),
        ({"gama": 1, "lr": 2}, ["'gama'", "'lr'"]),
    ],
)
def test_settings_that_contradict_each_other_are_refused_all_at_once(given, messages):
    with pytest.raises(ConfigError) as error:
        names.build_configuration("ppo", given)
    assert all(message in str(error.value) for message in messages)


def test_a_part_that_is_no_object_is_refused():
    with pytest.raises(ConfigError, match=r"spec must be an object, got \[1\]"):
        names.build_configuration("ppo", {}, {"spec": [1]})


@pytest.mark.parametrize(
    ("word", "name"),
    [
        ("torch.nn.Tanh", "tanh"),
        ("torch.nn.LeakyReLU", "leaky_relu"),
        ("nn.ELU", "elu"),
        ("tf.nn.relu", "relu"),
        ("Tanh", "tanh"),
        ("swish", "silu"),
        ("gelu", "gelu"),
    ],
)
def test_activations_of_others_are_known_by_their_names(word, name):
    assert names.normalise_activation(word) == name


def test_functions_stand_for_the_activation_of_their_name():
    from flax import linen as nn

    assert names.normalise_activation(nn.tanh) == "tanh"
    assert names.normalise_activation(3) == 3


@pytest.mark.parametrize("algo", algos.NAMES)
def test_settings_are_checked_before_there_is_an_environment(algo):
    made = []
    content = {"algo": algo, "env": "E", "spec": {"gamma": 7.0, "hidden": [0]}}
    content |= {"schedule": {"steps": 0}, "options": {"keep": 0}}
    with pytest.raises(ConfigError) as error:
        config.from_json(content, lambda: made.append(1))
    for name in ("gamma", "hidden[0]", "steps", "keep"):
        assert f"{name} must be" in str(error.value)
    assert not made
    for wrong in ({"seed": -1}, {"name": "../x"}):
        with pytest.raises(ConfigError, match="must be"):
            config.from_json({"algo": algo, "env": "E"} | wrong, lambda: made.append(1))
    assert not made


def test_mistakes_that_follow_from_others_are_not_reported():
    def make(low=0, high=1):
        if high > 9:
            raise ValueError(f"high must be at most 9, got {high}.")
        if low >= high:
            raise ValueError(f"low must be below high, got {low}.")
        if low == 0 and high == 1:
            raise ValueError("other must be given.")

    assert config.find_mistakes(make, {"high": 10}) == ["high must be at most 9, got 10."]
    assert config.find_mistakes(make, {"high": 0}) == ["low must be below high, got 0."]
    assert config.find_mistakes(make, {"high": 2}) == []
    both = ["high must be at most 9, got 10.", "low must be below high, got 5."]
    assert config.find_mistakes(make, {"low": 5, "high": 10}) == both
    given = {"replay_size": 0, "batch_size": 5_000}  # update_after is too small for the latter
    with pytest.raises(ConfigError, match=r"^replay_size must be[^\n]*$"):
        config.from_json({"algo": "sac", "env": "E", "schedule": given})


WORDS = {  # setting of sac or ppo, word -> value; None: refused
    ("sac", "steps", "1e6"): 1_000_000,
    ("sac", "steps", "1.5"): None,
    ("sac", "steps", "true"): None,
    ("sac", "max_ep_len", "none"): None.__class__,
    ("sac", "max_ep_len", "None"): None.__class__,
    ("sac", "steps", "none"): None,
    ("sac", "hidden", "64"): (64,),
    ("sac", "hidden", "64,64"): (64, 64),
    ("sac", "hidden", "[64, 32]"): (64, 32),
    ("sac", "hidden", "(64,32)"): (64, 32),
    ("sac", "hidden", "64,"): None,
    ("sac", "hidden", "[64"): None,
    ("sac", "gamma", "-1e-1"): -0.1,
    ("sac", "gamma", "0.9x"): None,
    ("sac", "alpha", "auto"): "auto",
    ("sac", "alpha", "0.2"): 0.2,
    ("ppo", "normalise_obs", "True"): True,
    ("ppo", "normalise_obs", "false"): False,
    ("ppo", "normalise_obs", "1"): None,
    ("ppo", "seed", "-1"): None,
    ("ppo", "seed", "4294967295"): 2**32 - 1,
    ("ppo", "num_cpu", "0"): None,
    ("ppo", "steps", "9" * 5_000): None,
}


@pytest.mark.parametrize(("where", "value"), WORDS.items(), ids=lambda x: str(x)[:40])
def test_words_are_read_by_the_type_of_their_setting(where, value):
    algo, key, word = where
    setting = names.resolve_name(algo, key)
    if value is None:
        with pytest.raises(argparse.ArgumentTypeError, match="expected|must be"):
            values.parse_value(setting, word)
    else:
        got = values.parse_value(setting, word)
        assert got is None if value is type(None) else (got, type(got)) == (value, type(value))


def words(rng):
    pool = ["1", "0", "9" * 330, "e", "E", "-", "+", ".", ",", "[", "]", "(", ")", "nan", "inf"]
    pool += ["none", "true", "auto", " ", "\t", "_", "x", "é", "٣", "²", "\x00", "\n", "1e400", "'"]
    while True:
        yield "".join(rng.choices(pool, k=rng.randrange(7)))


@pytest.mark.parametrize("algo", ["ppo", "sac", "dqn"])
def test_no_word_makes_a_reader_fail_in_another_way(algo):
    rng = random.Random(algos.NAMES.index(algo))
    settings = list(names.list_settings(algo).values())
    refused = 0
    for _, word in zip(range(FUZZ), words(rng), strict=False):
        setting = rng.choice(settings)
        try:
            value = values.parse_value(setting, word)
        except argparse.ArgumentTypeError:
            refused += 1
            continue
        assert value is None or isinstance(value, int | float | str | tuple)
        assert not isinstance(value, str) or setting.hint is not int
    assert FUZZ / 4 < refused < FUZZ
