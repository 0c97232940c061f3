"""Run an algorithm of Rejax as a contender of `compare.py`, with its own interpreter.

Rejax trains with environments in JAX, of gymnax. The settings are those of its configuration files,
without evaluation and without normalisation; `worker_purerl.py` has the same.
"""

import sys
import time

import jax
import rejax

OFF_POLICY = {"num_envs": 1, "buffer_size": 10_000, "fill_buffer": 1_000, "learning_rate": 1e-3}
PPO = {"env": "CartPole-v1", "agent_kwargs": {"activation": "tanh"}, "num_envs": 4}
PPO |= {"num_steps": 128, "num_epochs": 4, "num_minibatches": 4, "max_grad_norm": 0.5}
SETTINGS = {
    "ppo-cartpole-scan": PPO,
    "dqn-cartpole-scan": OFF_POLICY
    | {"env": "CartPole-v1", "agent_kwargs": {"activation": "relu"}, "num_envs": 10}
    | {"buffer_size": 50_000, "batch_size": 100, "num_epochs": 5, "polyak": 0.98},
    "sac-pendulum-scan": OFF_POLICY
    | {"env": "Pendulum-v1", "agent_kwargs": {"activation": "relu"}, "batch_size": 256},
    "td3-pendulum-scan": OFF_POLICY
    | {"env": "Pendulum-v1", "batch_size": 100}
    | {"actor_kwargs": {"activation": "relu"}, "critic_kwargs": {"activation": "relu"}},
}
STEPS = {"ppo": 102_400, "dqn": 10_000, "sac": 2_000, "td3": 4_000}  # of a window


def make_algo(task, steps):
    """Return the algorithm of a task, which trains for a number of steps."""
    name = task.partition("-")[0]
    length = {"total_timesteps": steps, "eval_freq": steps, "skip_initial_evaluation": True}
    algo = rejax.get_algo(name).create(**SETTINGS[task], **length)
    return algo.replace(eval_callback=lambda algo, state, key: ())


def make_window(task):
    """Return a function that trains for the steps of a window, and returns steps per second."""
    steps = STEPS[task.partition("-")[0]]
    algo = make_algo(task, steps)
    train = jax.jit(lambda state: algo.train(train_state=state)[0], donate_argnums=0)
    state = jax.jit(algo.init_state)(jax.random.key(0))

    def window():
        nonlocal state
        began = time.perf_counter()
        state = jax.block_until_ready(train(state))
        return steps / (time.perf_counter() - began)

    return window


def train_seeds(task, number, steps):
    """Train several seeds in one program, compilation included."""
    algo = make_algo(task, steps)
    keys = jax.random.split(jax.random.key(0), number)
    jax.block_until_ready(jax.jit(jax.vmap(algo.train))(keys))


def main():
    """Print a rate for every line read; or train all seeds of a task `...-seeds64`."""
    task, _, seeds = sys.argv[1].partition("-seeds")
    if seeds:
        train_seeds(task, int(seeds), 100_000)
        print("done", flush=True)
        return
    window = make_window(task)
    window()
    print("ready", flush=True)
    for _ in sys.stdin:
        print("rate", window(), flush=True)


if __name__ == "__main__":
    main()
