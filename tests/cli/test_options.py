"""Options generated from dataclasses: typed, documented, refused with the name."""

import argparse
import dataclasses
import sys
from typing import Any

import gymnasium
import pytest

from purerl import errors
from purerl.algos import td3
from purerl.cli import options as cli
from purerl.runs.settings import config, environments
from purerl.schedules import OffPolicySchedule, OnPolicySchedule
from purerl.spaces import Box, EnvSpec

ENV = EnvSpec((3,), Box((-1.0,), (1.0,)))


@dataclasses.dataclass(frozen=True)
class Mixed:
    """Every type that a word can express, and one that none can."""

    required: int
    network: Any = None
    count: int = 3  # how many
    rate: float = 0.5  # per cent: 50 %
    name: str = "x"
    flag: bool = True  # on or off
    sizes: tuple[int, ...] = (64, 64)  # units, of each layer
    weights: tuple[float, ...] = ()
    limit: int | None = None  # none: no limit
    noted: float = dataclasses.field(default=1.0, metadata={"help": "from metadata"})  # not this


def parse(words: str, *sources: Any) -> tuple[argparse.ArgumentParser, argparse.Namespace]:
    parser = argparse.ArgumentParser(prog="prog")
    cli.add_fields(parser, *sources)
    return parser, parser.parse_args(words.split())


def mixed(words: str) -> Mixed:
    parser, args = parse(words, Mixed)
    return cli.build(parser, Mixed, args)


def test_every_type_is_read():
    words = "--required 1e6 --count -2 --rate 3e-4 --name y --no-flag --sizes [32,16] --limit 7"
    made = mixed(words + " --weights .5,1")
    assert made == Mixed(10**6, None, -2, 3e-4, "y", False, (32, 16), (0.5, 1.0), 7)
    assert type(made.required) is int
    assert mixed("--required 123456789012345678901").required == 123456789012345678901
    assert mixed("--required 1 --sizes 64 --limit none") == Mixed(1, sizes=(64,))
    assert mixed("--required 1 --sizes []").sizes == ()
    assert mixed("--required 1 --flag").flag is True


def test_what_is_not_typed_keeps_its_default():
    assert mixed("--required 1") == Mixed(1)


def test_defaults_come_from_an_instance():
    parser, args = parse("--steps 120", OffPolicySchedule(steps_per_epoch=40))
    schedule = cli.build(parser, OffPolicySchedule(steps_per_epoch=40), args)
    assert schedule == OffPolicySchedule(steps=120, steps_per_epoch=40)
    assert "(default: 40)" in parser.format_help()


def test_spinning_ups_underscores_and_dashes_both_work():
    for words in ("--pi-lr 0.1", "--pi_lr 0.1"):
        parser, args = parse(words, td3.Spec)
        assert cli.build(parser, td3.Spec, args, env=ENV).pi_lr == 0.1


def test_help_shows_comments_metadata_and_defaults():
    text = " ".join(parse("--required 1", Mixed)[0].format_help().split())
    assert "--count INT how many (default: 3)" in text
    assert "per cent: 50 % (default: 0.5)" in text
    assert "--sizes INT,... units, of each layer (default: 64,64)" in text
    assert "none: no limit (default: none)" in text
    assert "--flag, --no-flag on or off (default: True)" in text
    assert "from metadata (default: 1.0)" in text
    assert "not this" not in text
    assert "--network" not in text
    assert "--required INT (required)" in text


@pytest.mark.parametrize("source", [td3.Spec, OffPolicySchedule, OnPolicySchedule])
def test_every_field_of_the_library_has_help(source):
    parser, _ = parse("", source)
    options = [a for group in parser._action_groups[2:] for a in group._group_actions]
    words = {f.name for f in dataclasses.fields(source)} - {"env", "actor", "critic"}
    assert {a.dest for a in options} == words
    for option in options:
        assert len(option.help.split("(default")[0]) > 5, option.dest


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--required 1.5", "argument --required: expected an integer, got '1.5'"),
        ("--required abc", "argument --required: expected an integer, got 'abc'"),
        ("--required nan", "expected an integer, got 'nan'"),
        ("--required __import__('os')", "expected an integer"),
        ("--required 1 --rate fast", "argument --rate: expected a number, got 'fast'"),
        ("--required 1 --sizes 64;64", "argument --sizes: expected an integer, got '64;64'"),
        ("--required 1 --sizes 64,,64", "argument --sizes: expected an integer, got ''"),
        ("--required 1 --sizes [64", "argument --sizes: expected an integer, got '[64'"),
        ("--required ²", "argument --required: expected an integer, got '²'"),
        ("--required 1 --sizes 64 64", "unrecognized arguments: 64"),
        ("--required 1 --flag yes", "unrecognized arguments: yes"),
        ("--required 1 --cuont 3", "unrecognized arguments: --cuont"),
    ],
)
def test_bad_words_are_usage_errors(words, message, capsys):
    with pytest.raises(SystemExit) as stop:
        mixed(words)
    assert stop.value.code == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--gamma 1.5", "gamma must be a number in [0.0, 1.0], got 1.5"),
        ("--pi-lr nan", "pi_lr must be a number above 0, got nan"),
        ("--activation rleu", "activation must be one of elu, gelu, leaky_relu, relu, silu, tanh"),
        ("--hidden 64,0", "hidden[1] must be an integer of at least 1, got 0"),
    ],
)
def test_values_that_a_spec_refuses_are_usage_errors(words, message, capsys):
    parser, args = parse(words, td3.Spec)
    with pytest.raises(SystemExit) as stop:
        cli.build(parser, td3.Spec, args, env=ENV)
    assert stop.value.code == 2
    assert message in capsys.readouterr().err


def test_seeds_are_read_and_refused(capsys):
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=cli.parse_seed)
    assert parser.parse_args(["--seed", str(2**32 - 1)]).seed == 2**32 - 1
    for word in (str(2**32), "-1", "1.5", "x"):
        with pytest.raises(SystemExit):
            parser.parse_args([f"--seed={word}"])
        assert "argument --seed: " in capsys.readouterr().err


@pytest.mark.filterwarnings("ignore:.*out of date")
@pytest.mark.parametrize(
    ("env_id", "message"),
    [
        ("Pendulum-v0", "--env Pendulum-v0: "),
        ("Pendullum-v1", "Did you mean: `Pendulum`"),
        ("FrozenLake-v1", "observations must be a Box"),
        ("nosuch:Env-v0", "No module named 'nosuch'"),
    ],
)
def test_environments_that_will_not_do_are_usage_errors(env_id, message, capsys):
    with pytest.raises(SystemExit) as stop:
        cli.read_env_spec(argparse.ArgumentParser(), env_id)
    assert stop.value.code == 2
    assert message in capsys.readouterr().err


def test_an_environment_whose_extra_is_missing_says_what_to_install(monkeypatch, capsys):
    def make(env_id):
        raise gymnasium.error.DependencyNotInstalled("go elsewhere")

    monkeypatch.setattr(gymnasium, "make", make)
    monkeypatch.setattr(environments.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(SystemExit):
        cli.read_env_spec(argparse.ArgumentParser(), "LunarLander-v3")
    error = capsys.readouterr().err
    assert "--env LunarLander-v3: it needs box2d: pip install 'purerl[box2d]'" in error
    with pytest.raises(errors.ConfigError, match=r"Ant-v5: it needs mujoco: .*purerl\[mujoco\]"):
        config.read_env_spec("Ant-v5", lambda: make("Ant-v5"))
    with pytest.raises(errors.ConfigError, match="Mine-v0: go elsewhere"):
        config.read_env_spec("Mine-v0", lambda: make("Mine-v0"))


def test_an_environment_that_ends_python_or_cannot_be_closed_is_a_mistake():
    with pytest.raises(errors.ConfigError, match=r"environment Mine-v0: SystemExit: 0$"):
        config.read_env_spec("Mine-v0", lambda: sys.exit(0))
    env = gymnasium.make("CartPole-v1")
    env.close = lambda: sys.exit("stays open")
    with pytest.raises(errors.ConfigError, match="Mine-v0 raised SystemExit in close: stays open"):
        config.read_env_spec("Mine-v0", lambda: env)


def lines(words: str, capsys) -> tuple[argparse.Namespace | None, str]:
    """Parse as `purerl train` does; return what came of it and what was said."""
    parser = argparse.ArgumentParser(prog="prog", allow_abbrev=False, exit_on_error=False)
    group = parser.add_argument_group("all")
    cli.add_setting_flags(lambda name: group, {"sizes": "--hid"}, Mixed)
    parser.add_argument("--seed", type=cli.parse_seed, nargs="+")
    try:
        return cli.parse_line(parser, words.split()), ""
    except SystemExit:
        return None, capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "values"),
    [
        ("--rate -1e-1", {"rate": -0.1}),
        ("--rate=-1e-1", {"rate": -0.1}),
        ("--rate -.5 --count -2", {"rate": -0.5, "count": -2}),
        ("--rate -inf", {"rate": float("-inf")}),
        ("--weights -1,-2e-3", {"weights": (-1.0, -0.002)}),
        ("--hid 8,8", {"sizes": (8, 8)}),
        ("--no-flag --limit none", {"flag": False, "limit": None}),
        ("--no_flag", {"flag": False}),
        ("--seed 0 1 2 --count 1", {"seed": [0, 1, 2], "count": 1}),
        ("", {}),
    ],
)
def test_a_line_is_read_with_negative_numbers_and_underscores(words, values, capsys):
    found, _ = lines(words, capsys)
    assert vars(found) == {"seed": None} | values


@pytest.mark.parametrize(
    ("words", "messages"),
    [
        ("--rat 1", ["unknown setting --rat. Did you mean --rate?"]),
        ("--required 1.5 --rate x --foo 1", ["--required: expected an", "--rate: exp", "--foo"]),
        ("--sizes 64 64", ["one word too many, '64'. A tuple is one word, 64,64"]),
        ("--flag yes", ["argument --flag: it takes no value, got 'yes'"]),
        ("stray --rate 1", ["'stray': no flag stands before that."]),
        ("--count", ["argument --count: expected one argument"]),
        ("--seed -1", ["seed must be an integer in 0"]),
        ("-r 1", ["unknown setting -r."]),
    ],
)
def test_all_mistakes_of_a_line_are_said_at_once(words, messages, capsys):
    found, said = lines(words, capsys)
    assert found is None
    assert all(message in said for message in messages), said


def test_no_flag_with_a_letter_too_few_or_too_many_is_taken_for_one(capsys):
    flags = ["required", "count", "rate", "name", "flag", "sizes", "weights", "limit", "noted"]
    for flag in flags:
        for i in range(len(flag)):
            for wrong in (flag[:i] + flag[i + 1 :], flag[:i] + "q" + flag[i:], flag[:i]):
                found, said = lines(f"--{wrong} 1", capsys)
                assert found is None, wrong
                assert "unknown setting --" in said
        assert f"Did you mean --{flag}?" in lines(f"--{flag}q 1", capsys)[1]
