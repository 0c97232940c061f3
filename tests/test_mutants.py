"""Each mutant of tests/mutants still changes one piece of the sources, for tests that exist."""

from pathlib import Path

import pytest

from tests.mutants.__main__ import MUTANTS, ROOT

FILES = sorted({mutant.file for mutant in MUTANTS})


@pytest.mark.parametrize("file", FILES)
def test_the_pieces_that_mutants_replace_are_in_the_sources_once(file):
    source = (ROOT / file).read_text()
    wanted = [mutant.old for mutant in MUTANTS if mutant.file == file]
    assert [old for old in wanted if source.count(old) != 1] == []


def test_the_tests_that_are_meant_to_catch_mutants_exist():
    words = {word for mutant in MUTANTS for word in mutant.tests.split()}
    paths = {Path(word.partition("::")[0]) for word in words if word.startswith("tests/")}
    assert [path for path in sorted(paths) if not (ROOT / path).exists()] == []
