"""Train DDPG on a Gymnasium environment.

    python examples/run_ddpg.py
    python examples/run_ddpg.py --env HalfCheetah-v5 --steps 1e5 --start-steps 1e4 --seed 1

By default: Pendulum-v1, 15 000 steps, under a minute on one core, a return of about -150. Every
field of `ddpg.Spec` and of the schedule is a flag; `--help` lists them. The defaults are Spinning
Up's, except for fewer steps, shorter epochs and fewer random steps.
"""

from common import train

from purerl.algos import ddpg

if __name__ == "__main__":
    train(ddpg, __doc__, "Pendulum-v1")
