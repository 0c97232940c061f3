"""Train PQN on a Gymnasium environment with discrete actions.

    python examples/run_pqn.py
    python examples/run_pqn.py --env Acrobot-v1

By default: CartPole-v1, 245 760 steps, under a minute on one core, a return of 500. Every field of
`pqn.Spec` and of the schedule is a flag; `--help` lists them. Other settings are those of `purerl
train pqn`: the preset of the environment, if it has one, and the defaults of the algorithm.
"""

from common import train

from purerl.algos import pqn

if __name__ == "__main__":
    train(pqn, __doc__, "CartPole-v1")
