"""Train VPG on a Gymnasium environment.

    python examples/run_vpg.py
    python examples/run_vpg.py --env Acrobot-v1 --seed 1

By default: CartPole-v1, 200 000 steps, fifteen seconds on one core, a return of 500. Every field of
`vpg.Spec` and of the schedule is a flag; `--help` lists them.

The defaults are Spinning Up's, except for the learning rate of the policy. With Spinning Up's 3e-4
and one gradient step per rollout, the return was 50 after 200 000 steps.
"""

from common import train

from purerl.algos import vpg

if __name__ == "__main__":
    train(vpg, __doc__, "CartPole-v1")
