"""Adapter over N environments in JAX, which compiled programs step."""

import copy
import dataclasses
import time
from typing import TYPE_CHECKING, Any

from purerl.spaces import EnvSpec

if TYPE_CHECKING:
    from purerl.envs.protocol import JaxEnv

_NAMES = ("spec", "max_steps", "params", "reset", "step")  # of the protocol
PROGRAM_SECONDS = 0.5  # after which a run may stop or save
_GROWTH = 16  # most times as many steps as in the program before


@dataclasses.dataclass
class Pace:
    """Speed of programs; it decides how many steps the next one makes, and changes no result."""

    target: float = PROGRAM_SECONDS  # desired duration of a program
    seconds: float = 0.0  # per step of all environments; 0 if unknown
    steps: int = 0  # of the last program
    began: float = 0.0

    def choose_steps(self, unit: int, most: int) -> int:
        """Choose a number of steps, a multiple of `unit` unless it is `most`."""
        self.began = time.monotonic()
        steps = int(self.target / self.seconds) if self.seconds else unit
        steps = min(steps, _GROWTH * max(self.steps, unit))
        return min(most, max(unit, steps // unit * unit))

    def note_steps(self, steps: int) -> None:
        """Note the number of steps of the program that has just ended."""
        self.seconds = (time.monotonic() - self.began) / steps
        self.steps = steps


@dataclasses.dataclass(frozen=True)
class JaxEnvs:
    """N environments in JAX, with the time limit of a run.

    Their episodes are data on the device, which the carry has. So there is nothing to close, and
    nothing to replay when a run is resumed.
    """

    env: "JaxEnv"
    num_envs: int
    max_steps: int | None  # limit of an episode
    pace: Pace = dataclasses.field(default_factory=Pace, compare=False, repr=False)

    exact_resume = True

    @property
    def spec(self) -> EnvSpec:
        """Spaces of one environment."""
        return self.env.spec

    def close(self) -> None:
        """Do nothing, because the environments hold no resources."""


def is_jax_env(env: Any) -> bool:
    """Return whether an object has the names of an environment in JAX."""
    return not isinstance(env, type) and all(hasattr(env, name) for name in _NAMES)


def check_env(env: Any) -> "JaxEnv":
    """Return an environment in JAX; refuse anything else, and one that programs cannot keep."""
    if isinstance(env, type):
        raise ValueError(
            f"env must be an object, got the class {env.__name__}. Make one: {env.__name__}()."
        )
    if not is_jax_env(env):
        lacks = ", ".join(name for name in _NAMES if not hasattr(env, name))
        raise ValueError(
            f"env must be an environment in JAX, such as purerl.envs.classic.cartpole.CartPole(), "
            f"got {env!r}, which lacks {lacks}. Environments of Gymnasium need purerl.loops.gym."
        )
    if not isinstance(env.spec, EnvSpec):
        raise ValueError(f"spec of the environment must be an EnvSpec, got {env.spec!r}.")
    try:
        hash(env)
        bool(env == copy.copy(env))
    except Exception as error:  # any error in methods of the environment
        raise ValueError(
            f"env must be hashable and comparable, because programs are compiled for it, got "
            f"{env!r}. Make it a frozen dataclass whose fields are hashable."
        ) from error
    from purerl.envs import validation  # start-up time

    validation.check_env(env)
    found: JaxEnv = env
    return found


def limit_steps(env: "JaxEnv", max_ep_len: int | None) -> int | None:
    """Return the smaller of the environment's limit and the one given; None without any."""
    return min((n for n in (env.max_steps, max_ep_len) if n is not None), default=None)
