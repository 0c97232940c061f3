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
# # Probe a broken agent
#
# Somebody gives you an agent that does not learn, and no error message appears. Is it a bug, a bad
# setting, or bad luck? This notebook finds out with **probes**: problems so small that you know
# every value. [Why RL code fails silently](../learn/silent_failures.md) explains the idea. [Open
# the notebook in Jupyter](index.md#open-a-notebook-in-jupyter) to repair the agent yourself.

# %%
import dataclasses
import functools
import types

import gymnasium
import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
import optax

import purerl
from purerl.algos import dqn
from purerl.loops import gym as loop
from purerl.schedules import OffPolicySchedule
from purerl.spaces import Discrete, EnvSpec
from purerl.types import Batch

purerl.setup()  # optional: faster acting and faster starts

# %% [markdown]
# ## The agent
#
# It is DQN with a loss that somebody has rewritten. It takes everything else from
# `purerl.algos.dqn`. Read it. One line is wrong, and it is easy to miss.


# %%
def given_loss(params, batch):
    """Return the squared error of the values of the actions taken."""
    slow = dataclasses.replace(params, critic=params.target_critic)
    next_value = dqn.q_value(slow, batch.next_obs).max(axis=1)  # [B]
    target = batch.rew + params.spec.gamma * (1.0 - batch.truncated) * next_value
    q = dqn.q_value(params, batch.obs)[jnp.arange(len(batch.act)), batch.act]  # [B]
    loss_q = jnp.square(q - jax.lax.stop_gradient(target)).mean()
    return loss_q, {"loss_q": loss_q, "q": q.mean()}


def make_agent(critic_loss):
    """Return an algorithm: DQN with another loss."""

    @jax.jit
    def update(state, batch):
        params, count = state.params, state.step + 1
        spec, tx = params.spec, dqn.optimizers(params.spec)["critic"]
        grads, info = jax.grad(critic_loss, has_aux=True)(params, batch)
        step, opt = tx.update(grads.critic, state.opt_state["critic"], params.critic)
        critic = optax.apply_updates(params.critic, step)
        due = count % spec.target_every == 0
        target = jax.tree.map(lambda x, y: jnp.where(due, x, y), critic, params.target_critic)
        fraction = jnp.minimum(count / spec.eps_decay, 1.0)
        epsilon = spec.eps_start + fraction * (spec.eps_end - spec.eps_start)
        params = dqn.Params(critic, target, jnp.float32(epsilon), spec)
        return dqn.State(params, {"critic": opt}, count), info

    return types.SimpleNamespace(**vars(dqn) | {"loss": critic_loss, "update": update})


# %% [markdown]
# ## The curve
#
# Train it on CartPole, and look at the return and at the mean value.

# %%
make = functools.partial(gymnasium.make, "CartPole-v1")
spec = dqn.Spec(EnvSpec.of(make()), hidden=(64, 64), gamma=0.95, lr=1e-3, eps_decay=2_000)
schedule = OffPolicySchedule(
    steps=6_000, steps_per_epoch=500, start_steps=500, update_after=500, num_test_episodes=0
)


def train(agent):
    """Return steps, mean returns and mean values of a training run."""
    records = list(loop.run(agent, spec, make, schedule, seed=0))
    rows = [(r["steps"], np.mean(r["ep_returns"]), r["q"]) for r in records[1:]]
    return np.array(rows).T


def draw(curves):
    """Plot the returns and the values of several agents."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3))
    for name, (steps, returns, values) in curves.items():
        left.plot(steps, returns, label=name)
        right.plot(steps, values, label=name)
    right.axhline(1 / (1 - spec.gamma), color="grey", linestyle="--")
    left.set(title="Return", xlabel="environment steps")
    right.set(title="Mean value", xlabel="environment steps")
    left.legend()
    figure.tight_layout()


curves = {"given": train(make_agent(given_loss))}
draw(curves)

# %% [markdown]
# The return does not rise. The curve does not say why. More steps, another learning rate or another
# seed might help, and a day is quickly lost with trying them.
#
# The right plot has a hint. The reward is 1 for each step, so no value can exceed the dashed line,
# $1 / (1 - \gamma) = 20$. That is an episode that never ends. The values cross it, although the
# episodes have ten steps. So the critic is wrong for certain. But where?
#
# ## The probes
#
# A loss is a function of parameters and a batch, so a probe needs no environment. It is a batch
# whose right values we know. Observations have two numbers, and there are two actions.

# %%
GAMMA = 0.8
TINY = dqn.Spec(
    EnvSpec(obs_shape=(2,), action=Discrete(2)), hidden=(32,), gamma=GAMMA, lr=1e-2, target_every=20
)
B = 64

# All pairs of a sign and an action, many times; an observation is the sign, and the time 0 or 1.
sign, act = np.meshgrid([-1.0, 1.0], [0, 1])
sign, act = np.tile(sign.ravel(), B // 4), np.tile(act.ravel(), B // 4)
first, second = np.stack([sign, 0 * sign], axis=1), np.stack([sign, 0 * sign + 1], axis=1)
late = np.arange(B) % 8 >= 4  # half of the rows are at time 1

# The ring: steps 0 to 7 of an episode that passes four states twice, with random actions.
turn = np.arange(B) % 8
quarter = np.pi / 2 * np.arange(9)
ring = np.stack([np.cos(quarter), np.sin(quarter)], axis=1)
coin = np.random.default_rng(0).integers(0, 2, B)


def make_batch(obs, act, rew, next_obs, terminated, truncated):
    """Return a batch with the right types; a number stands for all rows."""
    rew, terminated, truncated = (np.broadcast_to(x, B) for x in (rew, terminated, truncated))
    obs, next_obs, rew = (np.asarray(x, np.float32) for x in (obs, next_obs, rew))
    return Batch(obs, act.astype(np.int32), rew, next_obs, terminated, truncated)


# A batch, and the right value of each of its rows.
probes = {
    "Constant": (make_batch(first, act, 1.0, first, True, False), 1.0),
    "Observation": (make_batch(first, act, sign, first, True, False), sign),
    "Action": (make_batch(first, act, 2.0 * act - 1.0, first, True, False), 2.0 * act - 1.0),
    "Delayed": (
        make_batch(np.where(late[:, None], second, first), act, late, second, late, False),
        np.where(late, 1.0, GAMMA),
    ),
    "Ring": (
        make_batch(ring[turn], coin, 1.0, ring[turn + 1], False, turn == 7),
        1 / (1 - GAMMA),
    ),
}

# %% [markdown]
# | probe | what happens | right value |
# |---|---|---|
# | Constant | one step with the reward 1 | 1 |
# | Observation | one step, the reward is the observed sign | the sign |
# | Action | one step, the reward is -1 or 1, as the action | -1 or 1 |
# | Delayed | two steps, the reward 1 comes with the second | $\gamma$, then 1 |
# | Ring | four states in a ring, reward 1 for ever, cut after 8 steps | $1 / (1 - \gamma) = 5$ |
#
# An agent learns each batch for 1,500 updates. This takes about a second, because all of them are
# one compiled program.


# %%
def probe(critic_loss):
    """Return the learned value of each row of each probe."""
    agent = make_agent(critic_loss)

    @jax.jit
    def learn(state, batch):
        return jax.lax.fori_loop(0, 1_500, lambda _, s: agent.update(s, batch)[0], state)

    learned = {}
    for name, (batch, _) in probes.items():
        params = learn(dqn.init(jax.random.key(0), TINY), batch).params
        learned[name] = np.asarray(dqn.q_value(params, batch.obs))[np.arange(B), batch.act]
    return learned


def report(learned):
    """Return "ok" or the largest error for each probe."""
    errors = {name: np.abs(learned[name] - right).max() for name, (_, right) in probes.items()}
    return {name: "ok" if error < 0.1 else f"off by {error:.2f}" for name, error in errors.items()}


learned = probe(given_loss)
report(learned)

# %% [markdown]
# Read the result in the order of the probes, and stop at the first that fails. It is `Constant`,
# the simplest of all. What value did the agent learn there?

# %%
print(f"learned {learned['Constant'].mean():.2f}, right 1.00, for ever {1 / (1 - GAMMA):.2f}")

# %% [markdown]
# It learned the value of a reward of 1 **for ever**. So the agent does not know that the episode is
# over. Only one factor of the loss can do this: the one that removes the next value after a
# terminal step. Look at it again:
#
# ```py
# target = batch.rew + params.spec.gamma * (1.0 - batch.truncated) * next_value
# ```
#
# It says `truncated`, and `terminated` is right. A fallen pole was followed by a future of great
# value, and a time limit by none.
#
# ## The repair


# %%
def right_loss(params, batch):
    """Return the squared error of the values of the actions taken."""
    slow = dataclasses.replace(params, critic=params.target_critic)
    next_value = dqn.q_value(slow, batch.next_obs).max(axis=1)  # [B]
    target = batch.rew + params.spec.gamma * (1.0 - batch.terminated) * next_value
    q = dqn.q_value(params, batch.obs)[jnp.arange(len(batch.act)), batch.act]  # [B]
    loss_q = jnp.square(q - jax.lax.stop_gradient(target)).mean()
    return loss_q, {"loss_q": loss_q, "q": q.mean()}


found = report(probe(right_loss))
assert set(found.values()) == {"ok"}, found
found

# %%
curves["repaired"] = train(make_agent(right_loss))
draw(curves)

# %% [markdown]
# The return rises, and the values level off near the line. That is the value of a pole that never
# falls.
#
# ## Three more bugs
#
# The next cell plants three other bugs, one at a time. Before you look at the table below it: which
# probe is the first to fail for each?


# %%
def make_loss(bug):
    """Return the loss with one planted bug."""

    def critic_loss(params, batch):
        slow = dataclasses.replace(params, critic=params.target_critic)
        next_value = dqn.q_value(slow, batch.next_obs).max(axis=1)
        end = batch.terminated
        if bug == "the time limit is terminal":
            end = jnp.maximum(batch.terminated, batch.truncated)
        gamma = 1.0 if bug == "no discount" else params.spec.gamma
        target = jax.lax.stop_gradient(batch.rew + gamma * (1.0 - end) * next_value)
        q = dqn.q_value(params, batch.obs)[jnp.arange(len(batch.act)), batch.act]
        error = q[:, None] - target if bug == "[B, 1] against [B]" else q - target
        loss_q = jnp.square(error).mean()
        return loss_q, {"loss_q": loss_q, "q": q.mean()}

    return critic_loss


bugs = ("none", "[B, 1] against [B]", "no discount", "the time limit is terminal")
print(f"{'bug':28}", *(f"{name:13}" for name in probes))
for bug in bugs:
    row = report(probe(make_loss(bug)))
    print(f"{bug:28}", *(f"{row[name]:13}" for name in probes))

# %% [markdown]
# Each bug has a signature, and the first probe that fails names the suspect. `Constant` does not
# notice the shapes: if all rows have the same target, mixing them changes nothing. Only `Ring` has
# a time limit, so no other probe can notice the last bug.
#
# ## What next
#
# - [Why RL code fails silently](../learn/silent_failures.md) has more probes, and the classic bugs.
# - [Debugging a run](../learn/debugging_a_run.md): what to look at when a curve is all you have.
# - [Test a loss](../guides/testing_a_loss.md): numbers by hand, in milliseconds.
