"""Train CrossQ on a Gymnasium environment.

    python examples/run_crossq.py
    python examples/run_crossq.py --env HalfCheetah-v5 --seed 1

By default: Pendulum-v1, 5 000 steps, under a minute on one core, a return of about -140.
HalfCheetah-v5 needs the extra `mujoco`. Every field of `crossq.Spec` and of the schedule is a flag;
`--help` lists them. Other settings are those of `purerl train crossq`: the preset of the
environment, if it has one, and the defaults of the algorithm.
"""

from common import train

from purerl.algos import crossq

if __name__ == "__main__":
    train(crossq, __doc__, "Pendulum-v1")
