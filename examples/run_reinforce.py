"""Train REINFORCE on a Gymnasium environment.

    python examples/run_reinforce.py
    python examples/run_reinforce.py --no-reward-to-go --gamma 1 --no-standardise

By default: CartPole-v1, 200 000 steps, ten seconds on one core, a return of about 500. Every field
of `reinforce.Spec` and of the schedule is a flag; `--help` lists them. Other settings are those of
`purerl train reinforce`: the preset of the environment, if it has one, and the defaults of the
algorithm.
"""

from common import train

from purerl.algos import reinforce

if __name__ == "__main__":
    train(reinforce, __doc__, "CartPole-v1")
