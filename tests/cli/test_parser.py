"""Flags of the commands that have no settings: taken whole, and named where they are not known."""

import pytest
from purerl.cli.options import Parser

from purerl.cli import main as program


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
        ("inspect a --all", ["--all. purerl inspect --help lists all."]),
        ("doctor --rep", ["--rep. Did you mean --replay?"]),
        ("show --sour ppo", ["--sour. Did you mean --source?"]),
        ("resume a --hid 8 --step 9", ["--hid. purerl resume --help", "Did you mean --steps?"]),
    ],
)
def test_no_flag_is_known_by_its_beginning_and_the_nearest_is_named(line, messages, capsys):
    with pytest.raises(SystemExit, match="2"):
        program.main(line.split())
    said = capsys.readouterr().err
    assert all(message in said for message in messages), said
    assert said.count("unknown flag --") == len(messages)


def test_words_that_are_no_flags_stay_words(capsys):
    parser = Parser("x", "What x does.")
    parser.add_argument("what", nargs="?")
    parser.add_argument("-n", type=int)
    assert vars(parser.parse_args(["-n", "-3", "--", "--what"])) == {"what": "--what", "n": -3}
    for words, message in ((["a", "b"], "one word too many, 'b'"), (["-q"], "unknown flag -q.")):
        with pytest.raises(SystemExit, match="2"):
            parser.parse_args(words)
        assert message in capsys.readouterr().err
