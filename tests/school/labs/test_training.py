"""Training a copy: the loop runs the copy's functions, not those of the library."""

from types import SimpleNamespace

import numpy as np
import pytest

from purerl import algos
from purerl.errors import WrongAnswer
from purerl_school.labs import planting, training


@pytest.fixture
def copy(tmp_path):
    """A copy of DQN whose exploration rate rises."""
    file = tmp_path / "lab_dqn_2" / "dqn.py"
    file.parent.mkdir()
    file.write_text(planting.plant("dqn", 2).source)
    return training.load_copy(file)


def test_every_algorithm_with_labs_has_a_setup_with_settings_that_exist():
    assert tuple(sorted(training.SETUPS)) == planting.NAMES
    for name, setup in training.SETUPS.items():
        algo = algos.load(name)
        assert {*setup.spec} <= {*algo.Spec.__dataclass_fields__}
        assert {*setup.schedule} <= {*algo.SCHEDULE.__dataclass_fields__}
        assert setup.metrics[0] == "return"


def test_a_copy_is_a_module_of_its_own(copy):
    assert copy.__name__ == "lab_dqn_2.dqn"
    assert algos.load(copy) is copy
    assert algos.get_name(copy) == "lab_dqn_2.dqn"
    assert copy.update is not algos.dqn.update
    assert copy.Spec.__module__ == "lab_dqn_2.dqn"


def test_the_loop_gets_the_copy_and_the_setup_and_its_epochs_are_reported(copy, monkeypatch):
    started, setup = [], training.SETUPS["dqn"]

    def start(algo, spec, env, schedule, seeds):
        started.append((algo, spec, env.spec, schedule, seeds))
        return SimpleNamespace(carries=[SimpleNamespace(steps=0)])

    def advance(carry):
        steps = carry.carries[0].steps + 5_000
        records = [{"steps": steps, "ep_returns": found, "q": 2.0} for found in ([1.0, 4.0], [])]
        return SimpleNamespace(carries=[SimpleNamespace(steps=steps)]), records

    monkeypatch.setattr(training, "scan", SimpleNamespace(start=start, advance=advance))
    rows = list(training.train(copy, setup, [3, 4]))
    ((algo, spec, env, schedule, seeds),) = started
    assert (algo, env, seeds) == (copy, spec.env, [3, 4])
    assert isinstance(spec, copy.Spec)
    assert (spec.hidden, schedule.steps) == (setup.spec["hidden"], setup.schedule["steps"])
    assert schedule.batch_size == algos.dqn.SCHEDULE.batch_size
    assert [row[0]["steps"] for row in rows] == [5_000, 10_000, 15_000, 20_000]
    empty = dict.fromkeys(setup.metrics) | {"steps": 5_000, "q": 2.0}
    assert rows[0] == [empty | {"return": 2.5}, empty]
    assert [*rows[0][0]] == ["steps", *setup.metrics]


@pytest.mark.complete
def test_a_copy_trains_with_its_error(copy):
    short = {"steps": 200, "steps_per_epoch": 100, "start_steps": 50, "update_after": 64}
    setup = training.SETUPS["dqn"]
    setup = setup._replace(spec={"hidden": (4,), "eps_decay": 50}, schedule=setup.schedule | short)
    rows = list(training.train(copy, setup, [0, 1]))
    assert [[row["steps"] for row in several] for several in rows] == [[100] * 2, [200] * 2]
    assert rows[-1][0]["epsilon"] > 1.0  # which the right module never reaches
    assert rows[-1][0]["q"] != rows[-1][1]["q"]
    assert np.isfinite(rows[-1][0]["return"])


def test_a_copy_that_python_cannot_run_is_a_wrong_answer(tmp_path):
    file = tmp_path / "ppo.py"
    file.write_text("import no_such_package\n")
    with pytest.raises(WrongAnswer, match=r"ppo.py cannot be imported: ModuleNotFoundError"):
        training.load_copy(file)
