"""A run that a test can start, kill and go on with.

python -m tests.runs.script train ALGO DATA_DIR | resume RUN
"""

import sys
from pathlib import Path

import purerl
from purerl.runs.settings import config
from purerl.runs.training import train

SHORT = {
    "steps": 12_000,
    "steps_per_epoch": 2_000,
    "start_steps": 200,
    "update_after": 200,
    "update_every": 50,
    "updates_per_burst": 5,
    "replay_size": 2_000,
    "batch_size": 32,
    "num_test_episodes": 1,
}


def settings(algo: str) -> config.Config:
    on_policy = algo in ("ppo", "vpg", "trpo", "reinforce")
    schedule = {"steps": 12_000, "steps_per_epoch": 500} if on_policy else SHORT
    return config.from_json(
        {
            "algo": algo,
            "env": "CartPole-v1" if algo in ("dqn", "ppo", "reinforce") else "Pendulum-v1",
            "seed": 5,
            "spec": {"hidden": [16, 16]},
            "schedule": schedule,
            "options": {"save_freq": 500, "keep": 2},
        }
    )


if __name__ == "__main__":
    purerl.setup()
    if sys.argv[1] == "train":
        outcome = train.train(settings(sys.argv[2]), data_dir=sys.argv[3])
    else:
        outcome = train.resume(Path(sys.argv[2]))
    sys.exit(outcome.code)
