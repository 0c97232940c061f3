"""Train SAC on a Gymnasium environment.

    python examples/run_sac.py
    python examples/run_sac.py --alpha 0.2 --seed 1
    python examples/run_sac.py --env HalfCheetah-v5

By default: Pendulum-v1, 10 000 steps, under a minute on one core, a return of about -150.
HalfCheetah-v5 needs the extra `mujoco`. Every field of `sac.Spec` and of the schedule is a flag;
`--help` lists them. Other settings are those of `purerl train sac`: the preset of the environment,
if it has one, and the defaults of the algorithm.
"""

from common import train

from purerl.algos import sac

if __name__ == "__main__":
    train(sac, __doc__, "Pendulum-v1")
