"""Grids: names as in Spinning Up, values, and functions that are refused."""

import functools
import subprocess
import sys

import pytest

from purerl.runs.sweeps.grid import ExperimentGrid, nest
from tests.mpi.launch import clean
from tests.runs.sweeps import thunks

# Derived by hand from the rules of Spinning Up: parameters (key, values, shorthand, in_name), a
# variant, and its name.
NAMES = [
    ([("gamma", [0.9, 0.99])], {"gamma": 0.99}, "bench_gam0-99"),
    ([("gamma", 0.9)], {"gamma": 0.9}, "bench"),
    ([("gamma", [0.9], None, True)], {"gamma": 0.9}, "bench_gam0-9"),
    ([("pi_lr", [1e-5, 3e-4])], {"pi_lr": 1e-5}, "bench_pi1e-05"),
    ([("pi_lr", [1e-5, 3e-4], "lr")], {"pi_lr": 3e-4}, "bench_lr0-0003"),
    ([("gamma", [0.9, 0.99], "")], {"gamma": 0.9}, "bench_0-9"),
    (
        [("ac_kwargs:hidden_sizes", [(32,), (64, 64)])],
        {"ac_kwargs": {"hidden_sizes": (64, 64)}},
        "bench_ac-hid64-64",
    ),
    (
        [("ac_kwargs:hidden_sizes", [(32,), (64, 64)], "hid")],
        {"ac_kwargs": {"hidden_sizes": (32,)}},
        "bench_hid32",
    ),
    ([("env_name", "CartPole-v1", "", True)], {"env_name": "CartPole-v1"}, "bench_cartpole-v1"),
    ([("seed", [0, 10], None, True)], {"seed": 10}, "bench"),
    ([("bug", [False, True])], {"bug": True}, "bench_bug"),
    ([("bug", [False, True])], {"bug": False}, "bench"),
    ([("bug", [False, None])], {"bug": False}, "bench_bugfalse"),
    ([("act", [len, max])], {"act": max}, "bench_actmax"),
    ([("n", [-1, 2])], {"n": -1}, "bench_n-1"),
    ([("a_b", [1, 2]), ("c", ["X/y z", 3])], {"a_b": 2, "c": "X/y z"}, "bench_ab2_cx-y-z"),
]


def make_grid(parameters, name="bench"):
    grid = ExperimentGrid(name)
    for one in parameters:
        grid.add(*one)
    return grid


@pytest.mark.parametrize(("parameters", "variant", "name"), NAMES)
def test_variants_have_spinning_ups_names(parameters, variant, name):
    grid = make_grid(parameters)
    assert grid.variant_name(variant) == name
    assert any(variant.items() <= one.items() for one in grid.variants())
    named = grid.name_runs()
    runs = [(word, nest(settings) | {"seed": seed}) for word, seed, settings in named]
    assert (name, {"seed": 0} | variant) in runs


def test_names_in_a_grid_without_a_name_do_not_start_with_an_underscore():
    assert make_grid([("gamma", [1, 2])], "").name_runs()[0][0] == "gam1"


def test_the_first_key_changes_slowest_and_nested_keys_make_dictionaries():
    named = make_grid([("a:b", [1, 2]), ("a:c", ["x", "y"]), ("seed", [0])]).name_runs()
    assert [nest(settings) for _, _, settings in named] == [
        {"a": {"b": 1, "c": "x"}},
        {"a": {"b": 1, "c": "y"}},
        {"a": {"b": 2, "c": "x"}},
        {"a": {"b": 2, "c": "y"}},
    ]
    assert nest({"a:b": 1, "a:c:d": 2, "e": 3}) == {"a": {"b": 1, "c": {"d": 2}}, "e": 3}


def test_variants_with_equal_names_are_numbered():
    named = make_grid([("gamma", [0.1, "0-1"]), ("seed", [0, 1])]).name_runs()
    assert [(name, seed) for name, seed, _ in named] == [
        ("bench_gam0-1", 0), ("bench_gam0-1", 1), ("bench_gam0-1-2", 0), ("bench_gam0-1-2", 1),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ([("a", 1), ("a", 2)], "'a' clashes with 'a'"),
        ([("a", 1), ("a:b", 2)], "'a:b' clashes with 'a'"),
        ([("a:b", 1), ("a", 2)], "'a' clashes with 'a:b'"),
        ([("a", [])], "at least one value"),
        ([("", [1])], "key must be a string that is not empty"),
    ],
)
def test_invalid_parameters_of_a_grid_are_refused(parameters, message):
    with pytest.raises(ValueError, match=message):
        make_grid(parameters)


def test_names_that_could_leave_the_folder_are_refused():
    with pytest.raises(ValueError, match="name must consist of letters"):
        ExperimentGrid("../x")
    with pytest.raises(ValueError, match="at most 100 bytes"):
        make_grid([("word", ["y" * 200, "z"])]).name_runs()
    assert make_grid([("word", ["../y", "; rm -rf /"])]).name_runs()[0][0] == "bench_wor---y"


def test_print_shows_values_and_counts(capsys):
    make_grid([("ac_kwargs:hidden_sizes", [(32,), (64, 64)]), ("seed", [0, 10, 20])]).print()
    out = capsys.readouterr().out
    assert "ac_kwargs:hidden_sizes [ac-hid]: [32], [64, 64]" in out
    assert "2 variants, 6 runs (one per seed)" in out
    make_grid([("gamma", [0.9])]).print()
    assert capsys.readouterr().out.endswith("  1 variant, 1 run\n")


def test_functions_that_a_process_cannot_import_are_refused_at_once(tmp_path):
    def inner(seed):
        return seed

    grid = make_grid([("seed", [0])])
    for thunk in (lambda seed: seed, inner, functools.partial(thunks.fate, "good"), 3):
        with pytest.raises(TypeError, match="at the top of a module"):
            grid.run(thunk, data_dir=str(tmp_path))
    with pytest.raises(ValueError, match="Did you mean sac"):
        grid.run("sca", data_dir=str(tmp_path))
    with pytest.raises(ValueError, match="num_cpu must be 1 for a function.*, got 2"):
        grid.run(thunks.fate, num_cpu=2, data_dir=str(tmp_path))
    with pytest.raises(ValueError, match="jobs must be an integer of at least 1"):
        grid.run(thunks.fate, jobs=0, data_dir=str(tmp_path))
    assert not list(tmp_path.iterdir())


def test_a_key_of_the_grid_may_contain_the_functions(tmp_path):
    grid = make_grid([("what", [thunks.fate]), ("kind", "good")])
    (row,) = grid.run("what", data_dir=str(tmp_path)).rows
    assert (row.status, row.score) == ("done", 1.0)


def test_a_script_without_a_main_guard_gets_an_error_that_names_it(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "from purerl.runs.sweeps.grid import ExperimentGrid\n"
        "def mine(seed):\n    return 1.0\n"
        "grid = ExperimentGrid('g')\n"
        f"sweep = grid.run(mine, data_dir={str(tmp_path)!r})\nprint(sweep.rows[0].reason)\n"
    )
    done = subprocess.run([sys.executable, script], env=clean(), capture_output=True, text=True)
    assert "__name__ == '__main__'" in done.stdout + done.stderr
