"""The algorithms under the contract test, each with small settings and valid data."""

from types import ModuleType
from typing import Any, NamedTuple

import jax
import numpy as np

from purerl.algos import ddpg, dqn, sac, td3
from purerl.types import Batch, Box, Discrete, EnvSpec

BOX = EnvSpec(obs_shape=(3,), action=Box(low=(-2.0, 0.0), high=(2.0, 1.0)))
DISCRETE = EnvSpec(obs_shape=(3,), action=Discrete(3, start=1))


class Case(NamedTuple):
    """One algorithm on one kind of action space."""

    algo: ModuleType
    env: EnvSpec
    wrong_env: EnvSpec | None  # of an action space that it must refuse
    settings: dict[str, Any]
    parts: tuple[str, ...]  # names of the losses that `loss` is the sum of
    owns: dict[str, tuple[str, ...]]  # part -> fields of Params that its gradient moves
    networks: dict[str, str]  # fields of Spec for networks of one's own -> kind of their output
    explore: dict[str, Any]  # settings with which acting reaches the whole action space

    def spec(self, **changes: Any) -> Any:
        return self.algo.Spec(self.env, **(self.settings | changes))

    def batch(self, size: int = 6, seed: int = 0, key: Any = 0) -> Batch:
        return make_batch(self.env, size, seed)._replace(
            key=None if key is None else jax.random.key(key)
        )


def make_batch(env: EnvSpec, size: int = 6, seed: int = 0) -> Batch:
    """Random transitions as NumPy arrays, some of them terminal, without key and noise."""
    rng = np.random.default_rng(seed)
    if isinstance(env.action, Box):
        act = rng.uniform(env.action.low, env.action.high, (size, env.act_dim)).astype(np.float32)
    else:
        act = rng.integers(env.action.n, size=size, dtype=np.int32) + np.int32(env.action.start)
    obs, next_obs = rng.normal(size=(2, size, *env.obs_shape)).astype(np.float32)
    rew = rng.normal(size=size).astype(np.float32)
    return Batch(obs, act, rew, next_obs, rng.random(size) < 0.3, rng.random(size) < 0.3)


DETERMINISTIC = {"actor": "unit", "critic": "scalar"}
GAUSSIAN = {"actor": "gaussian", "critic": "scalar"}
SMALL = {"hidden": (8, 8)}
Q_PI = ("critic_loss", "actor_loss")
OWNS = {"critic_loss": ("critic",), "actor_loss": ("actor",)}
SAC = ((*Q_PI, "alpha_loss"), OWNS | {"alpha_loss": ()}, GAUSSIAN)
AUTO = (SAC[0], OWNS | {"alpha_loss": ("log_alpha",)}, GAUSSIAN)
DQN = (("critic_loss",), {"critic_loss": ("critic",)}, {"critic": "values"})
LOUD, WIDE = {"act_noise": 3.0}, {}

CASES = {
    "td3": Case(td3, BOX, DISCRETE, SMALL, Q_PI, OWNS, DETERMINISTIC, LOUD),
    "ddpg": Case(ddpg, BOX, DISCRETE, SMALL, Q_PI, OWNS, DETERMINISTIC, LOUD),
    "sac": Case(sac, BOX, DISCRETE, SMALL, *SAC, WIDE),
    "sac-auto": Case(sac, BOX, DISCRETE, SMALL | {"alpha": "auto"}, *AUTO, WIDE),
    "dqn": Case(dqn, DISCRETE, BOX, SMALL | {"target_every": 2, "double": False}, *DQN, WIDE),
    "dqn-double": Case(dqn, DISCRETE, BOX, SMALL | {"target_every": 2, "huber": False}, *DQN, WIDE),
}
