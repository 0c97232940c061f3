"""Acting uses the keys of the documented stream."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

from purerl import rng
from purerl.algos import td3
from purerl.loops import acting
from tests.loops import script
from tests.loops.script import finish, start


def test_every_action_uses_a_new_key_of_the_documented_stream():
    env_fn, envs = script.make_singles(1)
    carry = start(env_fn, start_steps=0, update_after=60)
    params = jax.tree.map(jnp.copy, carry.learner.params)
    carry, _ = finish(carry)
    for t in (0, 1, 17):
        obs = np.asarray(carry.buffer.data.obs)[t][None]
        wanted = td3.act(params, obs, rng.stream(0, 0, "act", t))[0]
        np.testing.assert_allclose(envs[0].actions[t], wanted, atol=1e-6)


def test_acting_keys_derived_in_blocks_equal_those_of_the_stream():
    carry = start(script.make_singles(1)[0])
    obs = np.ones((1, 3), np.float32)
    for rank in (0, 3):
        carry = dataclasses.replace(carry, rank=rank)
        for call in (0, 255, 256, 5_000, 2**32 - 1, 2**32 + 5):
            wanted = td3.act(carry.learner.params, obs, rng.stream(0, rank, "act", call))
            found = acting.act(carry, carry.learner.params, obs, call)
            np.testing.assert_allclose(found, wanted, atol=1e-6)


def test_exploring_test_episodes_use_the_documented_stream():
    params = start(script.make_singles(1)[0]).learner.params
    obs = np.ones((2, 3), np.float32)
    for seed, rank, epoch in ((5, 0, 1), (5, 2, 1), (5, 0, 2)):
        act = acting.make_test_policy(td3, params, (seed, rank, epoch))
        for call in range(3):
            wanted = td3.act(params, obs, rng.stream(seed, rank, "eval", epoch, call))
            np.testing.assert_allclose(act(obs), wanted, atol=1e-6)


def test_seeds_act_together_with_the_keys_of_their_own_streams():
    carries = [start(script.make_singles(1)[0], seed=seed) for seed in (3, 0, 3)]
    params = jax.tree.map(lambda *x: jnp.stack(x), *(one.learner.params for one in carries))
    obs = np.ones((3, 1, 3), np.float32)
    for calls in ((0, 0, 1), (255, 256, 5_000), (2**32 - 1, 2**32 + 5, 7)):
        found = acting.act_together(carries, params, obs, calls)
        for i, (one, call) in enumerate(zip(carries, calls, strict=True)):
            key = rng.stream(one.seed, 0, "act", call)
            wanted = td3.act(one.learner.params, obs[i], key)
            np.testing.assert_allclose(found[i], wanted, atol=1e-6)
