"""Runs in Python: `purerl.train`, `purerl.load`, and the methods of a run."""

import dataclasses
import json
import os
import re
import shutil
import signal
import sys
import threading
from functools import partial
from pathlib import Path

import gymnasium
import jax
import numpy as np
import pytest
from flax import linen as nn

import purerl
from purerl import errors, rng
from purerl.errors import ConfigError, Damaged, EnvFault, NoCheckpoint
from purerl.runs.analysis import tables
from purerl.runs.record import arrays as arrays_
from purerl.runs.record import files
from purerl.runs.settings import config as configs
from purerl.runs.sweeps import tasks
from purerl.runs.training import train as training
from purerl.runs.training.progress_bar import Screen
from purerl.spaces import Box, Discrete, EnvSpec
from tests.cases import BOX, DISCRETE
from tests.cli.commands import call as commands
from tests.runs.trained import COMMON, SMALL, begun, train_tiny_run

OBS = {"CartPole-v1": (4,), "Pendulum-v1": (3,)}


def to_bytes(tree):
    return [np.asarray(x).tobytes() for x in jax.tree.leaves(tree)]


def copy_folder(run, tmp_path):
    return shutil.copytree(run.folder, tmp_path / "copy")


def play_episodes(run, episodes, limit):
    """Play episodes with `run.policy` and Gymnasium only; return their returns and lengths."""
    env, returns, lengths = gymnasium.make(run.config.env), [], []
    for number in range(episodes):
        obs, _ = env.reset(seed=rng.host_seed(10_000, 0, "eval", 0, 0, number))
        total, length, over = 0.0, 0, False
        while not over:
            action = run.policy(obs)
            assert env.action_space.contains(action)
            obs, reward, terminated, truncated, _ = env.step(action)
            total, length = total + reward, length + 1
            over = terminated or truncated or length == limit
        returns.append(total)
        lengths.append(length)
    env.close()
    return returns, lengths


LATER = ("sac_discrete", "tqc")  # `make test-all` runs them
EACH = [pytest.param(x, marks=[pytest.mark.complete] if x in LATER else []) for x in SMALL]


@pytest.mark.parametrize("algo", EACH)
def test_a_loaded_policy_equals_the_trained_one(algo, tmp_path, monkeypatch):
    run = train_tiny_run(algo) if algo in ("ppo", "sac") else begun(algo)
    folder = copy_folder(run, tmp_path)
    shutil.rmtree(folder / "replay", ignore_errors=True)  # it must not be needed
    with monkeypatch.context() as patch:
        patch.setattr(gymnasium, "make", None)  # no environment must be made
        loaded = purerl.load(folder)
    assert (loaded.step, loaded.config) == (run.step, run.config)
    assert to_bytes(loaded.params) == to_bytes(run.params)
    obs = np.random.default_rng(0).normal(size=(5, *OBS[run.config.env]))
    act = loaded.policy(obs)
    assert act.tolist() == run.algo.policy(run.params, obs).tolist()


@pytest.mark.parametrize("algo", ["dqn", "sac"])
def test_a_policy_takes_any_number_of_observations(algo):
    run, obs = begun(algo), np.random.default_rng(0).normal(size=(5, *OBS[SMALL[algo][0]]))
    act = run.policy(obs)
    np.testing.assert_allclose([run.policy(row) for row in obs], act, rtol=1e-5)
    assert run.policy(obs[None]).shape == (1, *act.shape)


@pytest.mark.parametrize("algo", ["ppo", "sac"])
def test_an_evaluation_equals_episodes_played_by_hand(algo):
    run = train_tiny_run(algo)
    returns, lengths = play_episodes(run, 2, 30)
    found = run.evaluate(episodes=2)
    np.testing.assert_allclose(found.returns, returns, rtol=1e-5)  # rewards are stored in 32 bits
    assert list(found.lengths) == lengths


def test_actions_with_a_key_explore_and_stay_in_the_box(tmp_path):
    obs = np.zeros((200, 3))
    for algo in ("vpg", "td3"):
        run = begun(algo)
        first, again, other = (run.policy(obs, key=jax.random.key(i)) for i in (0, 0, 1))
        assert (first == again).all()
        assert not (first == other).all()
        assert first.std() > 0.05
        assert np.abs(first).max() <= 2.0
    wide = dataclasses.replace(begun("vpg").params.spec, log_std_init=2.0)
    params = begun("vpg").algo.init(jax.random.key(0), wide).params
    run = dataclasses.replace(begun("vpg"), params=params)
    assert np.abs(run.policy(obs, key=jax.random.key(0))).max() == 2.0
    with pytest.raises(ValueError, match="key must be one typed key"):
        run.policy(obs, key=0)


def test_observations_of_a_wrong_shape_or_dtype_are_refused():
    run = train_tiny_run("ppo")
    assert isinstance(run.policy([0, 0, 0, 0]), int)
    assert run.policy(np.zeros((2, 4), np.int64)).dtype == np.int64
    with pytest.raises(ValueError, match=r"obs must have shape \[..., \*\(4,\)\], got \(3,\)"):
        run.policy(np.zeros(3))
    with pytest.raises(ValueError, match="obs must be of dtype float32, got complex128"):
        run.policy(np.zeros(4, complex))


def test_each_action_of_a_stochastic_evaluation_has_its_own_key(monkeypatch):
    run, seen = train_tiny_run("ppo"), []

    class Watched(gymnasium.Wrapper):
        def reset(self, **options):
            obs, info = self.env.reset(**options)
            self.obs = obs
            return obs, info

        def step(self, action):
            seen.append((self.obs, action))
            self.obs, *rest = self.env.step(action)
            return self.obs, *rest

    run = dataclasses.replace(run, env_fn=lambda: Watched(gymnasium.make("CartPole-v1")))
    first = run.evaluate(3, seed=5, deterministic=False)
    for call, (obs, action) in enumerate(seen):
        key = rng.stream(5, 0, "eval", 0, call)
        assert run.algo.act(run.params, obs[None], key).tolist() == [action]
    assert first == run.evaluate(3, seed=5, deterministic=False)
    assert first != run.evaluate(3, seed=6, deterministic=False)


def test_evaluation_uses_the_episode_limit_of_training_by_default():
    run = begun("td3")
    assert run.evaluate(1).lengths == (30,)
    assert run.evaluate(1, max_ep_len=7).lengths == (7,)
    assert run.evaluate(1, max_ep_len=0).lengths == (200,)


def test_a_checkpoint_is_chosen_by_step_best_or_last(tmp_path):
    folder = copy_folder(train_tiny_run("ppo"), tmp_path)
    first, last = purerl.load(folder, 60), purerl.load(folder, "last")
    assert (first.step, last.step) == (60, 120)
    assert to_bytes(first.params) != to_bytes(last.params)
    for step in (60, 120):
        best = files.seal_json({"step": step, "score": 1.0})
        (folder / "checkpoints" / "best.json").write_bytes(best)
        assert purerl.load(folder, "best").step == step
    with pytest.raises(NoCheckpoint, match=r"no checkpoint of step 70\. Its steps: \[60, 120\]"):
        purerl.load(folder, 70)
    with pytest.raises(ConfigError, match="checkpoint must be 'last', 'best' or a step"):
        purerl.load(folder, "newest")
    (folder / "checkpoints" / "best.json").unlink()
    with pytest.raises(NoCheckpoint, match="no best checkpoint yet"):
        purerl.load(folder, "best")


def test_a_damaged_checkpoint_is_skipped_with_a_warning(tmp_path):
    folder = copy_folder(train_tiny_run("sac"), tmp_path)
    file = folder / "checkpoints" / "000000000120" / "rank0.npz"
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    with pytest.warns(UserWarning, match=r"skipped a checkpoint: .*rank0\.npz was changed"):
        run = purerl.load(folder)
    assert run.step == 60
    assert "SHA-256" in run.skipped[0]
    assert to_bytes(run.params) == to_bytes(purerl.load(train_tiny_run("sac").folder, 60).params)
    with pytest.raises(NoCheckpoint, match=r"(?s)can be used\n.*SHA-256"):
        purerl.load(folder, 120)


def test_a_learner_that_does_not_match_the_configuration_is_refused(tmp_path):
    folder = copy_folder(train_tiny_run("sac"), tmp_path)
    path = folder / "config.json"
    content = json.loads(path.read_text())
    path.write_text(json.dumps(content | {"spec": content["spec"] | {"hidden": [8, 9]}}))
    with pytest.raises(NoCheckpoint, match=r"spec\.hidden was \[8, 8\], now it is \[8, 9\]"):
        purerl.load(folder)
    path.write_text(json.dumps(content))
    made = folder / "checkpoints" / "000000000120"
    path = made / "rank0.npz"
    arrays = arrays_.read_arrays(path, files.write_file(path, path.read_bytes()))
    name = "learner .params.actor['params']['MLP_0']['Dense_0']['kernel']"
    for change in (
        {name: arrays[name].T.copy()},
        {name: arrays[name].astype(np.float64)},
        {"learner .more": arrays[name]},
    ):
        file = files.write_file(path, partial(arrays_.write_arrays, arrays | change))
        manifest = files.read_sealed_json(made / "manifest.json")
        sealed = files.seal_json(manifest | {"files": {"rank0.npz": list(file)}})
        (made / "manifest.json").write_bytes(sealed)
        with pytest.warns(UserWarning, match="does not contain the learner of config.json"):
            assert purerl.load(folder).step == 60


@pytest.mark.parametrize(
    "env",
    [
        BOX,
        DISCRETE,
        EnvSpec((2, 3), Box((0.1, -1e-3), (0.3, 1.0 / 3.0), (2, 1)), "uint8"),
        EnvSpec((1,), Discrete(2, start=-5), "int64"),
    ],
)
def test_spaces_are_equal_after_writing_and_reading(env):
    config = dataclasses.replace(train_tiny_run("ppo").config, spec=_Holding(env))
    plain = json.loads(json.dumps(configs.to_json(config)["spaces"]))
    assert configs.parse_spaces(plain) == env


@dataclasses.dataclass(frozen=True)
class _Holding:
    env: EnvSpec


GOOD = {"obs_shape": [3], "obs_dtype": "float32", "discrete": {"n": 2, "start": 0}}
LOW = {"low": [-1.0], "high": [1.0], "shape": [1]}


@pytest.mark.parametrize(
    "content",
    [
        "EnvSpec(obs_shape=(3,))",
        None,
        {},
        GOOD | {"more": 1},
        GOOD | {"obs_shape": [0]},
        GOOD | {"obs_shape": ["3"]},
        GOOD | {"obs_shape": [3.0]},
        GOOD | {"obs_dtype": "object"},
        GOOD | {"obs_dtype": 7},
        GOOD | {"discrete": {"n": 2, "start": 0, "more": 0}},
        GOOD | {"discrete": {"n": [2, 3], "start": 0}},
        GOOD | {"discrete": {"n": True, "start": 0}},
        GOOD | {"discrete": [2, 0]},
        {"obs_shape": [3], "obs_dtype": "float32", "box": LOW | {"low": ["-1"]}},
        {"obs_shape": [3], "obs_dtype": "float32", "box": LOW | {"low": [float("nan")]}},
        {"obs_shape": [3], "obs_dtype": "float32", "box": LOW | {"shape": [2]}},
        {"obs_shape": [3], "obs_dtype": "float32", "cube": LOW},
    ],
)
def test_spaces_that_purerl_does_not_write_are_refused(content):
    with pytest.raises(ConfigError, match="spaces must have obs_shape"):
        configs.parse_spaces(content)


def test_implausibly_large_spaces_are_refused_before_memory_is_allocated():
    with pytest.raises(ConfigError, match="too large to read"):
        configs.parse_spaces(GOOD | {"obs_shape": [10**6, 10**6]})


def test_loading_a_run_never_imports_a_module(tmp_path, monkeypatch):
    folder = copy_folder(train_tiny_run("ppo"), tmp_path)
    (tmp_path / "hostile.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    monkeypatch.syspath_prepend(tmp_path)
    content = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(content | {"env": "hostile:CartPole-v1"}))
    for made in (folder / "checkpoints").glob("0*"):
        manifest = files.read_sealed_json(made / "manifest.json")
        manifest["about"]["env"] = "hostile:CartPole-v1"
        (made / "manifest.json").write_bytes(files.seal_json(manifest))
    run = purerl.load(folder)
    for use in (run.evaluate, run.video):
        with pytest.raises(ConfigError, match="imports a module, which purerl never does"):
            use()
    assert not (tmp_path / "ran").exists()
    assert "hostile" not in sys.modules
    assert run.policy(np.zeros(4)) in (0, 1)
    allowed = purerl.load(folder, env_fn=lambda: gymnasium.make("CartPole-v1"))
    assert allowed.evaluate(1) == train_tiny_run("ppo").evaluate(1)


def test_a_folder_of_runs_is_refused_with_the_runs_below():
    with pytest.raises(ConfigError, match=r"no config\.json\. It contains these runs: .*_s3"):
        purerl.load(train_tiny_run("ppo").folder.parent)


def test_logs_can_be_read_while_they_are_written(tmp_path):
    run = dataclasses.replace(train_tiny_run("ppo"), folder=tmp_path)
    assert (run.metrics, run.status) == ({}, "unknown")
    (tmp_path / "progress.txt").write_text("Epoch\tLossQ\n1\t0.5\n2\t\n3\tnan\n4\t0.")
    assert run.metrics["Epoch"].tolist() == [1, 2, 3]
    np.testing.assert_array_equal(run.metrics["LossQ"], [0.5, np.nan, np.nan])
    (tmp_path / "progress.txt").write_text("Epoch\tLossQ\n1\n")
    with pytest.raises(errors.Damaged, match="longer or shorter than its header"):
        _ = run.metrics
    (tmp_path / "episodes.csv").write_text('a,b\n1,"' + 140_000 * "2\n")
    with pytest.raises(errors.Damaged, match="not a table: field larger"):
        _ = run.episodes
    row = f"1234,{60 * 't'}\n"  # over 4 MiB in all
    (tmp_path / "episodes.csv").write_text("epoch,kind\n" + 80_000 * row)
    found = run.episodes
    assert (found["epoch"].sum(), found["kind"][-1]) == (1234 * 80_000, 60 * "t")
    for text, columns in (("", []), ("Epoch\n", ["Epoch"])):
        (tmp_path / "progress.txt").write_text(text)
        assert list(run.metrics) == columns
    real = train_tiny_run("ppo")
    assert real.metrics["TotalEnvInteracts"].tolist() == [60, 120]
    kinds, lengths = real.episodes["kind"], real.episodes["length"]
    assert set(kinds) == {"train", "test"}
    assert lengths[kinds == "train"].sum() <= 120


def test_settings_are_sorted_and_unknown_ones_get_a_suggestion(tmp_path):
    config = train_tiny_run("sac").config
    assert (config.spec.hidden, config.schedule.steps, config.options.save_freq) == (
        (8, 8),
        120,
        60,
    )
    where = {"data_dir": str(tmp_path)}
    for settings, message in (
        ({"step": 5}, "ppo has no setting 'step'. Did you mean 'steps' or"),
        ({"zzz": 5}, "ppo has no setting 'zzz'. Choose from actor, critic"),
        ({"total_timesteps": 0}, "steps must be an integer of at least 1"),
        ({"total_timesteps": 5, "steps": 5}, "steps is given twice, also under another name"),
        ({"gae_lambda": 2.0}, "lam must be a number in"),
        ({"gamma": 2.0}, "gamma must be a number in"),
        ({"steps": -5}, "steps must be an integer of at least 1"),
        ({"name": "../x"}, "name must consist of letters"),
        ({"seed": -1}, "seed must be"),
    ):
        with pytest.raises(ConfigError, match=message.replace("?", r"\?")):
            purerl.train("ppo", "CartPole-v1", **where, **settings)
    with pytest.raises(ConfigError, match="algorithm must be one of"):
        purerl.train("pppo", "CartPole-v1", **where)
    with pytest.raises(ConfigError, match="environment Nothing-v0"):
        purerl.train("ppo", "Nothing-v0", **where)
    assert not list(tmp_path.iterdir())


def train_quickly(env="CartPole-v1", **settings):
    how = COMMON | SMALL["reinforce"][1] | {"preset": "none"} | settings
    return purerl.train("reinforce", env, **how)


class Actor(nn.Module):
    width: int = 5

    @nn.compact
    def __call__(self, obs):
        return nn.Dense(2)(nn.tanh(nn.Dense(self.width)(obs)))


def test_a_run_with_custom_networks_needs_its_spec_to_be_loaded(tmp_path):
    run = train_quickly(actor=Actor(), data_dir=str(tmp_path))
    assert "Actor" in json.loads((run.folder / "config.json").read_text())["spec"]["actor"]["repr"]
    with pytest.raises(ConfigError, match=r"actor is a custom object.*train\.resume\("):
        purerl.load(run.folder)
    with pytest.raises(ConfigError, match="is complete: 120 of 120"):  # the call that it names
        training.resume(Path(run.folder), spec=run.config.spec)
    loaded = purerl.load(run.folder, spec=run.config.spec)
    assert to_bytes(loaded.params) == to_bytes(run.params)
    wrong = dataclasses.replace(run.config.spec, actor=Actor(6))
    with pytest.raises(NoCheckpoint, match=r"have other settings: spec\.actor\.repr was"):
        purerl.load(run.folder, spec=wrong)


def test_a_run_notes_in_one_line_that_episodes_may_exceed_its_rollouts(tmp_path):
    run = train_quickly(data_dir=str(tmp_path), max_ep_len=None)
    lines = (run.folder / "stdout.log").read_text().splitlines()
    assert [line for line in lines if "episodes may have 500 steps, but a rollout" in line]
    assert not any("EpisodesCut" in line for line in lines)


def test_an_environment_may_be_a_function(tmp_path):
    def short_pole():
        return gymnasium.make("CartPole-v1", max_episode_steps=9)

    run = train_quickly(short_pole, data_dir=str(tmp_path), max_ep_len=None)
    assert (run.config.env, run.config.name) == ("short_pole", "short-pole-reinforce")
    assert run.evaluate(2).max <= 9
    again = purerl.load(run.folder)
    with pytest.raises(EnvFault, match=r"short_pole.*If training used a function.*as env_fn"):
        again.evaluate(2)
    assert purerl.load(run.folder, env_fn=short_pole).evaluate(2) == run.evaluate(2)
    with pytest.raises(ConfigError, match="spec.env must equal the spaces"):
        purerl.load(run.folder, env_fn=lambda: gymnasium.make("Pendulum-v1")).evaluate(1)
    named = train_quickly(short_pole, env_name="Pole", name="mine", data_dir=str(tmp_path))
    assert (named.config.env, named.folder.name) == ("Pole", "mine_s3")


def test_an_environment_instance_is_refused(tmp_path):
    env = gymnasium.make("CartPole-v1")
    with pytest.raises(ConfigError, match=r"a Gymnasium id, a function that makes the environ"):
        purerl.train("ppo", env, data_dir=str(tmp_path))
    env.close()


def test_training_works_in_another_thread_as_in_a_notebook(tmp_path):
    made = []
    thread = threading.Thread(target=lambda: made.append(train_quickly(data_dir=str(tmp_path))))
    thread.start()
    thread.join()
    assert to_bytes(made[0].params) == to_bytes(train_quickly(data_dir=str(tmp_path)).params)
    assert made[0].status == "done"


class Faulty(gymnasium.Wrapper):
    """CartPole that passes the observation of its 90th step to a function."""

    steps = 0

    def __init__(self, what):
        super().__init__(gymnasium.make("CartPole-v1"))
        self.what = what

    def step(self, action):
        obs, *rest = self.env.step(action)
        self.steps += 1
        return (self.what(obs) if self.steps == 90 else obs), *rest


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_run_that_was_asked_to_stop_has_status_stopped(tmp_path, number):
    def asked(obs):
        os.kill(os.getpid(), number)
        return obs

    run = train_quickly(lambda: Faulty(asked), env_name="x", data_dir=str(tmp_path), steps=600)
    assert (run.status, run.step) == ("stopped", 60)  # the second rollout is discarded
    assert to_bytes(purerl.load(run.folder).params) == to_bytes(run.params)


def test_a_run_that_failed_raises_and_can_be_loaded(tmp_path):
    with pytest.raises(errors.NonFiniteError):
        train_quickly(
            lambda: Faulty(lambda obs: obs * np.nan), env_name="x", data_dir=str(tmp_path)
        )
    run = purerl.load(tmp_path / "x-reinforce" / "x-reinforce_s3")
    assert (run.status, run.step) == ("failed", 60)


def make_short():
    return gymnasium.make("Pendulum-v1", max_episode_steps=7)


def test_test_episodes_use_their_own_environment_and_each_record_reaches_a_function(tmp_path):
    small = {"steps": 120, "steps_per_epoch": 40, "start_steps": 40, "update_after": 40}
    small |= {"batch_size": 4, "hidden": (4,), "num_test_episodes": 2, "update_every": 20}
    found = []
    run = purerl.train(
        "td3", "Pendulum-v1", data_dir=str(tmp_path), quiet=True,
        eval_env_fn=make_short, on_record=found.append, **small,
    )  # fmt: skip
    assert [record["steps"] for record in found] == [40, 80, 120]
    assert {length for record in found for length in record["test_lengths"]} == {7}
    assert run.metrics["TestEpLen"].tolist() == [7.0] * 3
    training.resume(
        run.folder, steps=160, screen=Screen(quiet=True), eval_env_fn=make_short,
        on_record=found.append,
    )  # fmt: skip
    assert found[-1]["steps"] == 160
    assert found[-1]["test_lengths"] == [7, 7]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"eval_env_fn": "Pendulum-v1"}, "eval_env_fn must be a function or None, got 'Pend"),
        ({"on_record": 3}, "on_record must be a function or None, got 3"),
        ({"eval_env_fn": partial(gymnasium.make, "CartPole-v1")}, "with the spaces of training"),
    ],
)
def test_wrong_functions_are_refused_before_a_folder_is_made(given, message, tmp_path):
    with pytest.raises(ConfigError, match=message):
        purerl.train("td3", "Pendulum-v1", data_dir=str(tmp_path), quiet=True, **given)
    assert not list(tmp_path.iterdir())


def test_a_run_has_the_state_of_its_learner(tmp_path):
    path = begun("sac").folder
    run = purerl.load(path)
    assert run.state.params is run.params
    other = run.algo.init(jax.random.key(5), run.params.spec)
    assert jax.tree.structure(run.state) == jax.tree.structure(other)
    purerl.save(tmp_path / "state.npz", run.state)
    found = purerl.restore(tmp_path / "state.npz", like=other)
    assert to_bytes(found) == to_bytes(run.state) != to_bytes(other)


@pytest.mark.parametrize("damage", [("LossPi", "LossPj"), ("\tLossPi", "?LossPi"), ("Epoch", "KL")])
def test_readers_notice_changed_names_of_columns(tmp_path, damage):
    run = shutil.copytree(train_tiny_run("ppo").folder, tmp_path / "run")
    path = run / "progress.txt"
    whole = path.read_text()
    assert purerl.load(run).metrics
    (run / "metrics.jsonl").write_text((run / "metrics.jsonl").read_text().split("\n")[1] + "\n")
    path.write_text("".join(whole.splitlines(keepends=True)[:2]))  # deleted rows are no damage
    assert purerl.load(run).metrics
    header, *rows = whole.splitlines(keepends=True)
    path.write_text("".join([header.replace(*damage), *rows]))
    with pytest.raises(Damaged, match=r"progress\.txt (was changed: its first line|has rows)"):
        purerl.load(run).metrics  # noqa: B018
    with pytest.raises(ConfigError, match="left out: .* was changed|left out: .* is not a table"):
        tables.find_runs([run])
    (run / "metrics.jsonl").unlink()  # nothing to compare with
    path.write_text("".join([header.replace("LossPi", "LossPj"), *rows]))
    assert "LossPj" in purerl.load(run).metrics


def test_a_function_with_the_name_of_an_environment_is_not_replaced_by_it(tmp_path, capsys):
    def CartPole(**options):
        return gymnasium.wrappers.TransformReward(
            gymnasium.make("CartPole-v1", **options), lambda reward: 100.0 * reward
        )

    run = train_quickly(CartPole, data_dir=str(tmp_path))
    assert run.config.env == "CartPole()"
    assert run.folder.parent.name == "cartpole-reinforce"
    assert purerl.load(run.folder, env_fn=CartPole).evaluate(2).mean == run.evaluate(2).mean >= 800
    with pytest.raises(ConfigError, match=r"environment CartPole\(\) .* was a Python function"):
        purerl.load(run.folder).evaluate(2)
    named = train_quickly(CartPole, data_dir=str(tmp_path), env_name="CartPole-v1")
    assert named.config.env == "CartPole-v1"  # on purpose


@pytest.fixture(scope="module")
def flipping(tmp_path_factory):
    """A run in an environment with goals, resumed once in the middle of an episode."""
    folder = str(tmp_path_factory.mktemp("goals"))
    how = {"steps_per_epoch": 50, "update_after": 50, "batch_size": 16, "replay_size": 80}
    how |= {"hidden": (8,), "num_test_episodes": 2, "save_freq": 53, "num_envs": 2}
    run = purerl.train("dqn", "BitFlipping-v0", steps=108, data_dir=folder, quiet=True, **how)
    return run


def test_a_policy_takes_the_observations_of_an_environment_with_goals(flipping):
    loaded = purerl.load(flipping.folder)
    assert loaded.params.spec.env.goal_size == 10
    parts = {"observation": np.zeros(10), "desired_goal": np.ones(10)}
    obs = parts | {"achieved_goal": np.zeros(10)}
    flat = np.concatenate([np.zeros(10), np.ones(10)]).astype(np.float32)
    assert loaded.policy(obs) == flipping.policy(flat)
    several = {name: np.stack([part] * 3) for name, part in obs.items()}
    assert loaded.policy(several).tolist() == [loaded.policy(flat)] * 3
    with pytest.raises(errors.EnvFault, match=r"^obs must be a dict of observation, achieved_goal"):
        loaded.policy(parts)
    with pytest.raises(errors.EnvFault, match=r"^desired_goal of obs must have 10 numbers"):
        loaded.policy(obs | {"desired_goal": np.ones(3)})


def test_a_run_with_goals_logs_and_evaluates_its_success(flipping, capsys, monkeypatch):
    monkeypatch.setattr(purerl, "setup", lambda: None)
    table = flipping.metrics
    shares = {"EpIsSuccess", "TestEpIsSuccess"}
    assert shares <= {*table}
    assert len(table["TestEpIsSuccess"]) == 3
    written = json.loads((flipping.folder / "config.json").read_text())
    assert written["spaces"]["goal_size"] == 10
    assert written["schedule"]["her"] is None  # the default of an environment with goals
    found = flipping.evaluate(episodes=20)
    assert found.success == sum(length < 10 for length in found.lengths) / 20
    shown = (flipping.folder / "stdout.log").read_text()
    assert ", goals in hindsight (future, k = 4)\n" in shown
    assert shown.count("test test_success\n") == shown.count("return     length")
    assert commands.call("watch", flipping.folder, "--norender") == 0
    assert re.search(r", success [01]\.00\n", capsys.readouterr().out)
    assert commands.call("eval", flipping.folder, "--episodes", 2) == 0
    assert ", success 0." in capsys.readouterr().out
    assert commands.call("plot", flipping.folder, "-y", "TestEpIsSuccess", "--ascii") == 0
    assert "TestEpIsSuccess" in capsys.readouterr().out


def test_a_run_with_goals_is_resumed_in_an_episode_bit_for_bit(flipping, tmp_path):
    copies = [shutil.copytree(flipping.folder, tmp_path / name) for name in ("one", "two")]
    shutil.rmtree(copies[0] / "checkpoints" / f"{108:012d}")
    ends = [training.resume(run, steps=160, screen=Screen(quiet=True)) for run in copies]
    assert [end.step for end in ends] == [160, 160]
    one, two = (to_bytes((end.carry.learner, end.carry.buffer.data)) for end in ends)
    assert one == two


@pytest.mark.parametrize("her", [None, True, False])
def test_a_sweep_recognises_a_run_with_goals_before_it_knows_the_environment(flipping, her):
    written = json.loads((flipping.folder / "config.json").read_text())
    written["schedule"]["her"] = her
    given = {name: value for name, value in written.items() if name != "spaces"}
    complete = tasks.complete_config(given, "dqn", 1)
    assert complete | {"spaces": 0} == written | {"spaces": 0}
