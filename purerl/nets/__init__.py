"""Flax modules, and the only place that imports `flax.linen`.

Default networks read flat observations; a user's own module takes the same inputs and outputs:

    actor(obs [B, *obs_shape]) -> [B, A] in [-1, 1]                      ddpg, td3
    actor(obs [B, *obs_shape]) -> mean [B, A], log_std [B, A]            sac
    critic(obs [B, *obs_shape], act [B, A] in [-1, 1]) -> [B]            ddpg, td3, sac
    critic(obs [B, *obs_shape]) -> [B, n]                                dqn
"""

from purerl.nets import squashed
from purerl.nets.mlp import (
    ACTIVATIONS,
    INITIALIZERS,
    MLP,
    DeterministicActor,
    DiscreteQFunction,
    GaussianActor,
    QFunction,
)
from purerl.nets.modules import (
    apply,
    apply_rows,
    check_module,
    check_style,
    init_ensemble,
    init_params,
    q_values,
)

__all__ = [
    "ACTIVATIONS",
    "INITIALIZERS",
    "MLP",
    "DeterministicActor",
    "DiscreteQFunction",
    "GaussianActor",
    "QFunction",
    "apply",
    "apply_rows",
    "check_module",
    "check_style",
    "init_ensemble",
    "init_params",
    "q_values",
    "squashed",
]
