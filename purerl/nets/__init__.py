"""Flax modules, and the only place that imports `flax.linen`.

Default networks take flat observations. A custom module has the same inputs and outputs:

    actor(obs [B, *obs_shape]) -> [B, A] in [-1, 1]                      ddpg, td3
    actor(obs [B, *obs_shape]) -> mean [B, A], log_std [B, A]            sac
    actor(obs [B, *obs_shape]) -> mean [B, A], log_std [B, A]            reinforce .. ppo, Box
    actor(obs [B, *obs_shape]) -> logits [B, n]                          the same, Discrete
    critic(obs [B, *obs_shape], act [B, A] in [-1, 1]) -> [B]            ddpg, td3, sac
    critic(obs [B, *obs_shape]) -> [B, n]                                dqn
    critic(obs [B, *obs_shape]) -> [B]                                   vpg, trpo, ppo
"""

from purerl.nets import categorical, gaussian, policies, squashed
from purerl.nets.mlp import (
    ACTIVATIONS,
    INITIALIZERS,
    MLP,
    CategoricalPolicy,
    DeterministicActor,
    DiscreteQFunction,
    GaussianActor,
    GaussianPolicy,
    QFunction,
    ValueFunction,
)
from purerl.nets.modules import (
    Networks,
    apply,
    apply_rows,
    check_networks,
    init_ensemble,
    init_params,
    q_values,
)
from purerl.nets.optimizers import check_optimizer, find_custom, make_optimizer
from purerl.nets.policies import policy_network, policy_shape

__all__ = [
    "ACTIVATIONS",
    "INITIALIZERS",
    "MLP",
    "CategoricalPolicy",
    "DeterministicActor",
    "DiscreteQFunction",
    "GaussianActor",
    "GaussianPolicy",
    "Networks",
    "QFunction",
    "ValueFunction",
    "apply",
    "apply_rows",
    "categorical",
    "check_networks",
    "check_optimizer",
    "find_custom",
    "gaussian",
    "init_ensemble",
    "init_params",
    "make_optimizer",
    "policies",
    "policy_network",
    "policy_shape",
    "q_values",
    "squashed",
]
