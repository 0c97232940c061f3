# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # First steps
#
# This notebook trains an agent, plots how it learned, and looks inside its policy. It takes less
# than a minute. [Open it in Jupyter](index.md#open-a-notebook-in-jupyter) to change a number and
# run a cell again.
#
# CartPole is a cart with a pole on it. The agent pushes the cart to the left or to the right. Each
# step in which the pole stays up gives a reward of 1, and an episode has at most 500 steps.

# %%
import gymnasium
import jax
import matplotlib.pyplot as plt
import numpy as np

import purerl

purerl.setup()  # optional: faster acting and faster starts

# %% [markdown]
# ## Play at random
#
# Before you train, find out what a random agent gets. Without this number, nobody can judge a
# learning curve.

# %%
env = gymnasium.make("CartPole-v1")
env.action_space.seed(0)
returns = []
for episode in range(50):
    env.reset(seed=episode)
    over, score = False, 0.0
    while not over:
        _, rew, terminated, truncated, _ = env.step(env.action_space.sample())
        over, score = terminated or truncated, score + rew
    returns.append(score)
print(f"random actions: mean return {np.mean(returns):.0f}, best {max(returns):.0f}")

# %% [markdown]
# ## Train
#
# One call trains PPO in a new folder. It is the same as `purerl train ppo --env CartPole-v1` on the
# command line. Every argument is a setting, and [settings](../reference/settings.md) lists them
# all.

# %%
run = purerl.train(
    "ppo",
    "CartPole-v1",
    steps=15_000,
    steps_per_epoch=1_000,
    hidden=(32, 32),
    num_test_episodes=5,
    name="first_steps",
    quiet=True,
)
run

# %% [markdown]
# ## Plot
#
# `run.metrics` has one number per epoch for each column of `progress.txt`. An epoch has 1,000 steps
# here. The test episodes are played without exploration, so their return is often higher.

# %%
metrics = run.metrics
steps = metrics["TotalEnvInteracts"]
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3))
left.plot(steps, metrics["AverageTestEpRet"], label="test")
left.plot(steps, metrics["AverageEpRet"], label="training")
left.axhline(np.mean(returns), color="grey", linestyle="--", label="random")
left.set(title="Return", xlabel="environment steps")
left.legend()
right.plot(steps, metrics["Entropy"])
right.axhline(np.log(2), color="grey", linestyle="--")
right.set(title="Entropy of the policy", xlabel="environment steps")
figure.tight_layout()

# %% [markdown]
# Single evaluations dip, and nothing is broken: five episodes are few, and the policy changes all
# the time. [Debugging a run](../learn/debugging_a_run.md) explains every curve.
#
# The entropy says how random the policy is. It starts near $\log 2 \approx 0.69$, the dashed line:
# both actions are equally likely. It falls while the policy becomes more certain.
#
# ## Evaluate
#
# How good is this policy? Play more episodes. The interval says how precisely the mean of **this**
# policy is known. Another seed gives another policy.

# %%
score = run.evaluate(episodes=20)
low, high = score.ci95
print(f"mean return {score.mean:.0f}, 95 % interval {low:.0f} to {high:.0f}")

# %% [markdown]
# ## Look inside the policy
#
# An algorithm of purerl is a module with pure functions, and `run.params` are the arrays that it
# learned. So you can ask the policy about states that it has never seen. `ppo.distribution` returns
# the logits of both actions, and their softmax is the probability of each.

# %%
from purerl.algos import ppo

angle, speed = np.meshgrid(np.linspace(-0.2, 0.2, 61), np.linspace(-2.0, 2.0, 61))
zeros = np.zeros_like(angle)
obs = np.stack([zeros, zeros, angle, speed], axis=-1).astype(np.float32)  # [61, 61, 4]
right = jax.nn.softmax(ppo.distribution(run.params, obs))[..., 1]

figure, axes = plt.subplots(figsize=(5, 3.5))
mesh = axes.pcolormesh(angle, speed, right, cmap="coolwarm", vmin=0, vmax=1)
figure.colorbar(mesh)
axes.set(title="Probability of a push to the right", xlabel="angle of the pole")
_ = axes.set_ylabel("angular speed")

# %% [markdown]
# If the pole leans to the right (a positive angle), or falls to the right (a positive speed), the
# agent pushes the cart to the right, below the pole. Nobody told it so.
#
# ## What next
#
# - Change `hidden` or `pi_lr` in the call of `purerl.train`, and plot again.
# - [A custom loop with plots](custom_loop.py): the three functions of an algorithm.
# - [Learn](../learn/index.md): what entropy, values and advantages are.
