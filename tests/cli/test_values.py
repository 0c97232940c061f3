"""Values are parsed by the type of their setting, and never evaluated."""

import argparse
import random

import pytest

from purerl import algos
from purerl.cli import values
from purerl.runs.settings import aliases

FUZZ = 4_000


WORDS = {  # algorithm, setting, text -> value; None: refused
    ("sac", "steps", "1e6"): 1_000_000,
    ("sac", "steps", "100k"): 100_000,
    ("sac", "steps", "2M"): 2_000_000,
    ("sac", "steps", "1.1m"): 1_100_000,
    ("sac", "steps", "1_000_000"): 1_000_000,
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
def test_values_are_parsed_by_the_type_of_their_setting(where, value):
    algo, key, word = where
    setting = aliases.resolve_name(algo, key)
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
def test_random_text_is_parsed_or_refused(algo):
    rng = random.Random(algos.NAMES.index(algo))
    settings = list(aliases.list_settings(algo).values())
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


def test_only_integers_of_32_bits_are_seeds(capsys):
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=values.parse_seed)
    assert parser.parse_args(["--seed", str(2**32 - 1)]).seed == 2**32 - 1
    for word in (str(2**32), "-1", "1.5", "x"):
        with pytest.raises(SystemExit):
            parser.parse_args([f"--seed={word}"])
        assert "argument --seed: " in capsys.readouterr().err
