"""Run an algorithm of SBX or SB3 as a contender of `compare.py`, with the peers' interpreter.

The settings are those of purerl: bursts (`gradient_steps=50`), networks of 2x256, a policy delay of
2 for TD3, a temperature of 0.2 for SAC, and networks of 120-84 for DQN.
"""

import os
import sys
import time

import gymnasium
import numpy as np


class Shapes(gymnasium.Env):
    """Environment with HalfCheetah's spaces, which returns zeros."""

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (17,), np.float32)
    action_space = gymnasium.spaces.Box(-1.0, 1.0, (6,), np.float32)

    def reset(self, *, seed=None, options=None):
        """Return zeros."""
        return np.zeros(17, np.float32), {}

    def step(self, action):
        """Return zeros."""
        return np.zeros(17, np.float32), 0.0, False, False, {}


def make_model(peer, algo, env, batch_size, **settings):
    """Return a model with purerl's settings."""
    from stable_baselines3.common.noise import NormalActionNoise

    if peer == "sbx":
        import sbx as library
    else:
        import stable_baselines3 as library
        import torch

        torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    options = {"learning_starts": 100, "buffer_size": 1_000_000, "device": "cpu"}
    options |= {"train_freq": 50, "gradient_steps": 50, "learning_rate": 1e-3}
    options["policy_kwargs"] = {"net_arch": [256, 256]}
    if algo == "td3":
        options["policy_delay"] = 2
    if algo == "sac":
        options["ent_coef"] = 0.2
    elif algo in ("td3", "ddpg"):
        dim = env.action_space.shape[0]
        options["action_noise"] = NormalActionNoise(np.zeros(dim), 0.1 * np.ones(dim))
    model = getattr(library, algo.upper())
    return model("MlpPolicy", env, batch_size=batch_size, **(options | settings))


def make_updates_window(peer, algo, batch_size):
    """Return a function that does 200 updates in bursts of 50 from 1e6 rows: updates per second."""
    from stable_baselines3.common.logger import configure

    model = make_model(peer, algo, Shapes(), batch_size)
    model.set_logger(configure(None, []))
    buffer, rng = model.replay_buffer, np.random.default_rng(0)
    for rows in (buffer.observations, buffer.next_observations, buffer.rewards):
        rows[:] = rng.standard_normal(rows.shape, np.float32)
    buffer.actions[:] = rng.uniform(-1, 1, buffer.actions.shape)
    buffer.full = True

    def window():
        began = time.perf_counter()
        for _ in range(4):
            model.train(gradient_steps=50, batch_size=batch_size)
        return 200 / (time.perf_counter() - began)

    return window


def make_steps_window(model):
    """Return a function that runs 1000 environment steps: steps per second."""
    model.learn(500)

    def window():
        began = time.perf_counter()
        model.learn(1_000, reset_num_timesteps=False)
        return 1_000 / (time.perf_counter() - began)

    return window


def make_cartpole_window(peer, every):
    """Return a function that runs 1000 steps of CartPole-v1: steps per second."""
    burst = {"train_freq": every, "gradient_steps": every, "buffer_size": 100_000}
    explore = {"exploration_initial_eps": 0.05, "exploration_final_eps": 0.05}
    rest = {"target_update_interval": 500, "policy_kwargs": {"net_arch": [120, 84]}}
    env = gymnasium.make("CartPole-v1")
    return make_steps_window(make_model(peer, "dqn", env, 128, **burst, **explore, **rest))


def make_on_policy_model(peer, algo, env_id, schedule):
    """Return a PPO or TRPO model with purerl's settings, and the steps of its epoch."""
    if peer == "sbx":
        import sbx as library
    else:
        import stable_baselines3 as library
        import torch

        torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
        if algo == "trpo":
            import sb3_contrib as library
    length = 4_000 if schedule == "full" else 2_048
    options = {"n_steps": length, "gae_lambda": 0.97, "device": "cpu"}
    options["policy_kwargs"] = {"net_arch": {"pi": [64, 64], "vf": [64, 64]}}
    if algo == "trpo":
        options |= {"batch_size": length, "n_critic_updates": 80, "cg_max_steps": 10}
    elif schedule == "full":
        options |= {"batch_size": length, "n_epochs": 80}
    else:
        options |= {"batch_size": 64, "n_epochs": 10}
    model = getattr(library, algo.upper())("MlpPolicy", gymnasium.make(env_id), **options)
    return model, length


def make_epoch_window(model, length):
    """Return a function that runs one epoch: steps per second."""
    model.learn(length)

    def window():
        began = time.perf_counter()
        model.learn(length, reset_num_timesteps=False)
        return length / (time.perf_counter() - began)

    return window


def make_update_window(model, length):
    """Return a function that updates once on an existing rollout: updates per second."""
    model.learn(length)

    def window():
        began = time.perf_counter()
        model.train()
        return 1 / (time.perf_counter() - began)

    return window


def main():
    """Print a rate for every line read."""
    task, peer = sys.argv[1:]
    algo, _, what = task.partition("-")
    if what == "start":
        make_model(peer, algo, gymnasium.make("Pendulum-v1"), 100).learn(150)
        print("updated", flush=True)
        return
    names = {"halfcheetah": "HalfCheetah-v5", "pendulum": "Pendulum-v1", "cartpole": "CartPole-v1"}
    if what == "update":
        window = make_update_window(*make_on_policy_model(peer, algo, "HalfCheetah-v5", "full"))
    elif algo in ("ppo", "trpo"):
        env, _, schedule = what.partition("-")
        window = make_epoch_window(*make_on_policy_model(peer, algo, names[env], schedule))
    elif what.startswith("updates-"):
        window = make_updates_window(peer, algo, int(what.removeprefix("updates-")))
    elif what.startswith("cartpole"):
        window = make_cartpole_window(peer, 1 if what == "cartpole1" else 50)
    else:
        every = {"train_freq": 1, "gradient_steps": 1} if what.endswith("1") else {}
        env = gymnasium.make(names[what.removesuffix("1")])
        window = make_steps_window(make_model(peer, algo, env, 256 if every else 100, **every))
    window()
    print("ready", flush=True)
    for _ in sys.stdin:
        print("rate", window(), flush=True)


if __name__ == "__main__":
    main()
