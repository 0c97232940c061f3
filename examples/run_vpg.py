"""Train VPG on a Gymnasium environment.

    python examples/run_vpg.py
    python examples/run_vpg.py --env Acrobot-v1 --seed 1

By default: CartPole-v1, 200 000 steps, half a minute on one core, a return of 500. Every field of
`vpg.Spec` and of the schedule is a flag; `--help` lists them. Other settings are those of `purerl
train vpg`: the preset of the environment, if it has one, and the defaults of the algorithm.
"""

from common import train

from purerl.algos import vpg

if __name__ == "__main__":
    train(vpg, __doc__, "CartPole-v1")
