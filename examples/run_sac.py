"""Train SAC on a Gymnasium environment.

    python examples/run_sac.py
    python examples/run_sac.py --alpha auto --seed 1
    python examples/run_sac.py --env HalfCheetah-v5 --steps 1e5 --start-steps 1e4

By default: Pendulum-v1, 10 000 steps, under a minute on one core, a return of about -150. Every
field of `sac.Spec` and of the schedule is a flag; `--help` lists them. The defaults are Spinning
Up's, except for fewer steps, shorter epochs and fewer random steps. HalfCheetah-v5 needs the extra
`mujoco`.
"""

from common import train

from purerl.algos import sac

if __name__ == "__main__":
    train(sac, __doc__, "Pendulum-v1")
