"""Unit tests of a loss in isolation, as a template for the tests of a custom loss.

    python -m pytest examples/test_your_own_loss.py

A loss is a function of parameters and a batch, so a test needs no environment and no trainer. The
tests below hold for any clipped double-Q loss. Replace `td3.critic_loss` by your own.
"""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl.algos import td3
from purerl.spaces import Box, EnvSpec
from purerl.types import Batch

SPEC = td3.Spec(EnvSpec(obs_shape=(3,), action=Box((-2.0,), (2.0,))), hidden=(16,))
PARAMS = td3.init(jax.random.key(0), SPEC).params


def make_batch(rows: int = 4, seed: int = 0) -> Batch:
    """Make random transitions, with the noise that the loss needs."""
    rng = np.random.default_rng(seed)
    obs, next_obs = rng.normal(size=(2, rows, 3)).astype(np.float32)
    act = rng.uniform(-2.0, 2.0, size=(rows, 1)).astype(np.float32)
    rew = rng.normal(size=rows).astype(np.float32)
    noise = rng.normal(size=(rows, td3.NOISE_DRAWS, 1)).astype(np.float32)
    flags = np.zeros(rows, bool)
    return Batch(obs, act, rew, next_obs, flags, flags, noise=noise)


def test_the_target_of_a_terminal_step_is_its_reward() -> None:
    """After a terminal step there is no next value, so the target is only the reward."""
    batch = make_batch()._replace(terminated=np.ones(4, bool))
    q = td3.q_value(PARAMS, batch.obs, batch.act)  # [2, B], one row for each critic
    expected = sum(np.mean((one - batch.rew) ** 2) for one in q)
    np.testing.assert_allclose(td3.critic_loss(PARAMS, batch)[0], expected, rtol=1e-5)


def test_a_time_limit_does_not_end_the_return() -> None:
    """`truncated` must not stop bootstrapping, `terminated` must."""
    batch = make_batch()
    cut = batch._replace(truncated=np.ones(4, bool))
    over = batch._replace(terminated=np.ones(4, bool))
    assert td3.critic_loss(PARAMS, cut)[0] == td3.critic_loss(PARAMS, batch)[0]
    assert td3.critic_loss(PARAMS, over)[0] != td3.critic_loss(PARAMS, batch)[0]


def test_the_target_uses_the_minimum_of_the_two_critics() -> None:
    """A critic far above the other has no effect; one far below it decides the target."""
    batch = make_batch()

    def loss_with_shift(shift: float) -> float:
        first, second = PARAMS.target_critic
        shifted = jax.tree.map(lambda x: x, first)
        shifted["params"]["MLP_0"]["Dense_1"]["bias"] += shift
        params = dataclasses.replace(PARAMS, target_critic=(shifted, second))
        return float(td3.critic_loss(params, batch)[1]["target"])

    assert loss_with_shift(1e3) == pytest.approx(loss_with_shift(1e4))
    assert loss_with_shift(-1e3) < -900


def test_the_gradient_matches_finite_differences() -> None:
    """Compare automatic differentiation with its definition along a random direction."""
    batch = make_batch()
    rng = np.random.default_rng(1)
    direction = jax.tree.map(lambda x: rng.normal(size=x.shape).astype(np.float32), PARAMS.critic)

    def along(step: jax.Array | float) -> jax.Array:
        moved = jax.tree.map(lambda p, d: p + step * d, PARAMS.critic, direction)
        return td3.critic_loss(dataclasses.replace(PARAMS, critic=moved), batch)[0]

    slope = (along(1e-3) - along(-1e-3)) / 2e-3
    assert float(jax.grad(along)(0.0)) == pytest.approx(float(slope), rel=1e-2)


def test_targets_and_actor_get_no_gradient_from_the_critic_loss() -> None:
    """A missing stop-gradient does not crash and often still learns, so test for exact zeros."""
    grads, _ = jax.grad(td3.critic_loss, has_aux=True)(PARAMS, make_batch())
    for tree in (grads.target_critic, grads.target_actor, grads.actor):
        assert all(bool(jnp.all(leaf == 0)) for leaf in jax.tree.leaves(tree))
    assert any(bool(jnp.any(leaf != 0)) for leaf in jax.tree.leaves(grads.critic))
