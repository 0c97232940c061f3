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
# # A custom loop with plots
#
# This notebook trains TD3 in a loop of its own, and plots what it learns. With a loop of your own
# you can measure everything and change everything. The guide [a custom
# loop](../guides/custom_loop.md) explains the functions. [Open the notebook in
# Jupyter](index.md#open-a-notebook-in-jupyter) to change a number and run a cell again.
#
# Pendulum is a rod that hangs down. The agent turns it by a torque, and shall keep it upright. The
# reward is at most 0, and an episode has 200 steps. A random agent has a return of about -1,200,
# and a good one of about -150.

# %%
import functools

import gymnasium
import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import purerl
from purerl.algos import td3
from purerl.buffers import replay
from purerl.spaces import EnvSpec
from purerl.types import Transition

purerl.setup()  # optional: faster acting and faster starts
STEPS, RANDOM = 8_000, 1_000

# %% [markdown]
# ## The learner
#
# `Spec` has the settings. `init` makes a state from a random key and the settings. Nothing else
# happens: no file, no environment, no global variable.

# %%
env = gymnasium.make("Pendulum-v1")
spec = td3.Spec(EnvSpec.of(env), hidden=(64, 64), gamma=0.95)
state = td3.init(jax.random.key(0), spec)
buffer = replay.init(spec.env.example(), capacity=STEPS)
sum(x.size for x in jax.tree.leaves(state.params.critic))  # numbers in both critics

# %% [markdown]
# ## Two functions of ours
#
# `learn` stores a transition and does one update. JAX compiles it once. `donate_argnums` lets it
# change the buffer in place. Its random numbers come from a key and the number of the step.
#
# `explore` adds noise to the actions of the policy. It replaces `td3.act`, whose noise is a
# constant, the setting `act_noise`. Here the noise becomes smaller during the run. No setting can
# do this, and in a loop of your own it is one line.


# %%
sample_key, act_key = jax.random.split(jax.random.key(0))


@functools.partial(jax.jit, donate_argnums=(0, 1))
def learn(state, buffer, row, step):
    """Store one transition, and do one update on a batch of stored ones."""
    buffer, key = replay.add(buffer, row), jax.random.fold_in(sample_key, step)
    state, info = td3.update(state, replay.sample(buffer, key, batch_size=64))
    return state, buffer, info


@jax.jit
def explore(params, obs, noise, step):
    """Return actions of the policy plus normal noise, inside the bounds."""
    unit = spec.env.normalise(td3.policy(params, obs))  # in [-1, 1]
    key = jax.random.fold_in(act_key, step)
    return spec.env.from_unit(unit + noise * jax.random.normal(key, unit.shape))


# %% [markdown]
# ## The loop
#
# For each step we keep the reward and the mean value of the batch. They cost nothing, and the plots
# below need them. The metrics stay on the device, so the loop does not wait for them.

# %%
env.action_space.seed(0)
rewards, values, lengths = [], [], []
obs, _ = env.reset(seed=0)
for step in range(STEPS):
    act = env.action_space.sample()  # the first actions are random
    if step >= RANDOM:
        noise = 0.3 * (1 - step / STEPS)
        act = np.asarray(explore(state.params, obs, noise, step))
    next_obs, rew, terminated, truncated, _ = env.step(act)
    row = Transition(obs, act, rew, next_obs, terminated, truncated)
    row = jax.tree.map(lambda x: np.asarray(x)[None], row)  # a block of one row
    state, buffer, info = learn(state, buffer, row, step)
    rewards.append(rew)
    values.append(info["q1"])
    obs = next_obs
    if terminated or truncated:
        obs, _ = env.reset()
values = np.asarray(jnp.stack(values))
returns = np.reshape(rewards, (-1, 200)).sum(axis=1)  # every episode has 200 steps
print(f"first five episodes {returns[:5].mean():.0f}, last five {returns[-5:].mean():.0f}")

# %% [markdown]
# ## Does it learn, and are its values possible?
#
# The left plot has the return of each episode. The right plot compares what the critic predicts
# with what the agent obtained. $Q(s, a)$ predicts the discounted sum of later rewards, so we
# compute these sums from the recorded rewards, backwards from the last step of each episode.

# %%
to_go = np.reshape(rewards, (-1, 200))
for t in reversed(range(199)):
    to_go[:, t] += spec.gamma * to_go[:, t + 1]
obtained = to_go[:, :150].mean(axis=1)  # later steps see too few of the rewards

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3))
ends = 200 * np.arange(1, len(returns) + 1)
left.plot(ends, returns)
left.axvline(RANDOM, color="grey", linestyle="--")
left.set(title="Return of each episode", xlabel="environment steps")
right.plot(values, label="predicted, mean of a batch")
right.plot(ends, obtained, label="obtained, mean of an episode")
right.axvline(RANDOM, color="grey", linestyle="--")
right.set(title="Discounted return", xlabel="environment steps")
right.legend()
figure.tight_layout()

# %% [markdown]
# The dashed line is the end of the random actions. The critic starts near 0, which is far too high,
# and comes down slowly, because its targets contain its own values. At the end the agent obtains
# more than the critic predicts. The prediction is a mean over the replay buffer, which contains old
# and worse behaviour too. Values above 0 would be impossible, because no reward is positive.
#
# ## What did it learn?
#
# `td3.policy` and `td3.q_value` are functions of parameters and observations. Call them on a grid
# of angles and speeds. The angle 0 is upright.

# %%
angle, speed = np.meshgrid(np.linspace(-np.pi, np.pi, 81), np.linspace(-8, 8, 81))
grid = np.stack([np.cos(angle), np.sin(angle), speed], axis=-1).astype(np.float32)  # [81, 81, 3]
torque = td3.policy(state.params, grid)  # [81, 81, 1]
value = td3.q_value(state.params, grid, torque).min(axis=0)  # [81, 81]

figure, axes = plt.subplots(1, 2, figsize=(9, 3))
pictures = (("Torque of the policy", torque[..., 0], "coolwarm"), ("Value", value, "viridis"))
for one, (title, numbers, colours) in zip(axes, pictures, strict=True):
    figure.colorbar(one.pcolormesh(angle, speed, numbers, cmap=colours), ax=one)
    one.set(title=title, xlabel="angle", ylabel="angular speed")
figure.tight_layout()

# %% [markdown]
# The value is highest where the rod is upright and at rest. The bright band leads there: the rod
# falls towards the top with the right speed.
#
# ## Ask for a gradient
#
# A loss is a pure function too, so `jax.grad` differentiates it. How strongly does each layer of
# the first critic want to move, on one batch? Sizes that differ by many orders of magnitude, or
# zeros, would be a warning.

# %%
batch = replay.sample(buffer, jax.random.key(1), batch_size=256)
grads, info = jax.grad(td3.critic_loss, has_aux=True)(state.params, batch)
for path, leaf in jax.tree_util.tree_leaves_with_path(grads.critic[0]):
    print(f"{jax.tree_util.keystr(path):45} {float(jnp.abs(leaf).mean()):.1e}")
print(f"loss {float(info['loss_q']):.3f}")

# %% [markdown]
# ## What next
#
# - Give the critics layer normalisation: [your own network](../guides/custom_network.md).
# - [Test a loss](../guides/testing_a_loss.md) with numbers that you computed by hand.
# - [Probe a broken agent](broken_agent.py): find a bug that gives no error message.
