"""Algorithms for the contract test, each with small settings and valid data."""

from types import ModuleType
from typing import Any, NamedTuple

import jax
import numpy as np

from purerl.algos import (
    acer,
    crossq,
    ddpg,
    dqn,
    ppo,
    pqn,
    redq,
    reinforce,
    sac,
    sac_discrete,
    td3,
    tqc,
    trpo,
    vpg,
    xqc,
)
from purerl.schedules import SequenceSchedule
from purerl.spaces import Box, Discrete, EnvSpec
from purerl.types import Batch, PolicyBatch, Rollout, SequenceBatch

BOX = EnvSpec(obs_shape=(3,), action=Box(low=(-2.0, 0.0), high=(2.0, 1.0)))
DISCRETE = EnvSpec(obs_shape=(3,), action=Discrete(3, start=1))


class Case(NamedTuple):
    """One algorithm on one kind of action space."""

    algo: ModuleType
    env: EnvSpec
    wrong_env: EnvSpec | None  # an environment with actions that the algorithm must refuse
    settings: dict[str, Any]
    parts: tuple[str, ...]  # names of the losses that add up to `loss`
    owns: dict[str, tuple[str, ...]]  # loss -> fields of Params with a gradient from it
    networks: dict[str, str]  # fields of Spec for custom networks -> kind of their output
    explore: dict[str, Any]  # settings that make `act` reach the whole action space

    @property
    def has_sequences(self) -> bool:
        return isinstance(self.algo.SCHEDULE, SequenceSchedule)

    @property
    def on_policy(self) -> bool:
        """Whether `prepare` makes the rows of a `PolicyBatch`."""
        return hasattr(self.algo, "prepare") and not self.has_sequences

    def spec(self, **changes: Any) -> Any:
        return self.algo.Spec(self.env, **(self.settings | changes))

    def batch(self, size: int = 6, seed: int = 0, key: Any = 0) -> Any:
        make = make_policy_batch if self.on_policy else make_batch
        make = make_sequences if self.has_sequences else make
        return make(self.env, size, seed)._replace(key=None if key is None else jax.random.key(key))

    def noisy(self, size: int = 6) -> Any:
        """Return a batch without a key, with noise if the losses need noise."""
        batch = self.batch(size, key=None)
        if self.on_policy or self.has_sequences:
            return batch
        shape = (size, self.algo.NOISE_DRAWS, self.env.act_dim)
        noise = np.random.default_rng(1).normal(size=shape)
        return batch._replace(noise=noise.astype(np.float32))


def make_batch(env: EnvSpec, size: int = 6, seed: int = 0) -> Batch:
    """Return random transitions as NumPy arrays, some terminal, without key and noise."""
    rng = np.random.default_rng(seed)
    if isinstance(env.action, Box):
        act = rng.uniform(env.action.low, env.action.high, (size, env.act_dim)).astype(np.float32)
    else:
        act = rng.integers(env.action.n, size=size, dtype=np.int32) + np.int32(env.action.start)
    obs, next_obs = rng.normal(size=(2, size, *env.obs_shape)).astype(np.float32)
    rew = rng.normal(size=size).astype(np.float32)
    return Batch(obs, act, rew, next_obs, rng.random(size) < 0.3, rng.random(size) < 0.3)


def make_policy_batch(env: EnvSpec, size: int = 6, seed: int = 0) -> PolicyBatch:
    """Return random rows for on-policy losses, without key and rollout."""
    rows, rng = make_batch(env, size, seed), np.random.default_rng(seed + 1)
    adv, ret, val = rng.normal(size=(3, size)).astype(np.float32)
    logp, weight = rng.uniform(-1.5, -0.5, (2, size)).astype(np.float32)
    return PolicyBatch(rows.obs, rows.act, adv, ret, logp, val, -weight)


def make_sequences(env: EnvSpec, size: int = 6, seed: int = 0, length: int = 3) -> SequenceBatch:
    """Return random sequences as NumPy arrays, without key and noise."""
    rows = make_batch(env, size * length, seed)[:6]
    behaviour = np.random.default_rng(seed + 1).normal(size=(size, length, env.act_dim))
    fields = (x.reshape(size, length, *x.shape[1:]) for x in rows)
    return SequenceBatch(*fields, behaviour.astype(np.float32))


def make_rollout(env: EnvSpec, length: int = 5, number: int = 2, seed: int = 0) -> Rollout:
    """Return a random rollout `[T, N]` with terminations and truncations."""
    rows = make_batch(env, length * number, seed)[:6]
    return Rollout(*(x.reshape(length, number, *x.shape[1:]) for x in rows))


DETERMINISTIC = {"actor": "unit", "critic": "scalar"}
GAUSSIAN = {"actor": "gaussian", "critic": "scalar"}
SMALL = {"hidden": (8, 8)}
Q_PI = ("critic_loss", "actor_loss")
OWNS = {"critic_loss": ("critic",), "actor_loss": ("actor",)}
SAC = ((*Q_PI, "alpha_loss"), OWNS | {"alpha_loss": ()}, GAUSSIAN)
AUTO = (SAC[0], OWNS | {"alpha_loss": ("log_alpha",)}, GAUSSIAN)
SAC_DISCRETE = (*AUTO[:2], {"actor": "values", "critic": "values"})
ATOMS = {"actor": "gaussian", "critic": "atoms"}
DROQ = {"ensemble": 2, "policy_delay": 1, "dropout": 0.2, "layer_norm": True}
DROQ |= {"normalise_obs": True}
DQN = (("critic_loss",), {"critic_loss": ("critic",)}, {"critic": "values"})
TQC_SETTINGS = {"num_critics": 3, "num_quantiles": 2, "drop_quantiles": 1}
TQC = (*AUTO[:2], {"actor": "gaussian", "critic": "values"})  # as many quantiles as dimensions
LOUD, WIDE = {"act_noise": 3.0}, {}
ROLLOUT = {"minibatch_size": None, "train_q_iters": 2}

ACER_SETTINGS = {"ent_coef": 0.1, "delta": 0.05, "head_scale": 1.0}
ACER = (("actor_loss", "critic_loss"), OWNS, {"actor": "values", "critic": "values"})
V_PI = ("actor_loss", "critic_loss")
V_OWNS = {"actor_loss": ("actor",), "critic_loss": ("critic",)}
LOGITS, NORMAL = ({"actor": kind, "critic": "scalar"} for kind in ("values", "gaussian"))
PG = (("actor_loss",), {"actor_loss": ("actor",)})
FEW = SMALL | {"train_v_iters": 3}
PPO = FEW | {"train_pi_iters": 3}
OPTIONS = PPO | {
    "ent_coef": 0.1,
    "vf_clip": 0.3,
    "max_grad_norm": 0.5,
    "lr_decay_updates": 100,
    "normalise_obs": True,
    "target_kl": None,
}


def both(algo: ModuleType, parts: Any, owns: Any, settings: dict[str, Any]) -> dict[str, Case]:
    """Return the cases of an algorithm that supports both kinds of action space."""
    networks = [{k: v for k, v in kinds.items() if k in str(owns)} for kinds in (LOGITS, NORMAL)]
    name = algo.__name__.rpartition(".")[2]
    return {
        f"{name}-discrete": Case(algo, DISCRETE, None, settings, parts, owns, networks[0], WIDE),
        f"{name}-box": Case(algo, BOX, None, settings, parts, owns, networks[1], WIDE),
    }


CASES = {
    "td3": Case(td3, BOX, DISCRETE, SMALL, Q_PI, OWNS, DETERMINISTIC, LOUD),
    "ddpg": Case(ddpg, BOX, DISCRETE, SMALL, Q_PI, OWNS, DETERMINISTIC, LOUD),
    "sac": Case(sac, BOX, DISCRETE, SMALL, *SAC, WIDE),
    "sac-auto": Case(sac, BOX, DISCRETE, SMALL | {"alpha": "auto"}, *AUTO, WIDE),
    "crossq": Case(crossq, BOX, DISCRETE, SMALL, *AUTO, WIDE),
    "crossq-often": Case(crossq, BOX, DISCRETE, SMALL | {"policy_delay": 1}, *AUTO, WIDE),
    "sac_discrete": Case(sac_discrete, DISCRETE, BOX, {"hidden": (8,)}, *SAC_DISCRETE, WIDE),
    "tqc": Case(tqc, BOX, DISCRETE, SMALL | TQC_SETTINGS, *TQC, WIDE),
    "xqc": Case(xqc, BOX, DISCRETE, SMALL | {"atoms": 7}, *AUTO[:2], ATOMS, WIDE),
    "xqc-often": Case(
        xqc, BOX, DISCRETE, SMALL | {"atoms": 7, "policy_delay": 1}, *AUTO[:2], ATOMS, WIDE
    ),
    "redq": Case(redq, BOX, DISCRETE, SMALL | {"ensemble": 4, "policy_delay": 3}, *AUTO, WIDE),
    "redq-dropout": Case(redq, BOX, DISCRETE, SMALL | DROQ, *AUTO[:2], {"actor": "gaussian"}, WIDE),
    "dqn": Case(dqn, DISCRETE, BOX, SMALL | {"target_every": 2, "double": False}, *DQN, WIDE),
    "dqn-double": Case(dqn, DISCRETE, BOX, SMALL | {"target_every": 2, "huber": False}, *DQN, WIDE),
    "pqn": Case(pqn, DISCRETE, BOX, SMALL | ROLLOUT, *DQN, WIDE),
    "pqn-options": Case(
        pqn,
        DISCRETE,
        BOX,
        SMALL
        | ROLLOUT
        | {"normalise_obs": True, "lr_decay_updates": 100, "layer_norm": False}
        | {"initializer": "he_normal"},
        *DQN,
        WIDE,
    ),
    "acer": Case(acer, DISCRETE, BOX, SMALL | ACER_SETTINGS, *ACER, WIDE),
} | {
    **both(reinforce, *PG, SMALL),
    **both(vpg, V_PI, V_OWNS, FEW),
    **both(trpo, V_PI, V_OWNS, FEW),
    **both(ppo, V_PI, V_OWNS, PPO),
    "npg": Case(trpo, BOX, None, FEW | {"method": "npg"}, V_PI, V_OWNS, NORMAL, WIDE),
    "ppo-options": Case(ppo, BOX, None, OPTIONS, V_PI, V_OWNS, NORMAL, WIDE),
}
