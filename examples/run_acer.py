"""Train ACER on a Gymnasium environment with discrete actions.

    python examples/run_acer.py
    python examples/run_acer.py --env Acrobot-v1

By default: CartPole-v1, 160 000 steps, under a minute on one core, a return of 500. Every field of
`acer.Spec` and of the schedule is a flag; `--help` lists them. Other settings are those of `purerl
train acer`: the preset of the environment, if it has one, and the defaults of the algorithm.
"""

from common import train

from purerl.algos import acer

if __name__ == "__main__":
    train(acer, __doc__, "CartPole-v1")
