"""Train TD3 on a Gymnasium environment.

    python examples/run_td3.py
    python examples/run_td3.py --env HalfCheetah-v5 --steps 1e5 --start-steps 1e4 --seed 1

By default: Pendulum-v1, 15 000 steps, under a minute on one core, a return of about -150. Every
field of `td3.Spec` and of the schedule is a flag; `--help` lists them. The defaults are Spinning
Up's, except for fewer steps, shorter epochs and fewer random steps.
"""

from common import train

from purerl.algos import td3

if __name__ == "__main__":
    train(td3, __doc__, "Pendulum-v1")
