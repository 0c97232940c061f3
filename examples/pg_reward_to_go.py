"""The policy gradient with reward-to-go: each action is weighted by the rewards that follow it.

    python examples/pg_reward_to_go.py --env Acrobot-v1 --lr 5e-3 --render

L = -mean(log pi(a_t | s_t) R_t), where R_t is the sum of the rewards from step t on. Rewards before
an action would add only noise to its gradient. This script does not use purerl.
"""

import argparse

import gymnasium
import jax
import jax.numpy as jnp
import optax


def log_policy(params, obs):  # log-probabilities of all actions, from one layer of 32 tanh units
    return jax.nn.log_softmax(jnp.tanh(obs @ params["w1"] + params["b1"]) @ params["w2"])


@jax.jit
def act(params, obs, key, count):  # sample an action; each step has its own key
    return jax.random.categorical(jax.random.fold_in(key, count), log_policy(params, obs))


def loss(params, obs, act, weight):  # minimising it follows the policy gradient
    logp = jnp.take_along_axis(log_policy(params, obs), act[:, None], axis=1)[:, 0]
    return -(logp * weight).mean()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--env", "--env_name", default="CartPole-v1", help="id, Discrete actions")
    parser.add_argument("--lr", type=float, default=1e-2)
    parser.add_argument("--epochs", type=int, default=50)
    parser.add_argument("--steps", type=int, default=5_000, help="steps per epoch; the rest is cut")
    parser.add_argument("--render", action="store_true", help="show each epoch's first episode")
    args = parser.parse_args()
    env = gymnasium.make(args.env)
    discrete = isinstance(env.action_space, gymnasium.spaces.Discrete)
    if not discrete or len(env.observation_space.shape or ()) != 1:
        parser.error(f"--env {args.env}: needs Discrete actions and vectors as observations")
    shown = gymnasium.make(args.env, render_mode="human") if args.render else env
    key, *keys = jax.random.split(jax.random.key(0), 3)
    w1 = jax.random.normal(keys[0], (env.observation_space.shape[0], 32)) / 2
    w2 = jax.random.normal(keys[1], (32, int(env.action_space.n))) / 32**0.5
    params, tx = {"w1": w1, "b1": jnp.zeros(32), "w2": w2}, optax.adam(args.lr)
    opt_state, count, step = tx.init(params), 0, jax.jit(jax.value_and_grad(loss))
    for epoch in range(args.epochs):
        obss, acts, weights, returns = [], [], [], []  # play whole episodes with the current policy
        while len(acts) < args.steps:
            stage, rews, over = env if returns else shown, [], False
            obs, _ = stage.reset(seed=count)
            while not over:
                obss.append(obs)
                acts.append(int(act(params, obs, key, count)))
                obs, rew, terminated, truncated, _ = stage.step(acts[-1])
                count, over = count + 1, terminated or truncated
                rews.append(rew)
            returns.append(sum(rews))
            weights += [sum(rews[t:]) for t in range(len(rews))]
        value, grads = step(params, *(jnp.asarray(x)[: args.steps] for x in (obss, acts, weights)))
        updates, opt_state = tx.update(grads, opt_state)  # one gradient step per epoch
        params = optax.apply_updates(params, updates)
        score, length = sum(returns) / len(returns), len(acts) / len(returns)
        print(f"epoch {epoch:2}  loss {value:8.3f}  return {score:7.2f}  ep_len {length:6.1f}")


if __name__ == "__main__":
    main()
