"""Episodes of N environments in JAX: time limit, automatic reset, and the true final observation.

An environment has no time limit and never resets itself (`purerl.envs.protocol`). This module is
the one place that adds both. Its functions are pure: compile, scan, and map them over seeds.

    >>> from purerl.envs.classic.cartpole import CartPole
    >>> env, seed, rank = CartPole(), 0, 0
    >>> now = reset(env, env.params, seed, rank, num_envs=2)
    >>> actions = jnp.zeros(2, jnp.int32)
    >>> now, result = step(env, env.params, seed, rank, env.max_steps, now, actions)
    >>> result.transition.next_obs.shape, now.length.tolist()
    ((2, 4), [1, 1])

`result.transition.next_obs` is always the true successor, also at the end of an episode.
`Episodes.obs` is what to act on next, after an end the first observation of the next episode.

All randomness is computed from counters. Episode e of environment i has the key
`rng.stream(seed, rank, "env", i, e)`. `split_key` splits it into one key for the reset and one for
the steps, and step t uses `fold_in(key of the steps, t)`. An episode therefore depends only on
(seed, rank, i, e) and its actions, not on the number of environments or on earlier episodes.

Steps at which no episode ends do not pay for a reset, also under `vmap`.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.custom_batching import custom_vmap

from purerl import checks, rng
from purerl.envs.protocol import JaxEnv
from purerl.spaces import Box
from purerl.types import Transition


class Episodes(NamedTuple):
    """N environments, each with its episode in progress; all arrays have a leading axis N."""

    state: Any  # states of the environments
    obs: jax.Array  # [N, *obs_shape] observations to act on
    key: jax.Array  # key data [N, ...] of the key for the steps of the episode
    number: jax.Array  # [N] uint32, number of the episode of this environment: 0, 1, ...
    length: jax.Array  # [N] int32, steps of the episode so far
    ret: jax.Array  # [N] float32, sum of its rewards so far


class StepResult(NamedTuple):
    """One step of N environments."""

    transition: Transition  # [N, ...]; `act` as given, `next_obs` the true successor
    ended: jax.Array  # [N] bool, whether this step ended the episode
    ret: jax.Array  # [N] float32, sum of the rewards of the episode, with this step
    length: jax.Array  # [N] int32, steps of the episode, with this step
    info: dict[str, Any]  # of the environments


def split_key(key: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Split the key of an episode into one for the reset and one for the steps."""
    key_reset, key_steps = jax.random.split(key)
    return key_reset, key_steps


def reset(
    env: JaxEnv, params: Any, seed: Any, rank: Any, num_envs: int, first: Any = 0
) -> Episodes:
    """Start episode 0 of each environment.

    Args:
        env: Environment, see `purerl.envs.protocol`.
        params: Parameters of the environment.
        seed: Seed of all episodes, a uint32, traced or not.
        rank: Rank of the process, a uint32, traced or not.
        num_envs: Number of environments N.
        first: Number of the first of them, if they are a part of more environments.
    """
    checks.integer("num_envs", num_envs, 1)
    return _start(env, params, seed, rank, jnp.zeros(num_envs, jnp.uint32), first)


def restart(
    env: JaxEnv, params: Any, seed: Any, rank: Any, episodes: Episodes, first: Any = 0
) -> Episodes:
    """Cut all episodes in progress and start the next ones. Arguments as for `step`."""
    return _start(env, params, seed, rank, episodes.number + jnp.uint32(1), first)


def step(
    env: JaxEnv,
    params: Any,
    seed: Any,
    rank: Any,
    max_steps: int | None,
    episodes: Episodes,
    actions: jax.Array,
    first: Any = 0,
) -> tuple[Episodes, StepResult]:
    """Step all environments, and start the next episode of those that ended.

    Args:
        env: Environment, see `purerl.envs.protocol`.
        params: Parameters of the environment.
        seed: Seed of all episodes, as given to `reset`.
        rank: Rank of the process, as given to `reset`.
        max_steps: Number of steps after which an episode is cut, or None. A step that reaches it
            is truncated, also if it is terminated.
        episodes: Result of `reset`, `restart` or `step`.
        actions: Actions `[N, *act_shape]` in the environment's units. The environment receives a
            copy that is clipped to the bounds of its Box.
        first: Number of the first environment, as given to `reset`.
    """
    if max_steps is not None:
        checks.integer("max_steps", max_steps, 1)
    key = jax.vmap(jax.random.fold_in)(jax.random.wrap_key_data(episodes.key), episodes.length)
    bounded = env.spec.clip(actions) if isinstance(env.spec.action, Box) else actions
    state, next_obs, rew, terminated, info = jax.vmap(env.step, (0, 0, 0, None))(
        key, episodes.state, bounded, params
    )
    state, next_obs = _keep_dtypes(episodes.state, state), _cast_obs(env, next_obs)
    rew, terminated = jnp.asarray(rew, jnp.float32), jnp.asarray(terminated, bool)
    for name, x in (("reward", rew), ("terminated", terminated)):
        checks.shape(name, x, episodes.length.shape)

    length, ret = episodes.length + jnp.int32(1), episodes.ret + rew
    truncated = length >= max_steps if max_steps else jnp.zeros_like(terminated)
    ended = terminated | truncated
    going_on = episodes._replace(state=state, obs=next_obs, length=length, ret=ret)

    def start_next() -> Episodes:
        return _select(ended, restart(env, params, seed, rank, episodes, first), going_on)

    transition = Transition(episodes.obs, actions, rew, next_obs, terminated, truncated)
    following = jax.lax.cond(_is_any(ended), start_next, lambda: going_on)
    return following, StepResult(transition, ended, ret, length, info)


@custom_vmap
def _is_any(ended: jax.Array) -> jax.Array:
    """Return whether any episode ended. Under `vmap` the answer is one for the whole batch.

    A condition with one answer per element would compute both of its branches at every step.
    """
    return ended.any()


@_is_any.def_vmap
def _is_any_of_batch(
    axis_size: int, in_batched: list[bool], ended: jax.Array
) -> tuple[jax.Array, bool]:
    return _is_any(ended.any(axis=0)), False  # `vmap` may be nested


def _start(
    env: JaxEnv, params: Any, seed: Any, rank: Any, number: jax.Array, first: Any
) -> Episodes:
    """Start the episodes with these numbers, `[N]`."""
    zero = jnp.zeros_like(number)
    index = jnp.arange(number.shape[0], dtype=jnp.uint32) + jnp.uint32(first)
    counters = (jnp.stack([zero, index], axis=1), jnp.stack([zero, number], axis=1))  # words
    key = jax.vmap(lambda i, e: rng.stream(seed, rank, "env", i, e))(*counters)
    key_reset, key_steps = jax.vmap(split_key)(key)
    state, obs = jax.vmap(env.reset, (0, None))(key_reset, params)
    data = jax.random.key_data(key_steps)
    length, ret = zero.astype(jnp.int32), zero.astype(jnp.float32)
    return Episodes(_keep_dtypes(state, state), _cast_obs(env, obs), data, number, length, ret)


def _cast_obs(env: JaxEnv, obs: Any) -> jax.Array:
    """Return observations in the dtype of the specification; refuse another shape."""
    obs = jnp.asarray(obs, env.spec.obs_dtype)
    checks.shape("obs", obs, (*obs.shape[:1], *env.spec.obs_shape))
    return obs


def _select(ended: jax.Array, fresh: Episodes, old: Episodes) -> Episodes:
    """Take from `fresh` the rows that ended, and from `old` the others."""

    def select(a: jax.Array, b: jax.Array) -> jax.Array:
        if a.shape[:1] != ended.shape:  # shared by all environments, as in MuJoCo Warp
            return b
        return jnp.where(ended.reshape(-1, *(1,) * (a.ndim - 1)), a, b)

    return jax.tree.map(select, fresh, old)


def _keep_dtypes(old: Any, new: Any) -> Any:
    """Return a state with the dtypes of the old one, none of them weak.

    A number in Python code makes an array weakly typed. A carry of `lax.scan` must not change.
    """
    structures: list[Any] = [jax.tree.structure(state) for state in (old, new)]
    if structures[0] != structures[1]:
        paths = [jax.tree_util.tree_leaves_with_path(state) for state in (old, new)]
        a, b = ({f"state{jax.tree_util.keystr(path)}" for path, _ in leaves} for leaves in paths)
        raise ValueError(
            f"reset and step must return states of one structure, but they differ in "
            f"{', '.join(sorted(a ^ b)) or 'fields that are no arrays'}."
        )

    def convert(path: Any, a: Any, b: Any) -> jax.Array:
        a, b = jnp.asarray(a), jnp.asarray(b)
        is_key = any(jnp.issubdtype(x.dtype, jax.dtypes.extended) for x in (a, b))
        same = a.dtype == b.dtype
        same = same or (not is_key and jnp.promote_types(a.dtype, b.dtype) == a.dtype)
        if a.shape != b.shape or not same:
            raise ValueError(
                f"state{jax.tree_util.keystr(path)} must keep its shape and dtype, but reset "
                f"returns {a.dtype} {a.shape[1:]} and step {b.dtype} {b.shape[1:]}. Convert it in "
                f"reset, for example with jnp.float32(...)."
            )
        return b if is_key else jax.lax.convert_element_type(b, a.dtype)

    return jax.tree_util.tree_map_with_path(convert, old, new)
