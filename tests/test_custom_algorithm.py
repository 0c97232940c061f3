"""A custom algorithm, `examples/sac_ensemble.py`, works wherever one of purerl's own does."""

import dataclasses
import json
import sys
import types

import gymnasium
import jax
import numpy as np
import pytest

import purerl
from purerl import algos
from purerl.algos import ppo, sac
from purerl.errors import ConfigError
from purerl.loops import gym as loop
from purerl.loops import snapshot
from purerl.runs.training import train
from purerl.runs.training.progress_bar import Screen
from purerl.spaces import EnvSpec
from tests.cli.commands.call import call
from tests.mpi.launch import ROOT
from tests.probes import Both

SMALL = {"steps": 200, "steps_per_epoch": 100, "start_steps": 50, "update_after": 50}
SMALL |= {"batch_size": 8, "hidden": (8,), "num_test_episodes": 1, "critics": 3, "quiet": True}


@pytest.fixture(scope="module")
def sac_ensemble():
    sys.path.insert(0, str(ROOT / "examples"))
    import sac_ensemble

    yield sac_ensemble
    sys.path.remove(str(ROOT / "examples"))


@pytest.fixture(scope="module")
def run(sac_ensemble, tmp_path_factory):
    folder = str(tmp_path_factory.mktemp("runs"))
    return purerl.train(sac_ensemble, "Pendulum-v1", data_dir=folder, **SMALL)


OBS = np.array([[0.5, -0.5, 1.0]], np.float32)


def test_it_trains_in_a_folder_and_is_loaded_with_its_module(sac_ensemble, run):
    assert json.loads((run.folder / "config.json").read_text())["algo"] == "sac_ensemble"
    again = purerl.load(run.folder, algo=sac_ensemble)
    assert again.algo is sac_ensemble
    np.testing.assert_array_equal(again.policy(OBS), run.policy(OBS))
    assert again.evaluate(episodes=1).mean == run.evaluate(episodes=1).mean


def test_no_file_imports_its_module(run):
    with pytest.raises(ConfigError, match=r"got 'sac_ensemble'.*--algo MODULE .* or algo=module"):
        purerl.load(run.folder)
    with pytest.raises(ConfigError, match=r"algo is 'sac_ensemble' in the .*, got .* of 'sac'"):
        purerl.load(run.folder, algo=sac)


def test_it_can_normalise_observations_as_sac_does(sac_ensemble, tmp_path):
    settings = SMALL | {"normalise_obs": True}
    run = purerl.train(sac_ensemble, "Pendulum-v1", data_dir=str(tmp_path), **settings)
    assert float(run.params.obs_stats.rows) == 8 * int(run.state.step) > 0


def test_it_resumes_bit_for_bit(sac_ensemble, run, tmp_path):
    settings = SMALL | {"steps": 300}
    whole = purerl.train(sac_ensemble, "Pendulum-v1", data_dir=str(tmp_path), **settings)
    train.resume(run.folder, steps=300, screen=Screen(quiet=True), algo=sac_ensemble)
    resumed = purerl.load(run.folder, algo=sac_ensemble)
    for a, b in zip(*(jax.tree.leaves(one.params) for one in (whole, resumed)), strict=True):
        np.testing.assert_array_equal(a, b)


def test_its_policy_is_exported_as_stablehlo_and_not_for_numpy(run, tmp_path):
    pytest.importorskip("flatbuffers")
    assert (run.export("stablehlo", tmp_path / "policy") / "policy.stablehlo").exists()
    with pytest.raises(ConfigError, match="needs an algorithm of purerl, but sac_ensemble"):
        run.export("numpy")


def test_the_commands_take_its_import_path(run, tmp_path, monkeypatch, capsys):
    monkeypatch.syspath_prepend(ROOT / "examples")
    monkeypatch.setattr(purerl, "setup", lambda **_: None)  # conftest.py has called it
    words = ["--hidden", "8", "--steps", "120", "--start-steps", "50", "--update-after", "50"]
    words += ["--steps-per-epoch", "120", "--num-test-episodes", "0", "--critics", "3"]
    words += ["--batch-size", "8"]
    words += ["--data-dir", str(tmp_path)]
    assert call("train", "sac_ensemble", "--env", "Pendulum-v1", *words) == 0
    made = tmp_path / "pendulum-v1-sac_ensemble" / "pendulum-v1-sac_ensemble_s0"
    assert f"purerl resume {made} --steps 240 --algo sac_ensemble" in capsys.readouterr().out
    assert call("eval", made, "-n", "1", "--algo", "sac_ensemble") == 0
    assert call("eval", made, "-n", "1") == 2
    assert "--algo MODULE" in capsys.readouterr().err


def test_all_that_a_module_lacks_is_named_at_once():
    broken = types.SimpleNamespace(Spec=sac.Spec, SCHEDULE=sac.SCHEDULE, init=sac.init)
    with pytest.raises(ConfigError, match="it lacks act, policy, loss, update, NOISE_DRAWS"):
        purerl.train(broken, "Pendulum-v1")
    parts = ("Spec", "SCHEDULE", "init", "act", "policy", "loss", "update")
    broken = types.SimpleNamespace(**{name: getattr(ppo, name) for name in parts})
    with pytest.raises(ConfigError, match="it lacks prepare"):
        loop.start(broken, None, None, ppo.SCHEDULE, 0)


def test_a_schedule_of_another_kind_is_refused():
    broken = types.SimpleNamespace(SCHEDULE={"steps": 3})
    with pytest.raises(ConfigError, match="SCHEDULE of custom must be an OffPolicySchedule or an"):
        algos.load(broken)


def test_namespaces_and_classes_are_algorithms():
    parts = {name: getattr(sac, name) for name in (*algos.CONTRACT, "NOISE_DRAWS")}
    spaces = purerl.spaces.EnvSpec.of(Both())
    schedule = sac.OffPolicySchedule(
        steps=20, steps_per_epoch=20, start_steps=10, update_after=10, update_every=10, batch_size=4
    )
    spec = sac.Spec(spaces, hidden=(4,))
    static = {name: staticmethod(x) if callable(x) else x for name, x in parts.items()}
    kinds = (types.SimpleNamespace(**parts), type("Mine", (), static), sac)
    ends = []
    for kind in kinds:
        carry, _ = loop.advance(loop.start(kind, spec, Both, schedule, 0))
        carry, record = loop.advance(carry)
        ends.append((record["loss_q"], record["updates"]))
    assert ends[0] == ends[1] == ends[2]


def test_names_are_never_those_of_another_algorithm():
    assert algos.get_name(sac) == "sac"
    impostor = types.ModuleType("sac")
    assert algos.get_name(impostor) == "custom.sac"
    assert algos.get_name(types.SimpleNamespace()) == "custom"
    sys.modules["ppo"] = own = types.ModuleType("ppo")  # a file ppo.py of the user
    try:
        assert algos.get_name(own) == "custom.ppo"
    finally:
        del sys.modules["ppo"]
    assert algos.get_name(types.ModuleType("my.redq")) == "my.redq"
    copy = types.ModuleType("purerl.algos.ppo")  # a changed copy, loaded beside the original
    assert algos.get_name(copy) == "purerl.algos.ppo"


@pytest.mark.parametrize("name", ["sax", "no_such_module", "no.such.module", "a b", "os;x", ".x"])
def test_an_unknown_name_is_refused_with_the_names_there_are(name):
    with pytest.raises(ConfigError, match=r"algorithm must be one of acer, .* got"):
        algos.find(name)


def test_a_module_that_is_no_algorithm_is_refused():
    with pytest.raises(ConfigError, match="is not an algorithm: it lacks Spec, SCHEDULE, init"):
        algos.find("json")
    with pytest.raises(ConfigError, match="algo must be a name, module, class or SimpleNamespace"):
        algos.load(3)
    parts = {name: getattr(sac, name) for name in (*algos.CONTRACT, "NOISE_DRAWS")}
    with pytest.raises(ConfigError, match="Spec of custom must be a frozen dataclass"):
        algos.load(types.SimpleNamespace(**parts | {"Spec": dict}))


def test_an_import_error_inside_a_package_is_shown(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "broken_package").mkdir()
    (tmp_path / "broken_package" / "__init__.py").write_text("import nothing_of_this_name")
    with pytest.raises(ModuleNotFoundError, match="nothing_of_this_name"):
        algos.find("broken_package.redq")


def test_it_may_bring_facts_about_itself():
    mine = types.ModuleType("mine")
    mine.ALGORITHM = algos.Algorithm("Mine", ("discrete",), {}, ())
    assert algos.get_facts(mine).actions == ("discrete",)
    assert algos.get_facts(types.ModuleType("other", "Title.\n\nMore.")).title == "Title."
    assert algos.get_facts("td3") is algos.ALGORITHMS["td3"]


class Costly(gymnasium.wrappers.TimeLimit):
    """Pendulum, with the square of the action as its cost."""

    def __init__(self):
        super().__init__(gymnasium.make("Pendulum-v1").unwrapped, 30)

    def step(self, action):
        *step, info = super().step(action)
        return *step, info | {"cost": float(action[0] ** 2), "twice": np.float32([1, 2]) * action}


STORED = {"cost": np.float32(0), "twice": np.zeros(2, np.float32)}


def with_costs(algo, penalise):
    """Return an algorithm that stores values of `info`; its update begins with `penalise`."""
    parts = {k: getattr(algo, k) for k in (*algos.CONTRACT, "NOISE_DRAWS") if hasattr(algo, k)}
    parts |= {"__name__": f"costly_{algo.__name__}", "stored_info": lambda spec: STORED}

    def update(state, batch):
        return algo.update(state, penalise(batch))

    return parts | {"update": jax.jit(update)}


@pytest.mark.parametrize("every", [50, 1])
def test_an_off_policy_algorithm_stores_values_of_info(every):
    def penalise(batch):
        return batch._replace(rew=batch.rew - batch.extra["cost"])

    def is_stored(data):
        count = int(carry.buffer.stored)
        act, extra = np.asarray(data.act)[:count], jax.tree.map(np.asarray, data.extra)
        np.testing.assert_allclose(extra["cost"][:count], act[:, 0] ** 2, rtol=1e-6)
        np.testing.assert_allclose(extra["twice"][:count], act * [[1.0, 2.0]], rtol=1e-6)
        return count

    mine = algos.load(types.SimpleNamespace(**with_costs(sac, penalise)))
    spec = mine.Spec(EnvSpec.of(Costly()), hidden=(4,))
    schedule = dataclasses.replace(
        mine.SCHEDULE, steps=100, update_after=40, batch_size=8, replay_size=90,
        num_test_episodes=0, update_every=every,
    )  # fmt: skip
    carry = loop.start(mine, spec, Costly, schedule, 0)
    while carry.steps < 50:
        carry, _ = loop.advance(carry)
    assert is_stored(carry.buffer.data) == 50
    frozen = snapshot.freeze(carry)
    while carry.steps < 100:
        carry, _ = loop.advance(carry)
    assert is_stored(carry.buffer.data) == 90
    whole = snapshot.freeze(carry)
    carry, lost = snapshot.thaw(loop.start(mine, spec, Costly, schedule, 0), frozen)
    assert not lost
    while carry.steps < 100:
        carry, _ = loop.advance(carry)
    again = snapshot.freeze(carry)
    assert {"extra.cost", "extra.twice"} < set(again.rows)
    for name, rows in (whole.rows | whole.learner).items():
        np.testing.assert_array_equal((again.rows | again.learner)[name], rows)


def test_an_on_policy_algorithm_gets_values_of_info_in_its_rollouts():
    seen = []

    def prepare(params, rollout):
        jax.debug.callback(lambda *x: seen.append(x), rollout.act, rollout.extra["cost"])
        return ppo.prepare(params, rollout._replace(rew=rollout.rew - rollout.extra["cost"]))

    mine = algos.load(types.SimpleNamespace(**with_costs(ppo, lambda x: x) | {"prepare": prepare}))
    spec = mine.Spec(EnvSpec.of(Costly()), hidden=(4,), train_pi_iters=1, train_v_iters=1)
    schedule = dataclasses.replace(mine.SCHEDULE, steps=40, rollout_steps=20)
    list(loop.run(mine, spec, Costly, schedule, 0))
    (first, _) = seen
    act, cost = map(np.asarray, first)
    assert cost.shape == (20, 1)
    low, high = spec.env.action.low[0], spec.env.action.high[0]
    np.testing.assert_allclose(cost, np.clip(act[..., 0], low, high) ** 2, rtol=1e-5)
