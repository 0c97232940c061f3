"""Compare environments in JAX with those of Gymnasium's classic control.

Gymnasium computes in float64 and JAX in float32. Single steps that start from the same state agree
to a few units of the last place. Over whole episodes differences add up.
"""

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np

from purerl.spaces import Box, EnvSpec


def check_spec(env, name):
    """Check spaces and time limit."""
    gym = gymnasium.make(name)
    assert env.spec == EnvSpec.of(gym)
    assert env.max_steps == gym.spec.max_episode_steps
    assert hash(env) == hash(type(env)())
    assert env == type(env)()


def sample_action(env, key):
    """Return a random action; of a Box sometimes outside its bounds."""
    action = env.spec.action
    if isinstance(action, Box):
        return jax.random.uniform(key, action.shape, minval=-1.2, maxval=1.2) * action.high[0]
    return jax.random.randint(key, (), 0, action.n)


def roll(env, act, key, length):
    """Play `length` steps without a reset; return states before them, the actions, and results."""
    key_reset, key_steps = jax.random.split(key)
    first, first_obs = env.reset(key_reset, env.params)

    def advance(now, key):
        state, obs = now
        action = act(obs, key)
        given = env.spec.clip(action) if isinstance(env.spec.action, Box) else action
        after, next_obs, reward, terminated, _ = env.step(key, state, given, env.params)
        return (after, next_obs), (state, given, after, next_obs, reward, terminated)

    return jax.lax.scan(advance, (first, first_obs), jax.random.split(key_steps, length))[1]


def play(env, act, count, length, seed=0):
    """Play episodes in one program: arrays `[count, length, ...]` of `roll`."""
    keys = jax.random.split(jax.random.key(seed), count)
    rows = jax.jit(jax.vmap(lambda key: roll(env, act, key, length)))(keys)
    return jax.tree.map(np.asarray, rows)


def take(gym, action):
    """Make one step of an unwrapped environment of Gymnasium."""
    return gym.step(int(action) if action.ndim == 0 else action)


def compare_steps(env, name, count, length, atol=2e-5, act=None):
    """Compare each step of episodes from the same state; return the number of ends.

    Without `act`, actions are random. Episodes go on after their end, so that states far from the
    start are compared as well.
    """
    rows = play(env, act or (lambda obs, key: sample_action(env, key)), count, length)
    gym = gymnasium.make(name).unwrapped
    gym.reset(seed=0)
    worst = 0.0
    for state, action, _, obs, reward, terminated in zip(
        *(x.reshape(-1, *x.shape[2:]) for x in rows), strict=True
    ):
        gym.state = state.astype(np.float64)
        gym.steps_beyond_terminated = None
        wanted_obs, wanted_reward, wanted_terminated, *_ = take(gym, action)
        np.testing.assert_allclose(obs, wanted_obs, atol=atol, rtol=1e-5)
        np.testing.assert_allclose(reward, wanted_reward, atol=atol, rtol=1e-5)
        assert terminated == wanted_terminated
        worst = max(worst, np.abs(obs - wanted_obs).max(), abs(reward - wanted_reward))
    print(f"{name}: largest difference of a step {worst:.1e}")
    return int(rows[-1].sum())


def compare_episodes(env, name, count, act, atol, length=None):
    """Compare whole episodes that start in the same state; return their lengths."""
    rows = play(env, act, count, length or env.max_steps)
    lengths, worst = [], 0.0
    for state, action, _, obs, reward, terminated in zip(*rows, strict=True):
        gym = gymnasium.make(name).unwrapped
        gym.reset(seed=0)
        gym.state = state[0].astype(np.float64)
        for t in range(len(action)):
            wanted_obs, wanted_reward, wanted_terminated, *_ = take(gym, action[t])
            np.testing.assert_allclose(obs[t], wanted_obs, atol=atol)
            np.testing.assert_allclose(reward[t], wanted_reward, atol=atol)
            assert terminated[t] == wanted_terminated
            worst = max(worst, np.abs(obs[t] - wanted_obs).max(), abs(reward[t] - wanted_reward))
            if wanted_terminated:
                break
        lengths.append(t + 1)
    print(f"{name}: largest difference of an episode {worst:.1e}, {sum(lengths)} steps")
    return lengths


def check_params_under_vmap(env, field, values, state, action):
    """Check that mapping over one constant gives the step of each, and that they differ."""
    axes = type(env.params)(*(0 if name == field else None for name in env.params._fields))
    params = env.params._replace(**{field: jnp.float32(values)})
    step = jax.jit(jax.vmap(env.step, (None, None, None, axes)))
    together = step(jax.random.key(0), state, jnp.asarray(action), params)
    assert jnp.unique(together[1], axis=0).shape[0] == len(values)
    for i, value in enumerate(values):
        alone = env.params._replace(**{field: value})
        _, obs, *_ = env.step(jax.random.key(0), state, jnp.asarray(action), alone)
        np.testing.assert_allclose(obs, together[1][i], rtol=1e-5)
