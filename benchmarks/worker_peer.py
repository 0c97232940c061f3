"""One contender of `compare.py`: TD3 of SBX or SB3, in the environment of the peers.

Both burst (`gradient_steps=50`), with networks of 2x256 and a policy delay of 2, as purerl does.
"""

import sys
import time

import gymnasium
import numpy as np


class Shapes(gymnasium.Env):
    """Spaces of HalfCheetah and nothing else."""

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (17,), np.float32)
    action_space = gymnasium.spaces.Box(-1.0, 1.0, (6,), np.float32)

    def reset(self, *, seed=None, options=None):
        """Return zeros."""
        return np.zeros(17, np.float32), {}

    def step(self, action):
        """Return zeros."""
        return np.zeros(17, np.float32), 0.0, False, False, {}


def make(peer, env, batch_size, **settings):
    from stable_baselines3.common.noise import NormalActionNoise

    if peer == "sbx":
        from sbx import TD3
    else:
        import torch
        from stable_baselines3 import TD3

        torch.set_num_threads(1)
    dim = env.action_space.shape[0]
    noise = NormalActionNoise(np.zeros(dim), 0.1 * np.ones(dim))
    shape = {"policy_kwargs": {"net_arch": [256, 256]}, "policy_delay": 2, "device": "cpu"}
    burst = {"train_freq": 50, "gradient_steps": 50, "buffer_size": 1_000_000}
    options = shape | burst | {"learning_starts": 100, "learning_rate": 1e-3} | settings
    return TD3("MlpPolicy", env, batch_size=batch_size, action_noise=noise, **options)


def updates(peer, batch_size):
    from stable_baselines3.common.logger import configure

    model = make(peer, Shapes(), batch_size)
    model.set_logger(configure(None, []))
    memory, rng = model.replay_buffer, np.random.default_rng(0)
    for rows in (memory.observations, memory.next_observations, memory.rewards):
        rows[:] = rng.standard_normal(rows.shape, np.float32)
    memory.actions[:] = rng.uniform(-1, 1, memory.actions.shape)
    memory.full = True

    def window():
        began = time.perf_counter()
        for _ in range(4):
            model.train(gradient_steps=50, batch_size=batch_size)
        return 200 / (time.perf_counter() - began)

    return window


def end_to_end(peer, env_id):
    model = make(peer, gymnasium.make(env_id), 100)
    model.learn(500)

    def window():
        began = time.perf_counter()
        model.learn(1_000, reset_num_timesteps=False)
        return 1_000 / (time.perf_counter() - began)

    return window


def main():
    task, peer = sys.argv[1:]
    if task == "start":
        make(peer, gymnasium.make("Pendulum-v1"), 100).learn(150)
        print("updated", flush=True)
        return
    names = {"halfcheetah": "HalfCheetah-v5", "pendulum": "Pendulum-v1"}
    if task.startswith("updates-"):
        window = updates(peer, int(task.removeprefix("updates-")))
    else:
        window = end_to_end(peer, names[task])
    window()
    print("ready", flush=True)
    for _ in sys.stdin:
        print("rate", window(), flush=True)


if __name__ == "__main__":
    main()
