"""n-step returns and scaled rewards of a replay buffer, compared with loops in float64."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl import mpi
from purerl.buffers import replay, return_replay
from purerl.types import Batch, ExtendedTransition, Transition

add, take = jax.jit(return_replay.add), jax.jit(return_replay.take)
GAMMA = 0.9


def make_stream(steps, number, seed=0):
    """Return rows `[steps * number]` of environments that alternate; no observation occurs twice.

    Some episodes have one step, some end by both flags, and the rewards have a large offset.
    """
    rng = np.random.default_rng(seed)
    rows = steps * number
    ends = rng.choice(4, size=rows, p=[0.6, 0.15, 0.15, 0.1])  # none, terminated, truncated, both
    obs = np.arange(rows, dtype=np.float32)[:, None]
    return Transition(
        obs=obs,
        act=rng.normal(size=(rows, 1)).astype(np.float32),
        rew=rng.normal(3.0, 2.0, size=rows).astype(np.float32),
        next_obs=obs + 0.5,
        terminated=(ends == 1) | (ends == 3),
        truncated=ends >= 2,
    )


def fill(stream, capacity, number, block=None, **settings):
    """Return a buffer after all rows were added in blocks of steps of all environments."""
    row = Transition(*(x[0] for x in stream))
    buffer = return_replay.init(row, capacity, GAMMA, number, **settings)
    block = block or number
    for first in range(0, len(stream.rew), block):
        part = Transition(*(x[first : first + block] for x in stream))
        count = len(part.rew)
        if count < block:  # a block has a fixed size, and rows that are not valid
            part = Transition(*(np.concatenate([x, x[:1].repeat(block - count, 0)]) for x in part))
        buffer = add(buffer, part, count)
    return buffer


def look_ahead(stream, capacity, number, n, place):
    """Return reward, next observation, discount and truncation of a place in the ring."""
    total = len(stream.rew)
    (row,) = (i for i in range(max(0, total - capacity), total) if i % capacity == place)
    rew, discount = 0.0, 1.0
    for _ in range(n):
        rew += discount * float(stream.rew[row])
        discount *= GAMMA
        last = row
        if stream.terminated[row] or stream.truncated[row] or row + number >= total:
            break
        row += number
    discount *= 1.0 - stream.terminated[last]
    return rew, stream.next_obs[last], discount, stream.truncated[last]


# (steps, environments, capacity, n): not full, full and wrapped, odd capacity, n beyond the ring
RINGS = [(12, 1, 40, 3), (25, 1, 11, 4), (14, 3, 20, 3), (23, 2, 12, 2), (9, 3, 7, 5)]


@pytest.mark.parametrize(("steps", "number", "capacity", "n"), RINGS)
def test_batches_equal_a_loop_over_the_following_steps(steps, number, capacity, n):
    stream = make_stream(steps, number)
    buffer = fill(stream, capacity, number, n_step=n)
    stored = min(len(stream.rew), capacity)
    batch = take(buffer, jnp.arange(stored), jax.random.key(0))
    expected = [look_ahead(stream, capacity, number, n, i) for i in range(stored)]
    rew, next_obs, discount, truncated = map(np.array, zip(*expected, strict=True))
    np.testing.assert_allclose(batch.rew, rew, rtol=1e-6)
    np.testing.assert_array_equal(batch.next_obs, next_obs)
    np.testing.assert_array_equal(batch.truncated, truncated)
    # Losses multiply the next value by gamma * (1 - terminated).
    found = GAMMA * (1.0 - np.float64(batch.terminated))
    np.testing.assert_allclose(found, discount, rtol=1e-6, atol=1e-7)
    np.testing.assert_array_equal(found == 0, discount == 0)
    np.testing.assert_array_equal(batch.obs, buffer.data.obs[:stored])
    np.testing.assert_array_equal(batch.act, buffer.data.act[:stored])
    assert len(set(discount)) > 1  # returns of several lengths


def test_a_target_by_hand():
    """Rewards 1, 2, 4 with the discount 0.5; the third step terminates, the second row is last."""
    flags = np.array([False, False, True])
    rows = Transition(*[np.zeros((3, 1), "f")] * 2, np.float32([1, 2, 4]), *[None] * 3)
    rows = rows._replace(next_obs=np.float32([[10], [20], [30]]), terminated=flags)
    rows = rows._replace(truncated=~flags & flags)
    buffer = return_replay.init(Transition(*(x[0] for x in rows)), 8, 0.5, 1, n_step=2)
    batch = take(add(buffer, rows), jnp.arange(3), jax.random.key(0))
    assert batch.rew.tolist() == [1 + 0.5 * 2, 2 + 0.5 * 4, 4]
    assert batch.next_obs[:, 0].tolist() == [20, 30, 30]
    assert batch.terminated.tolist() == [0.5, 1, 1]  # gamma (1 - 0.5) = gamma**2


@pytest.mark.complete
def test_samples_are_the_rows_and_the_key_of_a_plain_buffer():
    stream = make_stream(20, 2)
    buffer = fill(stream, 30, 2, n_step=3)
    plain = replay.Replay(buffer.data, buffer.position, buffer.stored)
    mine, other = (f(b, jax.random.key(5), 8) for f, b in [
        (return_replay.sample, buffer), (replay.sample, plain),
    ])  # fmt: skip
    np.testing.assert_array_equal(mine.obs, other.obs)
    assert mine.key == other.key
    assert isinstance(mine, Batch)
    passed = return_replay.sample(plain, jax.random.key(5), 8)
    np.testing.assert_array_equal(passed.next_obs, other.next_obs)
    assert passed.terminated.dtype == bool


def test_stored_values_of_info_are_those_of_the_first_step():
    stream = make_stream(6, 1)
    rows = ExtendedTransition(*stream, extra={"cost": np.arange(6, dtype=np.float32)})
    buffer = return_replay.init(jax.tree.map(lambda x: x[0], rows), 6, GAMMA, 1, n_step=3)
    batch = take(add(buffer, rows), jnp.arange(6), jax.random.key(0))
    assert batch.extra["cost"].tolist() == [0, 1, 2, 3, 4, 5]


def list_returns(stream, number):
    """Return the running discounted returns of all rows, and those after the last row."""
    ret, found = [0.0] * number, []
    for i, rew in enumerate(np.float64(stream.rew)):
        env = i % number
        ret[env] = rew + GAMMA * ret[env]
        found.append(ret[env])
        if stream.terminated[i] or stream.truncated[i]:
            ret[env] = 0.0
    return np.array(found), ret


@pytest.mark.parametrize(("number", "block"), [(1, 1), (1, 7), (3, 3), (3, 12)])
def test_rewards_are_divided_by_the_deviation_of_returns(number, block):
    stream = make_stream(25, number, seed=1)
    buffer = fill(stream, 16, number, block, scale_rewards=True)  # older rows count, too
    returns, ret = list_returns(stream, number)
    np.testing.assert_allclose(buffer.ret, ret, rtol=1e-5)
    expected = [returns.mean(), returns.var(), len(returns)]
    np.testing.assert_allclose(buffer.moments, expected, rtol=1e-5)
    batch = take(buffer, jnp.arange(16), jax.random.key(0))
    scaled = np.float64(buffer.data.rew) / np.sqrt(returns.var() + 1e-8)
    np.testing.assert_allclose(batch.rew, scaled, rtol=1e-5)
    np.testing.assert_allclose(return_replay.read_scale(buffer), returns.std(), rtol=1e-5)
    assert batch.terminated.dtype == bool


def test_the_scale_of_five_steps_by_hand():
    """The returns are 1, 1.9, 2.71, 1 and 2.9, because the third step ends an episode."""
    rew, none = np.float32([1, 1, 1, 1, 2]), np.zeros(5, bool)
    ends = np.arange(5) == 2
    for flags in ((ends, none), (none, ends)):
        rows = Transition(*[np.zeros((5, 1), "f")] * 2, rew, np.zeros((5, 1), "f"), *flags)
        row = Transition(*(x[0] for x in rows))
        buffer = add(return_replay.init(row, 5, 0.9, 1, scale_rewards=True), rows)
        assert float(return_replay.read_scale(buffer)) == pytest.approx(0.80945414, rel=1e-6)


def test_both_together_scale_the_sum_once():
    stream = make_stream(14, 3)
    both = fill(stream, 20, 3, n_step=3, scale_rewards=True)
    alone = fill(stream, 20, 3, n_step=3)
    index, key = jnp.arange(20), jax.random.key(0)
    mine, other = take(both, index, key), take(alone, index, key)
    returns, _ = list_returns(stream, 3)
    np.testing.assert_allclose(mine.rew, np.float64(other.rew) / returns.std(), rtol=1e-5)
    np.testing.assert_array_equal(mine.terminated, other.terminated)


def test_rewards_without_variance_stay_finite():
    stream = make_stream(8, 1)._replace(rew=np.zeros(8, np.float32))
    buffer = fill(stream, 8, 1, scale_rewards=True)
    assert float(return_replay.read_scale(buffer)) == pytest.approx(1e-4)
    assert not take(buffer, jnp.arange(8), jax.random.key(0)).rew.any()


def test_old_returns_lose_their_weight_after_a_million():
    """The variance is 0 so far, and that of the new returns 1."""
    row = Transition(*[np.zeros(1, "f")] * 2, np.float32(0), np.zeros(1, "f"), False, False)
    buffer = return_replay.init(row, 4, 0.0, 1, scale_rewards=True)
    most = return_replay.MOST_STEPS
    assert most == 1e6
    buffer = buffer.replace(moments=jnp.array([0.0, 0.0, most]))
    block = jax.tree.map(lambda x: np.stack([x] * 4), row)
    block = block._replace(rew=np.float32([-1, 1, -1, 1]))
    moments = add(buffer, block).moments
    np.testing.assert_allclose(moments, [0.0, 4 / most, most], rtol=1e-6)


@pytest.mark.complete
def test_the_scale_is_over_all_ranks():
    stream = make_stream(10, 2), make_stream(10, 2, seed=3)
    buffers = [fill(one, 30, 2, scale_rewards=True) for one in stream]
    returns = np.concatenate([list_returns(one, 2)[0] for one in stream])
    stacked = jax.tree.map(lambda *x: jnp.stack(x), *buffers)
    merged = jax.vmap(return_replay.merge_ranks, axis_name=mpi.AXIS)(stacked)
    expected = [[returns.mean(), returns.var(), 20]] * 2
    np.testing.assert_allclose(merged.moments, expected, rtol=1e-5)
    plain = fill(stream[0], 30, 2, n_step=2)
    for one in (plain, None):
        assert return_replay.merge_ranks(one) is one


@pytest.mark.complete
def test_a_cut_ends_the_episodes_of_these_environments():
    stream = make_stream(10, 3)._replace(terminated=np.zeros(30, bool))
    stream = stream._replace(truncated=np.zeros(30, bool))
    buffer = fill(stream, 20, 3, n_step=2, scale_rewards=True)
    cut = return_replay.cut_episodes(buffer, [0, 1])
    flags = np.zeros(20, bool)
    flags[[27 % 20, 28 % 20]] = True
    np.testing.assert_array_equal(cut.data.truncated, flags)
    assert cut.ret[0] == cut.ret[1] == 0
    assert cut.ret[2] == buffer.ret[2] != 0
    more = add(cut, Transition(*(x[:3] for x in stream)))
    batch = take(more, jnp.array([7, 8, 9]), jax.random.key(0))
    np.testing.assert_allclose(batch.terminated, [0, 0, 1 - GAMMA], atol=1e-6)
    assert return_replay.cut_episodes(None, [0]) is None


def test_wrong_arguments_are_refused():
    row = Transition(*(x[0] for x in make_stream(1, 1)))
    init = functools.partial(return_replay.init, row, 8)
    for args, words in [
        ((1.5, 1), "gamma must be a number in"),
        ((0.9, 0), "num_envs must be an integer"),
        ((0.9, 1, 0), "n_step must be an integer"),
        ((0.9, 1, 1, 1), "scale_rewards must be True or False"),
    ]:
        with pytest.raises(ValueError, match=words):
            init(*args)
    buffer = init(0.9, 2, scale_rewards=True)
    with pytest.raises(ValueError, match="each of the 2 environments per step, got 3 rows"):
        return_replay.add(buffer, Transition(*(x[:3] for x in make_stream(3, 1))))
