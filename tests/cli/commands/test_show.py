"""`purerl show`: equations, settings and source lines of an algorithm."""

import dataclasses
import inspect
import re

import pytest

from purerl import algos
from tests.cli.commands.call import call


@pytest.mark.parametrize("name", algos.NAMES)
def test_show_prints_lines_and_defaults_of_the_module(name, capsys):
    assert call("show", name) == 0
    said, algo = capsys.readouterr().out, algos.load(name)
    assert said.startswith(inspect.getdoc(algo).partition("\n")[0])
    for function in ("init", "loss", "update", "policy"):
        where = re.search(rf"^  {function}\(.*?algos/{name}\.py:(\d+)", said, re.MULTILINE)
        line = inspect.getsource(algo).splitlines()[int(where[1]) - 1]
        assert line.startswith(f"def {function}(")
    for cls, given in ((algo.Spec, None), (type(algo.SCHEDULE), algo.SCHEDULE)):
        for field in dataclasses.fields(cls):
            if field.name == "env":
                continue
            value = field.default if given is None else getattr(given, field.name)
            row = re.search(rf"^  {field.name} +(.*)$", said, re.MULTILINE)[1]
            shown = re.match(r"(\(.*?\)|\S+)", row)[1].replace("_", "")
            assert shown == str(value).replace("_", "") or shown == repr(value).replace("_", "")


def test_show_prints_the_source_and_refuses_unknown_algorithms(capsys):
    assert call("show", "td3", "--source") == 0
    assert capsys.readouterr().out == inspect.getsource(algos.load("td3"))
    assert call("show", "td4") == 2
    assert "Did you mean td3?" in capsys.readouterr().err
    assert call("show", "TD3") == 2
    assert "Did you mean td3?" in capsys.readouterr().err


@pytest.mark.parametrize("name", algos.NAMES)
def test_show_prints_the_docstring_and_the_help_of_each_setting(name, capsys):
    call("show", name)
    said, algo = capsys.readouterr().out, algos.load(name)
    assert said.startswith(algo.__doc__.strip())
    for source in (algo.Spec, algo.SCHEDULE):
        for field in dataclasses.fields(source):
            if text := field.metadata.get("help"):
                assert re.search(rf"^  {field.name} .* {re.escape(text)}$", said, re.MULTILINE)
