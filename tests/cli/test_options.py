"""Flags made from dataclasses: types, help and error messages."""

import argparse
import dataclasses
import re
from typing import Any

import pytest

from purerl.algos import td3
from purerl.cli import main as program
from purerl.cli import options, values
from purerl.cli.options import Parser
from purerl.fields import setting
from purerl.runs.settings import config
from purerl.schedules import OffPolicySchedule, OnPolicySchedule


@dataclasses.dataclass(frozen=True)
class Mixed:
    """Settings of every type that a flag can have, and a field without a flag."""

    required: int
    network: Any = None
    count: int = setting(3, "how many")
    rate: float = setting(0.5, "per cent: 50 %")
    name: str = "x"
    flag: bool = setting(True, "on or off")
    sizes: tuple[int, ...] = setting((64, 64), "units, of each layer", flag="--hid")
    weights: tuple[float, ...] = ()
    limit: int | None = setting(None, "none: no limit", group="Other")


def parse(words: str, *sources: Any) -> tuple[Parser, argparse.Namespace]:
    parser = Parser("prog", "What it does.")
    options.add_settings(parser, *sources)
    return parser, parser.parse_args(words.split())


def mixed(words: str) -> Mixed:
    return Mixed(**vars(parse(words, Mixed)[1]))


def test_every_type_is_parsed():
    words = "--required 1e6 --count -2 --rate 3e-4 --name y --no-flag --sizes [32,16] --limit 7"
    made = mixed(words + " --weights .5,1")
    assert made == Mixed(10**6, None, -2, 3e-4, "y", False, (32, 16), (0.5, 1.0), 7)
    assert type(made.required) is int
    assert mixed("--required 123456789012345678901").required == 123456789012345678901
    assert mixed("--required 1 --sizes 64 --limit none") == Mixed(1, sizes=(64,))
    assert mixed("--required 1 --sizes []").sizes == ()
    assert mixed("--required 1 --flag").flag is True


def test_settings_without_a_flag_keep_their_defaults():
    assert mixed("--required 1") == Mixed(1)


def test_defaults_come_from_an_instance():
    parser, args = parse("--steps 120", OffPolicySchedule(steps_per_epoch=40))
    assert vars(args) == {"steps": 120}
    assert "(40)" in parser.format_help()


def test_flags_may_contain_underscores_or_dashes():
    for words in ("--pi-lr 0.1", "--pi_lr 0.1"):
        assert parse(words, td3.Spec)[1].pi_lr == 0.1


def test_help_shows_metadata_and_defaults():
    text = " ".join(parse("--required 1", Mixed)[0].format_help().split())
    assert "--count INT how many (3)" in text
    assert "per cent: 50 % (0.5)" in text
    flags = "--sizes( INT,...)?, --hid INT,..."  # before and after Python 3.13
    assert re.search(rf"{flags} units, of each layer \(64,64\)", text)
    assert "none: no limit (none)" in text
    assert "--flag, --no-flag on or off (True)" in text
    assert "--network" not in text
    assert "--required INT (required)" in text


@pytest.mark.parametrize("source", [td3.Spec, OffPolicySchedule, OnPolicySchedule, config.Options])
def test_every_setting_has_help(source):
    parser, _ = parse("", source)
    actions = [a for group in parser.groups.values() for a in group._group_actions]
    words = {f.name for f in dataclasses.fields(source)} - {"env", "actor", "critic", "optimizer"}
    assert {a.dest for a in actions} == words
    for action in actions:
        assert len(action.help.rpartition(" (")[0]) > 5, action.dest


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--required 1.5", "argument --required: expected an integer, got '1.5'"),
        ("--required abc", "argument --required: expected an integer, got 'abc'"),
        ("--required nan", "expected an integer, got 'nan'"),
        ("--required __import__('os')", "expected an integer"),
        ("--required 1 --rate fast", "argument --rate: expected a number, got 'fast'"),
        ("--required 1 --sizes 64;64", "argument --sizes/--hid: expected an integer, got '64;64'"),
        ("--required 1 --sizes 64,,64", "argument --sizes/--hid: expected an integer, got ''"),
        ("--required 1 --sizes [64", "argument --sizes/--hid: expected an integer, got '[64'"),
        ("--required ²", "argument --required: expected an integer, got '²'"),
        ("--required 1 --sizes 64 64", "argument --sizes: unexpected value '64'"),
        ("--required 1 --flag yes", "argument --flag: expected no value, got 'yes'"),
        ("--required 1 --cuont 3", "unknown flag --cuont. Did you mean --count?"),
    ],
)
def test_wrong_values_and_unknown_flags_are_usage_errors(words, message, capsys):
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
    with pytest.raises(SystemExit) as stop:
        program.main(["train", "td3", "--env", "Pendulum-v1", *words.split()])
    assert stop.value.code == 2
    assert message in capsys.readouterr().err


def parse_line(words: str, capsys) -> tuple[argparse.Namespace | None, str]:
    """Parse as `purerl train` does; return the arguments, or None and the error message."""
    parser = Parser("prog", "What it does.")
    options.add_settings(parser, Mixed)
    parser.add_argument("--seed", type=values.parse_seed, nargs="+")
    try:
        return parser.parse_args(words.split()), ""
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
def test_negative_numbers_and_underscores_are_parsed(words, values, capsys):
    found, _ = parse_line(words, capsys)
    assert vars(found) == {"seed": None} | values


@pytest.mark.parametrize(
    ("words", "messages"),
    [
        ("--rat 1", ["unknown flag --rat. Did you mean --rate?"]),
        ("--required 1.5 --rate x --foo 1", ["--required: expected an", "--rate: exp", "--foo"]),
        ("--sizes 64 64", ["unexpected value '64'. Write a tuple without spaces, 64,64"]),
        ("--flag yes", ["argument --flag: expected no value, got 'yes'"]),
        ("stray --rate 1", ["'stray': expected a flag before the value."]),
        ("--count", ["argument --count: expected a value"]),
        ("--seed -1", ["seed must be an integer in 0"]),
        ("-r 1", ["unknown flag -r."]),
    ],
)
def test_all_mistakes_of_a_command_line_are_reported_at_once(words, messages, capsys):
    found, said = parse_line(words, capsys)
    assert found is None
    assert all(message in said for message in messages), said


def test_misspelt_flags_are_never_accepted(capsys):
    flags = ["required", "count", "rate", "name", "flag", "sizes", "weights", "limit"]
    for flag in flags:
        for i in range(len(flag)):
            for wrong in (flag[:i] + flag[i + 1 :], flag[:i] + "q" + flag[i:], flag[:i]):
                found, said = parse_line(f"--{wrong} 1", capsys)
                assert found is None, wrong
                assert "unknown flag --" in said
        assert f"Did you mean --{flag}?" in parse_line(f"--{flag}q 1", capsys)[1]


@pytest.mark.parametrize(
    ("line", "messages"),
    [
        ("plot --smoth 3 a", ["--smoth. Did you mean --smooth?"]),
        ("plot --smo 3 a", ["--smo. Did you mean --smooth?"]),
        ("compare --thr=3 a", ["--thr. Did you mean --threshold?"]),
        ("compare --treshold 3", ["--treshold. Did you mean --threshold?"]),
        ("eval --episode=3", ["--episode. Did you mean --episodes?"]),
        ("watch a --fpss 3", ["--fpss. Did you mean --fps?"]),
        ("export a --Format numpy", ["--Format. Did you mean --format?"]),
        ("list --datadir a", ["--datadir. Did you mean --data-dir?"]),
        ("inspect a --all", ["--all. `purerl inspect --help` lists all."]),
        ("doctor --rep", ["--rep. Did you mean --replay?"]),
        ("show --sour ppo", ["--sour. Did you mean --source?"]),
        ("resume a --hid 8 --step 9", ["--hid. `purerl resume --help`", "Did you mean --steps?"]),
    ],
)
def test_unknown_flags_are_refused_with_the_nearest_name(line, messages, capsys):
    with pytest.raises(SystemExit, match="2"):
        program.main(line.split())
    said = capsys.readouterr().err
    assert all(message in said for message in messages), said
    assert said.count("unknown flag --") == len(messages)


def test_positional_arguments_are_parsed_and_unexpected_ones_refused(capsys):
    parser = Parser("x", "What x does.")
    parser.add_argument("what", nargs="?")
    parser.add_argument("-n", type=int)
    assert vars(parser.parse_args(["-n", "-3", "--", "--what"])) == {"what": "--what", "n": -3}
    for words, message in ((["a", "b"], "unexpected argument 'b'"), (["-q"], "unknown flag -q.")):
        with pytest.raises(SystemExit, match="2"):
            parser.parse_args(words)
        assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("1,2", ["1", "2"]),
        ("[64,64],[32]", ["[64,64]", "[32]"]),
        ("(1,2), 3", ["(1,2)", "3"]),
        ("[64,64]", ["[64,64]"]),
        ("a", ["a"]),
        ("1,", ["1", ""]),
    ],
)
def test_commas_separate_values_and_brackets_keep_a_tuple_together(text, parts):
    assert options.split_values(text) == parts
