"""Train PPO on a Gymnasium environment.

    python examples/run_ppo.py
    python examples/run_ppo.py --env Pendulum-v1
    python examples/run_ppo.py --preset spinningup --steps 2e5

By default: CartPole-v1, 50 000 steps, ten seconds on one core, a return of 500. Every field of
`ppo.Spec` and of the schedule is a flag; `--help` lists them. Other settings are those of `purerl
train ppo`: the preset of the environment, if it has one, and the defaults of the algorithm.
"""

from common import train

from purerl.algos import ppo

if __name__ == "__main__":
    train(ppo, __doc__, "CartPole-v1")
