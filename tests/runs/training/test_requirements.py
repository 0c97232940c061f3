"""Runs that cannot be trained are refused before they start."""

import pytest

from purerl import mpi
from purerl.buffers import replay
from purerl.errors import ConfigError
from purerl.runs.record import status
from purerl.runs.settings.config import from_json
from purerl.runs.training import requirements, train
from purerl.runs.training.sinks import TensorBoard


def make(seed=0, algo="dqn", schedule=None, **parts):
    content = {"algo": algo, "env": "jax:CartPole-v1", "seed": seed}
    return from_json(content | {"schedule": schedule or {"steps": 1_000}} | parts)


def test_seeds_share_all_settings_that_change_results():
    own = make(1, name="other", options={"keep": 9, "tensorboard": True})
    requirements.check_together([make(), own])
    for changes, message in (
        ({"spec": {"gamma": 0.9}}, r"but spec\.gamma is 0\.99 with seed 0 and 0\.9 with seed 1"),
        ({"schedule": {"steps": 2_000}}, r"steps is 1000 .* 2000 with seed 1. Give one total with"),
        ({"options": {"save_freq": 7}}, r"options\.save_freq is 10000 with seed 0 and 7 with"),
        ({"algo": "ppo"}, "but algo is 'dqn' with seed 0 and 'ppo' with seed 1. Train them one af"),
    ):
        with pytest.raises(ConfigError, match=message):
            requirements.check_together([make(), make(1, **changes)])


@pytest.mark.parametrize(
    ("made", "message"),
    [
        ([make(), make()], "equal seeds and several seeds in one program do not go together"),
        ([make(), make(1, options={"wandb": "x"})], "wandb and several seeds"),
        ([make(x, schedule={"devices": 2, "steps": 1_000}) for x in (0, 1)], "devices=2 and sev"),
    ],
)
def test_what_one_program_cannot_do_for_several_seeds_is_refused(made, message, tmp_path):
    with pytest.raises(ConfigError, match=message):
        requirements.check_together(made)
    requirements.check_together(made[1:])  # alone


def test_ranks_and_sinks_are_refused_for_several_seeds(monkeypatch):
    several = [make(), make(1)]
    with pytest.raises(ConfigError, match="custom sinks and several seeds"):
        requirements.check_together(several, [TensorBoard])
    monkeypatch.setattr(mpi, "num_procs", lambda: 2)
    with pytest.raises(ConfigError, match="2 ranks and several seeds"):
        requirements.check_together(several)


def test_several_seeds_need_twice_the_memory_of_each(monkeypatch, tmp_path):
    """They are copied when they are joined."""
    size = 1_000_000
    parts = {"schedule": {"steps": 1_000, "replay_size": size}, "spec": {"hidden": [4]}}
    made = [make(seed, **parts) for seed in range(3)]
    need = size * sum(x.nbytes for x in made[0].spec.env.example())
    learner = 2**21
    monkeypatch.setattr(replay, "free_memory", lambda: 6 * (need + learner))
    requirements.check_memory(made[0], 1, 3)
    monkeypatch.setattr(replay, "free_memory", lambda: need + learner)
    requirements.check_memory(made[0], 1)
    monkeypatch.setattr(replay, "free_memory", lambda: 6 * need - 1)
    with pytest.raises(ConfigError, match="Lower replay_size"):
        requirements.check_memory(made[0], 1, 3)
    with pytest.raises(ConfigError, match="Lower replay_size"):
        train.train_together(made, data_dir=str(tmp_path))
    assert not list(tmp_path.iterdir())


def test_all_seeds_are_checked_before_a_folder_is_made(tmp_path):
    path = tmp_path / "dqn" / "dqn_s1"
    path.mkdir(parents=True)
    status.write_status(path, {"status": "stopped"})
    several = [make(seed, name="dqn") for seed in range(2)]
    with pytest.raises(ConfigError, match="dqn_s1 exists and is not finished"):
        train.train_together(several, data_dir=str(tmp_path))
    with pytest.raises(ConfigError, match="eval_env_fn must be a function or None, got 3"):
        train.train_together([make(5), make(6)], data_dir=str(tmp_path), eval_env_fn=3)
    assert [one.name for one in tmp_path.rglob("dqn_s*")] == ["dqn_s1"]
