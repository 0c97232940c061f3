"""Checks of an environment written in JAX, before programs are compiled for it.

Errors name the function of the environment and what to return. Without these checks they would be
errors of JAX from inside of a program.
"""

import functools
import inspect
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp

from purerl import checks
from purerl.envs.protocol import JaxEnv

_TAKES = {"reset": ("key", "params"), "step": ("key", "state", "action", "params")}
_RETURNS = {
    "reset": ("state", "observation"),
    "step": ("state", "observation", "reward", "terminated", "info"),
}


@functools.lru_cache(maxsize=32)
def check_env(env: JaxEnv) -> None:
    """Refuse an environment that does not follow the protocol. Trace its functions once each."""
    if env.max_steps is not None:
        checks.integer("max_steps of the environment", env.max_steps, 1)
    for path, x in jax.tree_util.tree_leaves_with_path(env.params):
        if not _is_array(x):
            raise ValueError(
                f"params{jax.tree_util.keystr(path)} of the environment must be a number or an "
                f"array, got {x!r}. Make it a field of the environment instead."
            )
    key, action = jax.eval_shape(jax.random.key, 0), env.spec.example().act
    state = _trace(env, "reset", key, env.params)
    _trace(env, "step", key, state, action, env.params)


def _trace(env: JaxEnv, name: str, *args: Any) -> Any:
    """Check what a function of the environment takes and returns; return the shapes of the state.

    Args:
        env: The environment.
        name: `reset` or `step`.
        *args: Arguments of the function.
    """
    function, takes = getattr(env, name), _TAKES[name]
    try:
        inspect.signature(function).bind(*takes)
    except TypeError as error:
        raise ValueError(
            f"{name} of the environment must take {', '.join(takes)}, got {function!r}: {error}."
        ) from error

    def call(*args: Any) -> Any:
        returned = function(*args)
        _check_returned(env, name, returned)
        return returned[0]

    try:
        return jax.eval_shape(call, *args)
    except jax.errors.JAXTypeError as error:
        why = str(error).partition("\n")[0]
        raise ValueError(
            f"{name} of the environment must be a pure function of arrays in JAX, got: {why} Use "
            f"jnp.where instead of if, and jnp instead of NumPy and float()."
        ) from error


def _check_returned(env: JaxEnv, name: str, returned: Any) -> None:
    """Refuse other values than those of the protocol."""
    names = _RETURNS[name]
    if not isinstance(returned, tuple | list) or len(returned) != len(names):
        what = f"an object of type {type(returned).__name__}"
        what = f"{len(returned)} values" if isinstance(returned, tuple | list) else what
        raise ValueError(f"{name} of the environment must return {', '.join(names)}, got {what}.")
    values = dict(zip(names, returned, strict=True))
    if not isinstance(values.get("info", {}), Mapping):
        raise ValueError(
            f"info of step must be a dictionary of arrays, got {values['info']!r}. Return {{}} if "
            f"it is empty."
        )
    for part, value in values.items():
        for path, x in jax.tree_util.tree_leaves_with_path(value, is_leaf=_is_none(part)):
            if not _is_array(x):
                raise ValueError(
                    f"{part}{jax.tree_util.keystr(path)} of {name} must be an array, got {x!r}. "
                    f"Convert it to a number, or leave it out."
                )
    shapes = {"observation": env.spec.obs_shape, "reward": (), "terminated": ()}
    for part in (x for x in shapes if x in values):
        if not jax.tree_util.all_leaves([values[part]]):
            raise ValueError(f"{part} of {name} must be one array, got {values[part]!r}.")
        checks.shape(f"{part} of {name}", jnp.asarray(values[part]), shapes[part])
    dtype = jnp.asarray(values["observation"]).dtype
    if jnp.issubdtype(env.spec.obs_dtype, jnp.integer) and jnp.issubdtype(dtype, jnp.floating):
        raise ValueError(
            f"observation of {name} must have whole numbers, because spec.obs_dtype is "
            f"{env.spec.obs_dtype}, got {dtype}. Set obs_dtype to float32, or convert it."
        )


def _is_none(part: str) -> Any:
    """Return what is a leaf of a value: also None, except in states and infos."""
    return None if part in ("state", "info") else lambda x: x is None


def _is_array(x: Any) -> bool:
    """Return whether `x` is a number or an array, also a traced one or one of keys."""
    try:
        jnp.asarray(x)
    except (TypeError, ValueError):
        return False
    return True
