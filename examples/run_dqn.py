"""Train DQN on a Gymnasium environment.

    python examples/run_dqn.py
    python examples/run_dqn.py --env MountainCar-v0

By default: CartPole-v1, 50 000 steps, under a minute on one core, a return of 500. Every field of
`dqn.Spec` and of the schedule is a flag; `--help` lists them. Other settings are those of `purerl
train dqn`: the preset of the environment, if it has one, and the defaults of the algorithm.
"""

from common import train

from purerl.algos import dqn

if __name__ == "__main__":
    train(dqn, __doc__, "CartPole-v1")
