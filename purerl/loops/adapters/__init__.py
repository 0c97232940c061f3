"""Adapters over environments: N single ones, a user's vector environment, or N in JAX."""

from collections.abc import Callable
from typing import Any

from purerl.errors import EnvFault
from purerl.loops import faults
from purerl.loops.adapters.in_jax import JaxEnvs
from purerl.loops.adapters.single import SingleEnvs
from purerl.loops.adapters.step import NOTHING, Episodes, InfoRequest, Step, begin_use, end_use
from purerl.loops.adapters.vector import VectorEnvs
from purerl.spaces import EnvSpec

__all__ = [
    "Envs",
    "Episodes",
    "GymEnvs",
    "InfoRequest",
    "JaxEnvs",
    "SingleEnvs",
    "Step",
    "VectorEnvs",
    "make_envs",
]

GymEnvs = SingleEnvs | VectorEnvs
Envs = GymEnvs | JaxEnvs


def make_envs(
    env_fn: Callable[[], Any],
    num_envs: int | None,
    seed_of: Callable[[int, int], int],
    max_ep_len: int | None = None,
    wanted: InfoRequest = NOTHING,
) -> GymEnvs:
    """Make `num_envs` environments or one vector environment; return the adapter over them.

    Args:
        env_fn: Function that returns a Gymnasium environment or a Gymnasium vector environment.
        num_envs: Number of environments. None means one, or all of the vector environment.
        seed_of: Function that returns the seed of an episode, given the environment's index and the
            episode's number. The seed of a vector environment is `seed_of(0, 0)`.
        max_ep_len: Length at which episodes are cut, or None for the environment's own limit.
        wanted: Values of `info` to read.
    """
    if not callable(env_fn):
        raise ValueError(f"env_fn must be a function that makes an environment, got {env_fn!r}.")
    made = [_make_env(env_fn)]
    try:
        return _make_adapter(made, env_fn, num_envs, seed_of, max_ep_len, wanted)
    except BaseException:
        for env in made:  # the caller has no adapter to close them with
            end_use(env)
            faults.close_env("an environment", env)
        raise


def _make_adapter(
    made: list[Any],
    env_fn: Callable[[], Any],
    num_envs: int | None,
    seed_of: Callable[[int, int], int],
    max_ep_len: int | None,
    wanted: InfoRequest,
) -> GymEnvs:
    """Append the other environments to `made`, and return the adapter over all of them."""
    first = made[0]
    if not hasattr(first, "single_observation_space"):
        while len(made) < (num_envs or 1):
            made.append(_make_env(env_fn))
        specs = [EnvSpec.of(env) for env in made]
        if len(set(specs)) > 1:
            raise ValueError(f"env_fn must make environments with equal spaces, got {set(specs)}.")
        return SingleEnvs(made, specs[0], seed_of, max_ep_len, wanted)
    if num_envs not in (None, first.num_envs):
        raise ValueError(
            f"num_envs is {num_envs} but env_fn returns a vector environment of {first.num_envs}. "
            f"Set num_envs={first.num_envs}."
        )
    if max_ep_len is not None:
        raise ValueError(
            f"max_ep_len={max_ep_len} cannot be imposed on a vector environment, because it starts "
            f"its episodes itself. Leave max_ep_len at None, and set the limit when you make it: "
            f"gymnasium.make_vec(id, max_episode_steps={max_ep_len})."
        )
    return VectorEnvs(first, EnvSpec.of(first), seed_of(0, 0), wanted)


def _make_env(env_fn: Callable[[], Any]) -> Any:
    """Make an environment, and refuse one that is in use."""
    try:
        env = env_fn()
    except faults.RAISED as error:  # any error is the environment's fault
        text = f"env_fn raised {type(error).__name__}: {faults.format_in_a_line(error)}"
        raise EnvFault(text) from error
    if not hasattr(env, "action_space"):
        raise ValueError(f"env_fn must return a Gymnasium environment, got {env!r}.")
    begin_use(env)
    return env
