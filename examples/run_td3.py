"""Train TD3 on a Gymnasium environment.

    python examples/run_td3.py
    python examples/run_td3.py --env HalfCheetah-v5 --seed 1

By default: Pendulum-v1, 15 000 steps, under a minute on one core, a return of about -150.
HalfCheetah-v5 needs the extra `mujoco`. Every field of `td3.Spec` and of the schedule is a flag;
`--help` lists them. Other settings are those of `purerl train td3`: the preset of the environment,
if it has one, and the defaults of the algorithm.
"""

from common import train

from purerl.algos import td3

if __name__ == "__main__":
    train(td3, __doc__, "Pendulum-v1")
