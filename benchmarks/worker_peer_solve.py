"""One contender of `solve.py`: SBX or SB3 with the settings of the RL Zoo."""

import sys

import gymnasium
import numpy as np
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.noise import NormalActionNoise

from benchmarks.solve import EPISODES, TASKS, Verdict

SETTINGS = {
    "dqn-cartpole": {
        "learning_rate": 2.3e-3,
        "batch_size": 64,
        "buffer_size": 100_000,
        "learning_starts": 1_000,
        "gamma": 0.99,
        "target_update_interval": 10,
        "train_freq": 256,
        "gradient_steps": 128,
        "exploration_fraction": 0.16,
        "exploration_final_eps": 0.04,
        "policy_kwargs": {"net_arch": [256, 256]},
    },
    "sac-pendulum": {"learning_rate": 1e-3},
    "td3-pendulum": {
        "learning_rate": 1e-3,
        "gamma": 0.98,
        "buffer_size": 200_000,
        "learning_starts": 10_000,
        "action_noise": NormalActionNoise(np.zeros(1), 0.1 * np.ones(1)),
        "train_freq": 1,
        "gradient_steps": 1,
        "policy_kwargs": {"net_arch": [400, 300]},
    },
    "ppo-cartpole": {
        "n_steps": 32,
        "batch_size": 256,
        "n_epochs": 20,
        "gamma": 0.98,
        "gae_lambda": 0.8,
        "ent_coef": 0.0,
        "learning_rate": lambda left: 1e-3 * left,
        "clip_range": lambda left: 0.2 * left,
    },
}
EQUAL = {"batch_size": 256, "tau": 0.005}  # for SAC and TD3: the defaults of both peers


class Evaluate(BaseCallback):
    """Callback that plays the deterministic policy between training and the next rollout."""

    def __init__(self, task, seed):
        """Make the environment of the evaluations."""
        super().__init__()
        self.seed = seed
        self.task, self.verdict, self.due = task, Verdict(task), task.every
        self.env, self.solved = gymnasium.make(task.env), False

    def _on_rollout_start(self):
        if self.num_timesteps >= self.due:
            self.due += self.task.every
            self.solved = self.verdict.stop(self.num_timesteps, np.mean(self.returns()))

    def _on_training_end(self):
        if not self.solved:
            self._on_rollout_start()

    def _on_step(self):
        return not self.solved

    def returns(self):
        """Return the returns of the episodes of one evaluation, which has its own seeds."""
        found = []
        for seed in np.random.SeedSequence([self.seed, self.due]).generate_state(EPISODES):
            obs, _ = self.env.reset(seed=int(seed))
            total, done = 0.0, False
            while not done:
                act, _ = self.model.predict(obs, deterministic=True)
                obs, reward, terminated, truncated, _ = self.env.step(act)
                total, done = total + float(reward), terminated or truncated
            found.append(total)
        return found


def main():
    """Train until solved."""
    name, peer, seed = sys.argv[1], sys.argv[2], int(sys.argv[3])
    if peer == "sbx":
        import sbx as library
    else:
        import stable_baselines3 as library
        import torch

        torch.set_num_threads(1)
    task, algo = TASKS[name], name.partition("-")[0]
    settings = SETTINGS[name] | (EQUAL if algo in ("sac", "td3") else {})
    env = make_vec_env(task.env, n_envs=8 if algo == "ppo" else 1, seed=seed)
    model = getattr(library, algo.upper())("MlpPolicy", env, seed=seed, device="cpu", **settings)
    model.learn(task.budget, callback=Evaluate(task, seed))


if __name__ == "__main__":
    main()
