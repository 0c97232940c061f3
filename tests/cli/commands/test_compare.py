"""`purerl compare` from the command line."""

import json

import pytest

from purerl.cli.main import main
from tests.runs.analysis.made_tables import write_run, write_seeds


def test_compare_prints_tables_and_writes_markdown_and_json(tmp_path, capsys):
    write_seeds(tmp_path, "a|b", [1, 2, 3, 4, 5])
    write_seeds(tmp_path, "c\x1b[31m", [11, 12, 13, 14, 15])
    out = tmp_path / "t.md"
    assert main(["compare", str(tmp_path), "--threshold", "12", "--out", str(out)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].endswith("Seconds: wall clock, including compilation.")
    assert lines[1].split()[-4:] == ["steps", "to", "12", "seconds"]
    assert lines[2].split()[:4] == ["CartPole-v1", "a|b", "5", "3"]
    assert "not reached (0 of 5)" in lines[2]
    assert "100 (4 of 5)" in lines[3]
    assert lines[7].endswith("0.00         0.00 to 0.00  c?[31m is better")
    assert lines[-1] == f"table: {out}"
    text = out.read_text()
    assert "| CartPole-v1 | a\\|b | 5 | 3 | " in text
    assert "\x1b" not in text
    assert [line.replace("\\|", "").count("|") for line in text.splitlines()[2:6]] == [8] * 4
    assert main(["compare", str(tmp_path), "--threshold", "99", "--json"]) == 0
    content = json.loads(capsys.readouterr().out)
    assert content["pairs"][0]["probability"] == 0
    assert content["rows"][0]["steps"] is None
    assert content["rows"][1]["scores"] == [11, 12, 13, 14, 15]


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["nothing"], 2, "purerl compare: no runs at 'nothing'"),
        (["a", "--out", "a_s0/progress.txt"], 2, "--out must end in .md"),
        (["a", "--out", "a/a_CartPole-v1_s0/progress.txt/x.md"], 5, "could not be written"),
        (["a", "--group", "colour"], 2, "no run has a setting 'colour'"),
    ],
)
def test_compare_reports_mistakes_in_one_line(tmp_path, monkeypatch, capsys, words, code, message):
    write_seeds(tmp_path, "a", [1, 2, 3, 4, 5])
    monkeypatch.chdir(tmp_path)
    assert main(["compare", *words]) == code
    said = capsys.readouterr().err
    assert message in said
    assert len(said.splitlines()) == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--last", "0"], "last must be an integer of at least 1, got 0"),
        (["--threshold", "nan"], "threshold must be a number, got nan"),
        (["--scale", "E=1"], "--scale must be ENV=LOW,HIGH, for example Hopper-v5=18.8,3226, got"),
        (["--scale", "1,2"], "--scale must name an environment, as in Hopper-v5=1,2."),
        (["--scale", "E=0,1", "--scale", "E=0,2"], "--scale of E is given twice. Give it once."),
        (["--scale", "E=2,1"], "scale of E must be two finite numbers, the lower one first"),
        (["--metric", "best"], "metric must be one of iqm, mean, median, got 'best'"),
    ],
)
def test_values_out_of_range_are_usage_errors(words, message, capsys):
    assert main(["compare", "a", *words]) == 2
    assert message in capsys.readouterr().err


def test_tables_show_runs_and_seeds_if_their_numbers_differ(tmp_path, capsys):
    for number in range(5):
        write_run(tmp_path / f"{number}_s0", [number], "a", 0, clip=number)
    assert main(["compare", str(tmp_path), "--group", "algo"]) == 0
    assert "CartPole-v1  ppo        1 in 5 runs  2 " in capsys.readouterr().out


def test_compare_reads_a_scale_for_each_environment(tmp_path, capsys):
    for env in ("a=E", "F"):
        write_seeds(tmp_path, "x", [5, 15], env)
    words = ["--scale", "a=E=-5,15", "--scale", "F=0,100", "--metric", "mean", "--json"]
    assert main(["compare", str(tmp_path), *words]) == 0
    assert json.loads(capsys.readouterr().out)["overall"][0]["scores"] == [0.05, 0.15, 0.5, 1]
