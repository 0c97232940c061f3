"""Train TRPO, or NPG, on a Gymnasium environment.

    python examples/run_trpo.py
    python examples/run_trpo.py --method npg
    python examples/run_trpo.py --env Pendulum-v1

By default: CartPole-v1, 50 000 steps, ten seconds on one core, a return of 500. Every field of
`trpo.Spec` and of the schedule is a flag; `--help` lists them. Other settings are those of `purerl
train trpo`: the preset of the environment, if it has one, and the defaults of the algorithm.
"""

from common import train

from purerl.algos import trpo

if __name__ == "__main__":
    train(trpo, __doc__, "CartPole-v1")
