"""Flax modules, and the only place that imports `flax.linen`.

Default networks read flat observations; a user's own module takes the same inputs and outputs:

    actor(obs [B, *obs_shape]) -> [B, A] in [-1, 1]
    critic(obs [B, *obs_shape], act [B, A] in [-1, 1]) -> [B]
"""

from purerl.nets.mlp import ACTIVATIONS, INITIALIZERS, MLP, DeterministicActor, QFunction
from purerl.nets.modules import apply_rows, check_module, init_ensemble, init_params, q_values

__all__ = [
    "ACTIVATIONS",
    "INITIALIZERS",
    "MLP",
    "DeterministicActor",
    "QFunction",
    "apply_rows",
    "check_module",
    "init_ensemble",
    "init_params",
    "q_values",
]
