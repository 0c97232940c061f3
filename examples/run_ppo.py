"""Train PPO on a Gymnasium environment.

    python examples/run_ppo.py
    python examples/run_ppo.py --env Pendulum-v1 --gamma 0.9 --lam 0.95 --pi-lr 1e-3 \\
        --minibatch-size 100 --train-pi-iters 10 --train-v-iters 10 --target-kl none \\
        --lr-decay-updates 50 --num-envs 4 --steps-per-epoch 2000

By default: CartPole-v1, 100 000 steps, ten seconds on one core, a return of 500. The second command
reaches a return of about -200 on Pendulum-v1. Every field of `ppo.Spec` and of the schedule is a
flag; `--help` lists them. The defaults are Spinning Up's.
"""

from common import train

from purerl.algos import ppo

if __name__ == "__main__":
    train(ppo, __doc__, "CartPole-v1")
