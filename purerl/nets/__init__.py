"""Networks of actors and critics. No other package imports `flax.linen`.

Default networks are MLPs, which take flat observations:

    DeterministicActor                   policy of ddpg and td3
    GaussianActor                        policy of sac, crossq, tqc, redq and xqc
    GaussianPolicy, CategoricalPolicy    policy of the on-policy algorithms, Box and Discrete
    QFunction                            critic of ddpg, td3, sac, crossq and redq
    DiscreteQFunction                    critic of dqn, pqn, acer and sac_discrete
    QuantileFunction                     critic of tqc
    CategoricalQFunction                 critic of xqc
    ValueFunction                        critic of vpg, trpo and ppo

With `torso="nature_cnn"`, `NatureCNN` turns images into features before their hidden layers.
Images are `[B, H, W, C]`, or stacked grey frames `[B, C, H, W]`, at least 36 pixels a side.

A custom network is a Flax linen module, or any hashable object with the two functions of
`Network`: `init(key, *inputs) -> params` and `apply(params, *inputs) -> outputs`. It must have
these inputs and outputs:

    actor(obs [B, *obs_shape]) -> [B, A] in [-1, 1]                      ddpg, td3
    actor(obs [B, *obs_shape]) -> mean [B, A], log_std [B, A]            sac, crossq, redq, tqc, xqc
    actor(obs [B, *obs_shape]) -> mean [B, A], log_std [B, A]            on-policy, Box
    actor(obs [B, *obs_shape]) -> logits [B, n]                          on-policy, Discrete;
                                                                         sac_discrete
    actor(obs [B, *obs_shape]) -> logits [B, sum of sizes]               on-policy, MultiDiscrete
    critic(obs [B, *obs_shape], act [B, A] in [-1, 1]) -> [B]            other off-policy, Box
    critic(obs [B, *obs_shape], act [B, A] in [-1, 1]) -> [B, M]         tqc, M = num_quantiles
    critic(obs [B, *obs_shape], act [B, A] in [-1, 1]) -> [B, atoms]     xqc
    critic(obs [B, *obs_shape]) -> [B, n]                                dqn, pqn, acer,
                                                                         sac_discrete
    critic(obs [B, *obs_shape]) -> [B]                                   vpg, trpo, ppo

On-policy algorithms are reinforce, vpg, trpo, ppo and, for Discrete actions, acer. Off-policy
algorithms for a Box are ddpg, td3, sac, crossq, redq, tqc and xqc. Networks of crossq and xqc may
contain `BatchRenorm`.
"""

from purerl.nets import (
    atoms,
    categorical,
    gaussian,
    multi_categorical,
    policies,
    quantiles,
    squashed,
)
from purerl.nets.batch_renorm import STATISTICS, BatchRenorm, fold_into_dense
from purerl.nets.cnn import NatureCNN
from purerl.nets.initializers import INITIALIZERS
from purerl.nets.mlp import (
    ACTIVATIONS,
    MLP,
    CategoricalPolicy,
    CategoricalQFunction,
    DeterministicActor,
    DiscreteQFunction,
    GaussianActor,
    GaussianPolicy,
    QFunction,
    QuantileFunction,
    ValueFunction,
)
from purerl.nets.modules import (
    Network,
    Networks,
    apply,
    apply_rows,
    apply_train,
    check_networks,
    init_ensemble,
    init_params,
    init_stack,
    join_statistics,
    q_values,
    split_statistics,
    stacked_q_values,
)
from purerl.nets.optimizers import find_custom, make_optimizer
from purerl.nets.policies import policy_network, policy_shape, value_network
from purerl.nets.weight_norm import normalise_kernels

__all__ = [
    "ACTIVATIONS",
    "INITIALIZERS",
    "MLP",
    "STATISTICS",
    "BatchRenorm",
    "CategoricalPolicy",
    "CategoricalQFunction",
    "DeterministicActor",
    "DiscreteQFunction",
    "GaussianActor",
    "GaussianPolicy",
    "NatureCNN",
    "Network",
    "Networks",
    "QFunction",
    "QuantileFunction",
    "ValueFunction",
    "apply",
    "apply_rows",
    "apply_train",
    "atoms",
    "categorical",
    "check_networks",
    "find_custom",
    "fold_into_dense",
    "gaussian",
    "init_ensemble",
    "init_params",
    "init_stack",
    "join_statistics",
    "make_optimizer",
    "multi_categorical",
    "normalise_kernels",
    "policies",
    "policy_network",
    "policy_shape",
    "q_values",
    "quantiles",
    "split_statistics",
    "squashed",
    "stacked_q_values",
    "value_network",
]
