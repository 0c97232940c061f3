"""Run the schedule of CleanRL's JAX scripts as a contender of `compare.py`: one update per step.

CleanRL is a collection of scripts, not a package. The functions here make the same calls in the
same order as its `dqn_jax.py` and `td3_continuous_action_jax.py`. They use a vector environment of
one environment with episode statistics, SB3's replay buffer, and jitted updates of Flax train
states. They write no logs. The interpreter is that of the peers.
"""

import random
import sys
import time
from typing import Any

import flax.linen as nn
import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax.training import train_state
from stable_baselines3.common.buffers import ReplayBuffer

START = 200  # steps before the first update
GAMMA, TAU, NOISE_CLIP = 0.99, 0.005, 0.5


class TrainState(train_state.TrainState):
    """Parameters with those of their target network."""

    target_params: Any


class Network(nn.Module):
    """An MLP; the activation of its output is tanh for a policy."""

    sizes: tuple[int, ...]
    tanh: bool = False

    @nn.compact
    def __call__(self, *inputs):
        """Return the output for the concatenated inputs."""
        x = jnp.concatenate(inputs, -1)
        for size in self.sizes[:-1]:
            x = nn.relu(nn.Dense(size)(x))
        x = nn.Dense(self.sizes[-1])(x)
        return jnp.tanh(x) if self.tanh else x


def make_state(network, key, lr, *inputs):
    """Return a train state whose target equals its parameters."""
    params = network.init(key, *inputs)
    tx = optax.adam(lr)
    return TrainState.create(apply_fn=network.apply, params=params, target_params=params, tx=tx)


def make_envs(env_id):
    """Return a vector environment of one environment, and a replay buffer for it."""

    def make():
        return gymnasium.wrappers.RecordEpisodeStatistics(gymnasium.make(env_id))

    envs = gymnasium.vector.SyncVectorEnv(
        [make], autoreset_mode=gymnasium.vector.AutoresetMode.SAME_STEP
    )
    space = envs.single_observation_space
    space = gymnasium.spaces.Box(space.low, space.high, space.shape, np.float32)
    rows = ReplayBuffer(
        100_000 if env_id == "CartPole-v1" else 1_000_000,
        space,
        envs.single_action_space,
        device="cpu",
        handle_timeout_termination=False,
    )
    return envs, rows


def step(envs, rows, obs, actions):
    """Take one step, store the transition, and return the next observation."""
    next_obs, rewards, terminated, truncated, infos = envs.step(actions)
    real = next_obs.copy()
    for i, ended in enumerate(terminated | truncated):
        if ended:
            real[i] = infos["final_obs"][i]
    rows.add(obs, real, actions, rewards, terminated, [infos])
    return next_obs


def draw(rows, batch_size):
    """Return observations, actions, next observations, rewards and ends of a batch."""
    data = rows.sample(batch_size)
    return (
        data.observations.numpy(),
        data.actions.numpy(),
        data.next_observations.numpy(),
        data.rewards.flatten().numpy(),
        data.dones.flatten().numpy(),
    )


def make_dqn_step():
    """Return a function that takes one step of CartPole-v1 and one update of batch 128."""
    envs, rows = make_envs("CartPole-v1")
    obs, _ = envs.reset(seed=1)
    network = Network((120, 84, envs.single_action_space.n))
    state, apply = make_state(network, jax.random.key(1), 2.5e-4, obs), jax.jit(network.apply)

    @jax.jit
    def update(state, obs, actions, next_obs, rewards, dones):
        next_q = apply(state.target_params, next_obs).max(axis=-1)
        target = rewards + (1 - dones) * GAMMA * next_q

        def loss(params):
            q = apply(params, obs)
            q = q[np.arange(len(q)), actions.squeeze()]
            return ((q - target) ** 2).mean(), q

        (value, q), grads = jax.value_and_grad(loss, has_aux=True)(state.params)
        return value, q, state.apply_gradients(grads=grads)

    done = 0

    def one():
        nonlocal obs, state, done
        if random.random() < 0.05 or done < START:
            actions = np.array([envs.single_action_space.sample()])
        else:
            actions = jax.device_get(apply(state.params, obs).argmax(axis=-1))
        obs = step(envs, rows, obs, actions)
        done += 1
        if done > START:
            _, _, state = update(state, *draw(rows, 128))
            if done % 500 == 0:
                state = state.replace(target_params=optax.incremental_update(
                    state.params, state.target_params, 1.0
                ))  # fmt: skip

    return one


def make_td3_step(env_id):
    """Return a function that takes one step and one update of batch 256."""
    envs, rows = make_envs(env_id)
    obs, _ = envs.reset(seed=1)
    obs = obs.astype(np.float32)
    space = envs.single_action_space
    scale, size = float(space.high[0]), space.shape[0]
    keys = jax.random.split(jax.random.key(1), 4)
    actor_net, critic_net = Network((256, 256, size), tanh=True), Network((256, 256, 1))
    actor = make_state(actor_net, keys[0], 3e-4, obs)
    critics = tuple(
        make_state(critic_net, k, 3e-4, obs, envs.action_space.sample()) for k in keys[1:3]
    )
    act, value, key = jax.jit(actor_net.apply), jax.jit(critic_net.apply), keys[3]

    @jax.jit
    def update_critics(actor, critics, obs, actions, next_obs, rewards, dones, key):
        key, noise_key = jax.random.split(key)
        noise = jnp.clip(
            0.2 * jax.random.normal(noise_key, actions[0].shape), -NOISE_CLIP, NOISE_CLIP
        )
        next_act = jnp.clip(act(actor.target_params, next_obs) * scale + noise, -scale, scale)
        next_q = [value(one.target_params, next_obs, next_act).reshape(-1) for one in critics]
        target = rewards + (1 - dones) * GAMMA * jnp.minimum(*next_q)

        def loss(params):
            q = value(params, obs, actions).squeeze()
            return ((q - target) ** 2).mean(), q.mean()

        found = [jax.value_and_grad(loss, has_aux=True)(one.params) for one in critics]
        pairs = zip(critics, found, strict=True)
        critics = tuple(one.apply_gradients(grads=grads) for one, (_, grads) in pairs)
        return critics, [info for info, _ in found], key

    @jax.jit
    def update_actor(actor, critics, obs):
        def loss(params):
            return -value(critics[0].params, obs, act(params, obs) * scale).mean()

        cost, grads = jax.value_and_grad(loss)(actor.params)
        actor = actor.apply_gradients(grads=grads)

        def move(one):
            moved = optax.incremental_update(one.params, one.target_params, TAU)
            return one.replace(target_params=moved)

        return move(actor), tuple(map(move, critics)), cost

    done, generator = 0, np.random.default_rng(1)

    def one():
        nonlocal obs, actor, critics, key, done
        if done < START:
            actions = envs.action_space.sample()
        else:
            found = jax.device_get(act(actor.params, obs))[0] * scale
            noise = generator.normal(0, 0.1 * scale, size)
            actions = np.array([(found + noise).clip(space.low, space.high)])
        obs = step(envs, rows, obs, actions).astype(np.float32)
        done += 1
        if done > START:
            batch = draw(rows, 256)
            critics, _, key = update_critics(actor, critics, *batch, key)
            if done % 2 == 0:
                actor, critics, _ = update_actor(actor, critics, batch[0])

    return one


def main():
    """Print a rate for every line read."""
    algo, _, env = sys.argv[1].partition("-")
    names = {"halfcheetah1": "HalfCheetah-v5", "pendulum1": "Pendulum-v1"}
    one, steps = (make_dqn_step(), 1_000) if algo == "dqn" else (make_td3_step(names[env]), 500)

    def window():
        began = time.perf_counter()
        for _ in range(steps):
            one()
        return steps / (time.perf_counter() - began)

    window()
    print("ready", flush=True)
    for _ in sys.stdin:
        print("rate", window(), flush=True)


if __name__ == "__main__":
    main()
