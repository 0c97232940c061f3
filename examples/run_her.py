"""Reach goals with hindsight experience replay: DQN or DDPG in an environment with goals.

    python examples/run_her.py
    python examples/run_her.py --no-her
    python examples/run_her.py --env FetchReach-v4
    python examples/run_her.py --env FetchPush-v4 --steps 1e6 --num-envs 8 --num-cpu 2

By default: BitFlipping-v0, ten bits, 10 000 steps, a quarter of a minute on one core, a success
rate of 1; with --no-her it stays near 0. FetchReach-v4 takes a minute. Robots need the extra
robotics. Discrete actions are for DQN, continuous ones for DDPG; `--help` lists all settings.
"""

import sys

from common import train

from purerl.algos import ddpg, dqn
from purerl.cli.options import split_flags
from purerl.errors import ConfigError
from purerl.runs.settings import environments
from purerl.spaces import Discrete

ENV = "BitFlipping-v0"

if __name__ == "__main__":
    env = dict(split_flags(sys.argv[1:])).get("--env", [ENV])[0]
    try:
        spec = environments.read_env_spec(env, environments.make_env_fn(env))
        algo = dqn if isinstance(spec.action, Discrete) else ddpg
    except ConfigError:  # `train` reports it
        algo = dqn
    train(algo, __doc__, ENV)
