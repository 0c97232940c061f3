"""Train TRPO, or NPG, on a Gymnasium environment.

    python examples/run_trpo.py
    python examples/run_trpo.py --method npg
    python examples/run_trpo.py --env Pendulum-v1 --gamma 0.9 --steps-per-epoch 1000

By default: CartPole-v1, 100 000 steps, ten seconds on one core, a return of 500. Every field of
`trpo.Spec` and of the schedule is a flag; `--help` lists them. The defaults are Spinning Up's.
"""

from common import train

from purerl.algos import trpo

if __name__ == "__main__":
    train(trpo, __doc__, "CartPole-v1")
