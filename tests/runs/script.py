"""A run that a test can start, kill and resume.

python -m tests.runs.script train ALGO DATA_DIR [STEPS] | resume RUN
"""

import csv
import json
import subprocess
import sys
from pathlib import Path

import purerl
from purerl.runs.record import checkpoint, checkpoint_folders
from purerl.runs.settings import config
from purerl.runs.settings.config import from_json
from purerl.runs.training import train
from purerl.runs.training.progress_bar import Screen
from tests.mpi.launch import ROOT, clean

SHORT = {
    "steps": 6_000,
    "steps_per_epoch": 1_000,
    "start_steps": 200,
    "update_after": 200,
    "update_every": 50,
    "updates_per_burst": 5,
    "replay_size": 2_000,
    "batch_size": 32,
    "num_test_episodes": 1,
}


def settings(algo: str, **schedule: int) -> config.Config:
    on_policy = algo in ("acer", "ppo", "vpg", "trpo", "reinforce")
    defaults = {"steps": 6_000, "steps_per_epoch": 500} if on_policy else SHORT
    defaults = defaults | ({"num_envs": 5} if algo == "acer" else {})
    passes = {"train_pi_iters": 8, "train_v_iters": 8} if algo == "ppo" else {}
    return config.from_json(
        {
            "algo": algo,
            "env": "CartPole-v1" if algo in ("acer", "dqn", "ppo", "reinforce") else "Pendulum-v1",
            "seed": 5,
            "spec": {"hidden": [16, 16]} | passes,
            "schedule": defaults | schedule,
            "options": {"save_freq": 500, "keep": 2},
        }
    )


SCRIPT = (sys.executable, "-m", "tests.runs.script")


def start(*words):
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    return subprocess.Popen([*SCRIPT, *words], env=clean(), cwd=ROOT, **pipes)


def the_run(data_dir):
    (run,) = [path.parent for path in Path(data_dir).glob("*/*/config.json")]
    return run


def table(path, delimiter=","):
    return list(csv.DictReader(path.read_text().splitlines(), delimiter=delimiter))


def final(run):
    """Return everything that a finished run leaves, except times."""
    last = checkpoint_folders.list_steps(run)[-1]
    loaded = checkpoint.load(run, {}, 0)
    assert loaded.step == last
    frozen = loaded.frozen
    arrays = frozen.learner | frozen.host | (frozen.rows or {})
    found = {name: (x.dtype.str, x.shape, x.tobytes()) for name, x in arrays.items()}
    rows = table(run / "progress.txt", "\t")
    found["progress"] = [{k: v for k, v in row.items() if k != "Time"} for row in rows]
    found["episodes"] = (run / "episodes.csv").read_text()
    metrics = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    found["metrics"] = str([{k: v for k, v in m.items() if k != "Time"} for m in metrics])
    return found | frozen.facts


def kept(run):
    """Return the steps of all checkpoints, and the best one."""
    return checkpoint_folders.list_steps(run), checkpoint_folders.read_best(run)


def quietly(config, tmp_path, **options):
    return train.train(config, data_dir=str(tmp_path), screen=Screen(quiet=True), **options)


def tiny(**options):
    content = {"algo": "vpg", "env": "CartPole-v1", "spec": {"hidden": [4]}, "options": options}
    return from_json(content | {"schedule": {"steps": 200, "steps_per_epoch": 100}})


if __name__ == "__main__":
    purerl.setup()
    if sys.argv[1] == "train":
        schedule = {"steps": int(sys.argv[4])} if sys.argv[4:] else {}
        outcome = train.train(settings(sys.argv[2], **schedule), data_dir=sys.argv[3])
    else:
        outcome = train.resume(Path(sys.argv[2]))
    sys.exit(outcome.code)
