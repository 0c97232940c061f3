"""Goal replay buffer, compared with plain Python lists, and its errors."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from purerl.algos import ddpg
from purerl.buffers import goals, replay
from purerl.spaces import Box, EnvSpec
from purerl.types import Batch, ExtendedTransition, Transition

SPEC = EnvSpec((2,), Box((-1.0,), (1.0,)), goal_size=1)  # an observation and a goal
BLOCK = 6  # rows of a block
OWN = 1000.0  # the desired goal of every row; achieved goals are the numbers of the rows
add = jax.jit(goals.add)


def rows(numbers, envs, steps, size=None):
    """Return a block of rows with these numbers as observation, action, reward, achieved goal."""
    size = size or len(numbers)
    missing = [0] * (size - len(numbers))
    n = np.array([*numbers, *missing], np.float32)
    env, step = (np.array([*x, *missing], np.int32) for x in (envs, steps))
    obs = np.stack([n, np.full(size, OWN, np.float32)], axis=1)
    flags = np.zeros(size, bool)
    extra = {"achieved_goal": n[:, None], "env": env, "step": step}
    return ExtendedTransition(obs, n[:, None], n, obs + np.float32([[0.5, 0]]), flags, flags, extra)


def fill(capacity, num_envs, envs, steps):
    """Return a buffer with rows 0, 1, ..., added in blocks of odd sizes."""
    buffer, done = goals.init(goals.make_example(SPEC), capacity, num_envs), 0
    for size in [1, 3, 5] * len(envs):
        part = slice(done, min(done + size, len(envs)))
        numbers = range(part.start, part.stop)
        buffer = add(buffer, rows(numbers, envs[part], steps[part], BLOCK), np.int32(len(numbers)))
        done = part.stop
        if done == len(envs):
            return buffer


@functools.partial(jax.jit, static_argnums=(1, 2, 3, 4))
def draw_many(buffer, keys, batch_size, strategy, share):
    """Draw a batch with each of many keys, and flatten them."""
    keys = jax.random.split(jax.random.key(7), keys)
    drawn = jax.vmap(lambda key: goals.draw(buffer, key, batch_size, strategy, share))(keys)
    drawn = drawn._replace(batch=drawn.batch._replace(key=None))
    return jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), drawn)


def pairs(buffer, strategy, keys=64, batch_size=1):
    """Return the numbers of drawn rows, and the numbers of the rows whose goals they got."""
    drawn = draw_many(buffer, keys, batch_size, strategy, 1.0)
    assert bool(drawn.relabelled.all())
    row = np.asarray(drawn.batch.rew).astype(int)
    return row, np.asarray(drawn.goal)[:, 0].astype(int)


def stream(choices, num_envs):
    """Return environment, step and episode of each row, from pairs (environment, reset)."""
    step, episode, table = [-1] * num_envs, [0] * num_envs, []
    for env, reset in choices:
        env %= num_envs
        fresh = reset or step[env] < 0
        step[env] = 0 if fresh else step[env] + 1
        episode[env] += fresh
        table.append((env, step[env], episode[env]))
    return table


def allowed(table, capacity, number, strategy):
    """Return the rows whose goals row `number` may get, with a loop over a list."""
    env, _, episode = table[number]
    stored = range(max(0, len(table) - capacity), len(table))
    same = [i for i in stored if table[i][0] == env and table[i][2] == episode]
    if strategy == "final":
        return same[-1:]
    return [i for i in same if i >= number] if strategy == "future" else same


SHAPES = [(1, 1), (8, 1), (13, 2), (4, 4)]  # capacities and numbers of environments
CHOICES = st.lists(st.tuples(st.integers(0, 3), st.booleans()), min_size=1, max_size=60)


@jax.jit
def draw_all(buffer):
    """Return 64 drawn rows, and the rows whose goals they got, with each strategy."""
    rows = [draw_many(buffer, 64, 1, strategy, 1.0) for strategy in goals.STRATEGIES]
    return [(drawn.batch.rew, drawn.goal[:, 0]) for drawn in rows]


@settings(max_examples=50, deadline=None)
@given(st.sampled_from(SHAPES), CHOICES)
def test_goals_come_from_stored_rows_of_the_same_episode(shape, choices):
    """Environments arrive in any order. Rows wrap around, and episodes may exceed the capacity."""
    capacity, num_envs = shape
    table = stream(choices, num_envs)
    envs, steps, _ = zip(*table, strict=True)
    buffer = fill(capacity, num_envs, envs, steps)
    oldest, width = max(0, len(table) - capacity), buffer.rows.shape[1]
    for strategy, drawn in zip(goals.STRATEGIES, draw_all(buffer), strict=True):
        for row, source in np.column_stack(drawn).astype(int).tolist():
            assert row >= oldest
            env = table[row][0]
            newer = sum(other[0] == env for other in table[row + 1 :])
            if newer >= width:  # too old for the ring of its environment
                assert source == row
            else:
                assert source in allowed(table, capacity, row, strategy)


@settings(max_examples=20, deadline=None)
@given(st.sampled_from(SHAPES), CHOICES, CHOICES)
def test_a_rebuilt_buffer_draws_the_same_batches(shape, choices, more):
    capacity, num_envs = shape
    table = stream(choices + more, num_envs)
    envs, steps, _ = zip(*table, strict=True)
    number = len(choices)
    buffer = fill(capacity, num_envs, envs[:number], steps[:number])
    saved = jax.tree.map(np.asarray, buffer.data)
    again = goals.rebuild(saved, buffer.position, buffer.stored, num_envs)
    for first in range(number, len(table), BLOCK):
        jax.tree.map(np.testing.assert_array_equal, draw_all(buffer), draw_all(again))
        numbers = range(len(table))[first : first + BLOCK]
        block = rows(numbers, envs[first : first + BLOCK], steps[first : first + BLOCK], BLOCK)
        buffer, again = (add(x, block, np.int32(len(numbers))) for x in (buffer, again))
    jax.tree.map(np.testing.assert_array_equal, draw_all(buffer), draw_all(again))


def test_a_rebuilt_buffer_forgets_rows_like_the_saved_one():
    """It is saved with 4 of 14 rows. Two episodes go on until their first rows are overwritten."""
    buffer = fill(14, 2, [0, 1] * 2, [0, 0, 1, 1])
    again = goals.rebuild(buffer.data, buffer.position, buffer.stored, 2)
    for first in range(4, 28, BLOCK):
        step = first // 2
        steps = [step, step, step + 1, step + 1, step + 2, step + 2]
        block = rows(range(first, first + BLOCK), [0, 1] * 3, steps)
        buffer, again = (add(x, block) for x in (buffer, again))
    jax.tree.map(np.testing.assert_array_equal, draw_all(buffer), draw_all(again))


def test_rows_too_old_for_the_ring_of_their_environment_keep_their_own_goal():
    """One of four environments makes all rows. Its ring has 12 of the 20 rows in the buffer."""
    table = stream([(0, i in (0, 15)) for i in range(25)], 4)
    envs, steps, _ = zip(*table, strict=True)
    buffer = fill(20, 4, envs, steps)
    assert buffer.rows.shape[1] == 12
    for strategy in ("future", "episode"):
        found = set(zip(*pairs(buffer, strategy, keys=2_000), strict=True))
        assert {(a, b) for a, b in found if a < 13} == {(a, a) for a in range(5, 13)}
        assert {b for a, b in found if a == 14} == ({13, 14} if strategy == "episode" else {14})


@pytest.mark.parametrize("capacity", [7, 30, 64])
@pytest.mark.parametrize("num_envs", [1, 2, 5])
def test_rings_have_room_for_loops_that_drop_rows_at_resets(capacity, num_envs):
    """Environment 0 never ends an episode. The others end one after each step."""
    table = [
        (env, step if env == 0 else 0, step)
        for step in range(3 * capacity)
        for env in range(num_envs)
        if env == 0 or step % 2 == env % 2
    ]
    width = goals.init(goals.make_example(SPEC), capacity, num_envs).rows.shape[1]
    for first in range(len(table) - capacity):
        window = [env for env, _, _ in table[first : first + capacity]]
        assert max(window.count(env) for env in range(num_envs)) <= width


def chi_square(counts, shares):
    """Return the statistic of counts against their expected shares."""
    expected = np.asarray(shares) * sum(counts)
    return float(((np.asarray(counts) - expected) ** 2 / expected).sum())


def test_future_goals_have_the_distribution_of_the_paper():
    """Step t of 5 gets any goal achieved by steps t to 4: its own, but never an earlier one."""
    buffer = fill(8, 1, [0] * 5, range(5))
    row, source = pairs(buffer, "future", keys=10_000)
    assert source.min() >= 0
    assert (source >= row).all()
    counts = np.bincount(source, minlength=5)
    # With 4 degrees of freedom, 18.5 is exceeded once in a thousand.
    assert chi_square(counts, [0.04, 0.09, 0.156667, 0.256667, 0.456667]) < 18.5
    for t in range(4):
        counts = np.bincount(source[row == t], minlength=5)
        assert counts[:t].sum() == 0
        assert chi_square(counts[t:], [1 / (5 - t)] * (5 - t)) < 18.5
    assert (source[row == 4] == 4).all()


def test_episode_goals_are_uniform_over_the_stored_steps():
    """Two environments take turns. The first rows of their second episodes are overwritten."""
    table = stream([(i % 2, i // 2 in (0, 3, 9)) for i in range(24)], 2)
    envs, steps, _ = zip(*table, strict=True)
    buffer = fill(14, 2, envs, steps)  # rows 10 .. 23: 8 of the second episodes, 6 of the third
    row, source = pairs(buffer, "episode", keys=10_000)
    for number in (10, 14, 17, 18, 23):
        wanted = allowed(table, 14, number, "episode")
        assert len(wanted) == (4 if number < 18 else 3)
        counts = np.bincount(source[row == number], minlength=24)
        assert counts.sum() == counts[wanted].sum()
        assert chi_square(counts[wanted], [1 / len(wanted)] * len(wanted)) < 16.3


def test_every_row_is_drawn_equally_often():
    buffer = fill(8, 2, [0, 0, 0, 1, 0, 1, 0, 0, 1, 1], [0, 1, 2, 0, 0, 1, 1, 2, 2, 3])
    row, _ = pairs(buffer, "future", keys=1_000, batch_size=8)
    assert chi_square(np.bincount(row - 2, minlength=8), [1 / 8] * 8) < 24.3


@pytest.mark.parametrize("steps", [5, 10, 50])
def test_the_share_of_rows_at_their_goal_is_a_harmonic_number(steps):
    """H_T / T: .456667 of 5 steps, .292897 of 10, .089984 of 50."""
    buffer = fill(64, 1, [0] * steps, range(steps))
    row, source = pairs(buffer, "future", keys=20_000)
    expected = {5: 0.456667, 10: 0.292897, 50: 0.089984}[steps]
    spread = np.sqrt(expected * (1 - expected) / 20_000)
    assert abs((row == source).mean() - expected) < 4 * spread


def test_rows_are_relabelled_with_their_share():
    drawn = draw_many(fill(8, 1, [0] * 5, range(5)), 20_000, 1, "future", 0.8)
    relabelled = np.asarray(drawn.relabelled)
    assert abs(relabelled.mean() - 0.8) < 4 * np.sqrt(0.16 / 20_000)
    assert (np.asarray(drawn.goal)[~relabelled] == OWN).all()
    assert (np.asarray(drawn.goal)[relabelled] < 5).all()


def reward(achieved, desired, info):
    """Return 0 at the goal and -1 elsewhere. The two arguments are not interchangeable."""
    assert info == {}
    return jnp.where((achieved == desired).all(axis=1), 0.0, -1.0) - 10 * (achieved < 0).any(axis=1)


def test_both_observations_get_the_new_goal_and_nothing_else_changes():
    buffer = fill(8, 1, [0] * 5, range(5))
    key = jax.random.key(3)
    drawn = goals.draw(buffer, key, 5, share=1.0)
    batch, plain = drawn.batch, replay_batch(buffer, key, 5)
    assert type(batch) is Batch
    np.testing.assert_array_equal(batch.obs[:, 1], drawn.goal[:, 0])
    np.testing.assert_array_equal(batch.next_obs[:, 1], drawn.goal[:, 0])
    np.testing.assert_array_equal(batch.obs[:, 0], plain.obs[:, 0])
    np.testing.assert_array_equal(batch.next_obs[:, 0], plain.next_obs[:, 0])
    np.testing.assert_array_equal(drawn.achieved_goal[:, 0], plain.rew)
    for name in ("act", "rew", "terminated", "truncated"):
        np.testing.assert_array_equal(getattr(batch, name), getattr(plain, name))


def replay_batch(buffer, key, batch_size):
    """Return the batch of a replay buffer without goals that has the same rows."""
    data = Transition(*buffer.data[:6])
    return replay.sample(replay.Replay(data, buffer.position, buffer.stored), key, batch_size)


@pytest.mark.parametrize("strategy", goals.STRATEGIES)
def test_without_relabelling_the_batch_is_that_of_a_replay_buffer(strategy):
    buffer = fill(8, 2, [0, 1] * 6, [0, 0, 1, 1, 2, 2, 3, 0, 0, 1, 1, 2])
    for seed in range(3):
        key = jax.random.key(seed)
        batch = goals.sample(buffer, key, 8, reward, reward, strategy, k=0)
        plain = replay_batch(buffer, key, 8)
        data = jax.random.key_data
        assert data(batch.key).tolist() == data(plain.key).tolist()
        for a, b in zip(batch[:6], plain[:6], strict=True):
            np.testing.assert_array_equal(a, b)


def test_statistics_of_observations_include_new_goals():
    buffer = fill(8, 1, [0] * 5, range(5))
    spec = ddpg.Spec(SPEC, hidden=(4,), normalise_obs=True)
    batch = goals.draw(buffer, jax.random.key(0), 5, share=1.0).batch
    assert batch.obs[:, 1].max() < OWN
    state, _ = ddpg.update(ddpg.init(jax.random.key(0), spec), batch)
    np.testing.assert_allclose(state.params.obs_stats.mean, batch.obs.mean(axis=0), rtol=1e-6)


def test_an_episode_that_ends_at_its_own_goal_is_rewarded_only_there():
    """Achieved goals 1, 2, 3 with goal 3 give -1, -1, 0. The next episode is never drawn."""
    block = rows([1, 2, 3, 100, 101], [0] * 5, [0, 1, 2, 0, 1])
    buffer = goals.add(goals.init(goals.make_example(SPEC), 8, 1), block)
    drawn = draw_many(buffer, 500, 1, "final", 1.0)
    batch = goals.apply_outcome(drawn, reward(drawn.achieved_goal, drawn.goal, {}))
    columns = np.column_stack([drawn.achieved_goal, drawn.goal, batch.rew]).tolist()
    expected = {(1, 3, -1), (2, 3, -1), (3, 3, 0), (100, 101, -1), (101, 101, 0)}
    assert set(map(tuple, columns)) == expected


def test_an_open_episode_is_used_up_to_its_last_step_so_far():
    buffer = fill(8, 1, [0] * 3, range(3))
    assert set(pairs(buffer, "final")[1]) == {2}
    buffer = goals.add(buffer, rows([3], [0], [3]))
    assert set(pairs(buffer, "final")[1]) == {3}


def test_step_zero_separates_episodes_without_any_flag():
    buffer = fill(8, 1, [0] * 4, [0, 1, 0, 1])
    row, source = pairs(buffer, "final")
    assert set(zip(row, source, strict=True)) == {(0, 1), (1, 1), (2, 3), (3, 3)}


def test_an_episode_of_one_step_gets_its_own_goal():
    buffer = fill(4, 1, [0] * 3, [0, 0, 0])
    for strategy in goals.STRATEGIES:
        row, source = pairs(buffer, strategy)
        np.testing.assert_array_equal(row, source)


def test_rewards_and_terminations_change_only_for_new_goals():
    drawn = goals.draw(fill(8, 1, [0] * 5, range(5)), jax.random.key(0), 5)
    relabelled = jnp.array([True, False, True, False, True])
    drawn = drawn._replace(relabelled=relabelled)
    drawn = drawn._replace(batch=drawn.batch._replace(terminated=jnp.array([0, 1, 1, 0, 0], bool)))
    batch = goals.apply_outcome(drawn, np.full(5, -1.0), np.array([1, 0, 0, 1, 0], bool))
    stored = drawn.batch.rew.tolist()
    assert batch.rew.tolist() == [-1, stored[1], -1, stored[3], -1]
    assert batch.rew.dtype == jnp.float32
    assert batch.terminated.tolist() == [True, True, False, False, False]
    kept = goals.apply_outcome(drawn, np.full(5, -1.0)).terminated
    assert kept.tolist() == [False, True, True, False, False]


def test_sample_computes_outcomes_from_achieved_and_new_goals():
    buffer = fill(8, 1, [0] * 5, range(5))
    key = jax.random.key(1)
    drawn = goals.draw(buffer, key, 5, "future", 0.5)
    batch = jax.jit(goals.sample, static_argnums=(2, 3, 4, 5, 6))(
        buffer, key, 5, lambda a, d, i: (a - 2 * d)[:, 0], lambda a, d, i: a[:, 0] < d[:, 0],
        "future", 1
    )  # fmt: skip
    new = np.asarray(drawn.relabelled)
    assert 0 < new.sum() < 5
    achieved, desired = np.asarray(drawn.achieved_goal)[:, 0], np.asarray(drawn.goal)[:, 0]
    np.testing.assert_array_equal(batch.rew, np.where(new, achieved - 2 * desired, drawn.batch.rew))
    np.testing.assert_array_equal(batch.terminated, new & (achieved < desired))


def test_the_key_determines_indices_goals_and_choice():
    buffer = fill(64, 1, [0] * 50, range(50))
    first, again, other = (goals.draw(buffer, jax.random.key(k), 50) for k in (0, 0, 1))
    assert first.goal.tolist() == again.goal.tolist() != other.goal.tolist()
    assert first.relabelled.tolist() != other.relabelled.tolist()


def test_choice_row_and_goal_are_independent():
    buffer = fill(8, 1, [0] * 8, range(8))
    drawn = draw_many(buffer, 20_000, 1, "episode", 0.5)
    row, relabelled = np.asarray(drawn.batch.rew).astype(int), np.asarray(drawn.relabelled)
    source = pairs(buffer, "episode", keys=20_000)[1]  # the same draws, all with a new goal
    counts = np.bincount(row * 16 + source * 2 + relabelled, minlength=128)
    # With 127 degrees of freedom, 181 is exceeded once in a thousand.
    assert chi_square(counts, [1 / 128] * 128) < 181


def test_blocks_are_added_inside_a_scan_and_in_place():
    block = rows(range(6), [0, 1] * 3, [0, 0, 1, 1, 2, 2])
    buffer = goals.init(goals.make_example(SPEC), 20, 2)
    scanned, _ = jax.lax.scan(
        lambda x, n: (goals.add(x, block, n), None), buffer, jnp.array([6, 4, 0, 6])
    )
    for count in (6, 4, 0, 6):
        buffer = goals.add(buffer, block, count)
    jax.tree.map(np.testing.assert_array_equal, scanned, buffer)
    donated = jax.jit(goals.add, donate_argnums=0)
    where = scanned.rows.unsafe_buffer_pointer()
    assert donated(scanned, block).rows.unsafe_buffer_pointer() == where


def test_the_example_has_the_achieved_goal_and_the_place_of_a_row():
    example = goals.make_example(EnvSpec((5,), Box((-1.0,), (1.0,)), goal_size=2))
    assert {k: (v.shape, v.dtype.name) for k, v in example.extra.items()} == {
        "achieved_goal": ((2,), "float32"), "env": ((), "int32"), "step": ((), "int32")
    }  # fmt: skip
    with pytest.raises(ValueError, match="^goal_size must be an integer of at least 1, got 0"):
        goals.make_example(EnvSpec((5,), Box((-1.0,), (1.0,))))


def test_invalid_arguments_are_refused_by_name():
    example = goals.make_example(SPEC)
    with pytest.raises(ValueError, match="^num_envs must be an integer of at least 1, got 0"):
        goals.init(example, 4, 0)
    with pytest.raises(ValueError, match="^example must be an ExtendedTransition whose extra has"):
        goals.init(SPEC.example(), 4, 1)
    flat = example._replace(obs=np.zeros(1, np.float32))
    with pytest.raises(ValueError, match=r"^a row must have .* got shapes \(1,\) and \(1,\)"):
        goals.init(flat, 4, 1)
    buffer = goals.init(example, 4, 2)
    for env in (2, -1):
        with pytest.raises(ValueError, match=r"^extra\['env'\] must be in 0 \.\. 1, got"):
            goals.add(buffer, rows([0], [env], [0]))
    goals.add(buffer, rows([0, 1], [1, 9], [0, 0]), 1)  # the second row does not count
    buffer = goals.add(buffer, rows([0, 1], [0, 1], [0, 0]))
    key = jax.random.key(0)
    with pytest.raises(ValueError, match="^strategy must be one of episode, final, future, got"):
        goals.draw(buffer, key, 1, "past")
    with pytest.raises(ValueError, match=r"^share must be a number in \[0\.0, 1\.0\], got 2"):
        goals.draw(buffer, key, 1, share=2)
    with pytest.raises(ValueError, match="^k must be a number"):
        goals.sample(buffer, key, 1, reward, k=-1)
    with pytest.raises(ValueError, match="^batch_size is 3 but the buffer holds 2 rows"):
        goals.draw(buffer, key, 3)
    with pytest.raises(ValueError, match=r"^rewards must have shape \(2,\), got shape \(2, 1\)"):
        goals.sample(buffer, key, 2, lambda a, d, i: a - d)
    with pytest.raises(ValueError, match=r"^terminated must have shape \(2,\), got shape \(2, 1\)"):
        goals.sample(buffer, key, 2, reward, lambda a, d, i: a < d)
    assert int(goals.size(buffer)) == 2
