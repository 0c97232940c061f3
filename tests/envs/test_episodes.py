"""Episodes of N environments: limit, automatic reset, final observations, keys."""

import collections
import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from purerl import rng
from purerl.envs import episodes
from purerl.envs.classic.cartpole import CartPole
from purerl.spaces import Box, Discrete, EnvSpec

FLAGS = EnvSpec((2,), Discrete(2))
BOX = EnvSpec((2,), Box((-1.0, 0.0), (2.0, 1.0)))
SEED, RANK = jnp.uint32(5), jnp.uint32(2)
resets = []  # one entry each time a compiled program resets all environments


@dataclasses.dataclass(frozen=True)
class Scripted:
    """Action 1 ends an episode. Step t of an episode is rewarded with 2**t.

    Observations are the number of steps of the episode, and a number made from the key of its
    reset. `info` has the key of the step.
    """

    params: None = None
    max_steps: None = None
    spec: EnvSpec = FLAGS

    def reset(self, key, params):
        jax.debug.callback(resets.append, 0)
        state = {"t": 0, "born": jax.random.uniform(key)}  # a Python number: weakly typed
        return state, self.observe(state)

    def observe(self, state):
        return jnp.stack([jnp.float32(state["t"]), state["born"]])

    def step(self, key, state, action, params):
        reward = 2 ** state["t"]  # an integer
        state = state | {"t": state["t"] + 1}
        info = {"key": jax.random.key_data(key)}
        return state, self.observe(state), reward, jnp.float32(action), info


def play(actions, max_steps=None, seed=SEED, env=None):
    """Play actions `[T, N]` in one program; return the first, all following, and all results."""
    env = env or Scripted()

    def advance(now, act):
        now, result = episodes.step(env, env.params, seed, RANK, max_steps, now, act)
        return now, (now, result)

    first = episodes.reset(env, env.params, seed, RANK, np.shape(actions)[1])
    return first, *jax.lax.scan(advance, first, jnp.asarray(actions))[1]


def columns(*rows):
    """Return actions `[T, N]`, one row of digits per environment."""
    return np.array([[int(x) for x in row] for row in rows], np.int32).T


def read(flags):
    """Return flags `[T, N]` as rows of digits, one per environment."""
    assert flags.dtype == bool
    return ["".join(map(str, row)) for row in np.asarray(flags).T.astype(int)]


# With limit 3, environment 0 has episodes of 3 (truncated), 2 (terminated) and 1 steps
# (terminated), environment 1 of 3 (both at once) and 3 (truncated), environment 2 of one step.
SCRIPT = columns("000011", "001000", "111111")


def test_both_flags_end_episodes_of_different_lengths():
    first, following, result = play(SCRIPT, max_steps=3)
    assert read(result.transition.terminated) == ["000011", "001000", "111111"]
    assert read(result.transition.truncated) == ["001000", "001001", "000000"]
    assert read(result.ended) == ["001011", "001001", "111111"]
    np.testing.assert_array_equal(result.length.T, [[1, 2, 3, 1, 2, 1], [1, 2, 3] * 2, [1] * 6])
    np.testing.assert_array_equal(result.ret.T, [[1, 3, 7, 1, 3, 1], [1, 3, 7] * 2, [1] * 6])
    np.testing.assert_array_equal(
        result.transition.rew.T, [[1, 2, 4, 1, 2, 1], [1, 2, 4] * 2, [1] * 6]
    )
    np.testing.assert_array_equal(first.number, [0, 0, 0])
    np.testing.assert_array_equal(
        following.number.T, [[0, 0, 1, 1, 2, 3], [0, 0, 1, 1, 1, 2], [1, 2, 3, 4, 5, 6]]
    )
    np.testing.assert_array_equal(
        following.length.T, [[1, 2, 0, 1, 0, 0], [1, 2, 0, 1, 2, 0], [0] * 6]
    )
    np.testing.assert_array_equal(
        following.ret.T, [[1, 3, 0, 1, 0, 0], [1, 3, 0, 1, 3, 0], [0] * 6]
    )


def test_the_last_observation_is_kept_and_the_next_episode_is_acted_on():
    first, following, result = play(SCRIPT, max_steps=3)
    obs, next_obs = result.transition.obs, result.transition.next_obs
    np.testing.assert_array_equal(obs[0], first.obs)
    np.testing.assert_array_equal(obs[1:], following.obs[:-1])
    np.testing.assert_array_equal(next_obs[..., 0], result.length)  # the true successor
    np.testing.assert_array_equal(next_obs[..., 1], obs[..., 1])  # of the same episode
    np.testing.assert_array_equal(following.obs[..., 0], following.length)
    np.testing.assert_array_equal(following.state["t"], following.length)
    is_other = following.obs[..., 1] != next_obs[..., 1]
    np.testing.assert_array_equal(is_other, result.ended)


def test_a_limit_of_one_step_truncates_every_step():
    _, following, result = play(columns("0010", "0000"), max_steps=1)
    assert read(result.transition.truncated) == read(result.ended) == ["1111", "1111"]
    assert read(result.transition.terminated) == ["0010", "0000"]
    np.testing.assert_array_equal(following.number.T, [[1, 2, 3, 4]] * 2)
    np.testing.assert_array_equal(result.transition.next_obs[..., 0], 1)


def test_without_a_limit_only_the_environment_ends_an_episode():
    _, following, result = play(columns("0" * 20 + "1", "0" * 21))
    assert not result.transition.truncated.any()
    assert read(result.ended) == ["0" * 20 + "1", "0" * 21]
    np.testing.assert_array_equal(result.length[-1], [21, 21])
    np.testing.assert_array_equal(following.length[-1], [0, 21])


def test_each_episode_and_each_step_has_the_documented_key():
    first, following, result = play(SCRIPT, max_steps=3)
    number = np.concatenate([first.number[None], following.number[:-1]])
    length = np.concatenate([first.length[None], following.length[:-1]])
    for i in range(3):
        for t in range(6):
            key = rng.stream(5, 2, "env", i, int(number[t, i]))
            key_reset, key_steps = jax.random.split(key)
            assert result.transition.obs[t, i, 1] == jax.random.uniform(key_reset)
            wanted = jax.random.key_data(jax.random.fold_in(key_steps, length[t, i]))
            np.testing.assert_array_equal(result.info["key"][t, i], wanted)


def test_no_key_is_used_twice():
    first, following, result = play(np.ones((50, 4), np.int32) * (np.arange(4) % 2), max_steps=3)
    steps = np.asarray(result.info["key"]).reshape(-1, 2)
    assert len(np.unique(steps, axis=0)) == 200
    born = np.concatenate([first.obs[None], following.obs])[..., 1]
    count = int(following.number[-1].sum()) + 4
    assert len(np.unique(born)) == count == 16 * 2 + 50 * 2 + 4


def test_other_seeds_and_ranks_give_other_episodes():
    env = CartPole()
    a, b, c = (
        episodes.reset(env, env.params, jnp.uint32(seed), jnp.uint32(rank), 2).obs
        for seed, rank in ((0, 0), (1, 0), (0, 1))
    )
    assert len(np.unique(np.concatenate([a, b, c])[:, 0])) == 6


def test_an_environment_does_not_depend_on_the_number_of_environments():
    few, many = play(SCRIPT[:, :2], max_steps=3), play(SCRIPT, max_steps=3)
    jax.tree.map(np.testing.assert_array_equal, few[0], jax.tree.map(lambda x: x[:2], many[0]))
    rest = jax.tree.map(lambda x: x[:, :2], many[1:])
    jax.tree.map(np.testing.assert_array_equal, few[1:], rest)


def test_restart_cuts_all_episodes_and_starts_the_next_ones():
    env = Scripted()
    _, following, _ = play(SCRIPT, max_steps=3)
    now = jax.tree.map(lambda x: x[3], following)  # episodes 1, 1 and 4
    after = episodes.restart(env, None, SEED, RANK, now)
    np.testing.assert_array_equal(after.number, now.number + 1)
    np.testing.assert_array_equal(after.length, [0, 0, 0])
    np.testing.assert_array_equal(after.ret, [0, 0, 0])
    # The first two are the episodes that start when this one has ended by itself.
    ended = jax.tree.map(lambda x: x[5], following)
    assert after.number[0] == 2
    assert after.obs[1, 1] == ended.obs[1, 1]
    assert not np.isin(after.obs[:, 1], now.obs[:, 1]).any()


def test_a_part_of_the_environments_has_the_episodes_of_the_whole():
    env = Scripted()
    whole = episodes.reset(env, None, SEED, RANK, 3)
    part = episodes.reset(env, None, SEED, RANK, 2, first=1)
    for act in (SCRIPT[0], SCRIPT[2]):  # both end episodes
        whole, _ = episodes.step(env, None, SEED, RANK, 3, whole, act)
        part, _ = episodes.step(env, None, SEED, RANK, 3, part, act[1:], first=1)
    assert part.number.tolist() == [1, 2]
    cut = episodes.restart(env, None, SEED, RANK, whole)
    part_cut = episodes.restart(env, None, SEED, RANK, part, first=1)
    for one, other in ((whole, part), (cut, part_cut)):
        jax.tree.map(lambda x, y: np.testing.assert_array_equal(x[1:], y), one, other)


def test_the_carry_keeps_its_structure_and_dtypes():
    env = Scripted()
    first = episodes.reset(env, None, SEED, RANK, 3)
    after, result = episodes.step(env, None, SEED, RANK, 3, first, SCRIPT[0])
    again = episodes.restart(env, None, SEED, RANK, first)
    kinds = [jax.tree.map(lambda x: (x.dtype, x.weak_type), x) for x in (first, after, again)]
    assert kinds[0] == kinds[1] == kinds[2]
    assert first.state["t"].dtype == first.length.dtype == jnp.int32
    assert (first.number.dtype, first.ret.dtype) == (jnp.uint32, jnp.float32)
    assert not jax.tree.leaves(jax.tree.map(lambda x: x.weak_type, first)).count(True)
    rows = result.transition
    assert (rows.rew.dtype, rows.terminated.dtype, rows.truncated.dtype) == (
        jnp.float32,
        bool,
        bool,
    )
    assert result.length.dtype == jnp.int32


def test_jit_and_vmap_over_seeds_change_nothing():
    seeds = jnp.arange(3, dtype=jnp.uint32)
    run = functools.partial(play, SCRIPT, 3)
    together = jax.jit(jax.vmap(run))(seeds)
    for i, seed in enumerate(seeds):
        jax.tree.map(
            np.testing.assert_array_equal, run(seed), jax.tree.map(lambda x, i=i: x[i], together)
        )


@pytest.mark.parametrize(
    ("first", "second", "wanted"),
    [("000", "000", 0), ("0001", "0000", 1), ("0100000", "0001010", 3), ("11", "11", 2)],
)
def test_steps_without_an_end_do_not_reset(first, second, wanted):
    """Two seeds are one program, with three environments each; only one of them ends episodes."""
    actions = np.stack([columns(row, "0" * len(row), "0" * len(row)) for row in (first, second)])
    seeds = jnp.arange(2, dtype=jnp.uint32)
    last = jax.jit(jax.vmap(lambda a, seed: play(a, 50, seed)[1].number[-1]))
    resets.clear()
    number = jax.block_until_ready(last(actions, seeds))
    jax.effects_barrier()
    assert len(resets) == 1 + wanted
    np.testing.assert_array_equal(number, [[x.count("1"), 0, 0] for x in (first, second)])


@dataclasses.dataclass(frozen=True)
class Echo(Scripted):
    """Observations are what the environment received as its action."""

    spec: EnvSpec = BOX

    def step(self, key, state, action, params):
        return state, action, 0.0, False, {}


def test_the_environment_receives_clipped_actions_and_the_transition_keeps_them():
    actions = np.float32([[[-5, -5], [0.5, 0.5], [5, 5]]])
    _, _, result = play(actions, env=Echo())
    np.testing.assert_array_equal(result.transition.act, actions)
    np.testing.assert_array_equal(
        result.transition.next_obs[0], np.float32([[-1, 0], [0.5, 0.5], [2, 1]])
    )


@dataclasses.dataclass(frozen=True)
class Wrong(Scripted):
    """An environment whose `step` breaks the protocol in one way."""

    fault: str = ""

    def step(self, key, state, action, params):
        state, obs, reward, terminated, info = super().step(key, state, action, params)
        if self.fault == "reward":
            reward = jnp.ones(1)
        if self.fault == "obs":
            obs = obs[:1]
        if self.fault == "dtype":
            state = state | {"t": state["t"] + 0.5}
        if self.fault == "structure":
            state = state | {"more": state["t"]}
        if self.fault == "static":
            state = collections.OrderedDict(state)
        return state, obs, reward, terminated, info


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("reward", r"reward must have shape \(3,\), got shape \(3, 1\)"),
        ("obs", r"obs must have shape \(3, 2\), got shape \(3, 1\)"),
        ("dtype", r"state\['t'\] must keep its shape and dtype, but reset returns int32 \(\) and"),
        ("structure", r"states of one structure, but they differ in state\['more'\]"),
        ("static", r"states of one structure, but they differ in fields that are no arrays"),
    ],
)
def test_an_environment_that_breaks_the_protocol_is_refused(fault, message):
    with pytest.raises(ValueError, match=message):
        play(SCRIPT, env=Wrong(fault=fault))


def test_counts_are_checked():
    env, now = Scripted(), episodes.reset(Scripted(), None, SEED, RANK, 1)
    with pytest.raises(ValueError, match="num_envs must be an integer of at least 1, got 0"):
        episodes.reset(env, None, SEED, RANK, 0)
    with pytest.raises(ValueError, match="max_steps must be an integer of at least 1, got 0"):
        episodes.step(env, None, SEED, RANK, 0, now, SCRIPT[0, :1])


def test_arrays_that_all_environments_share_are_kept():
    """Physics engines put such arrays into their states, without the axis of environments."""
    ended = jnp.array([True, False])
    fresh, old = ((jnp.full((2, 3), x), jnp.full(1, x), jnp.zeros(0)) for x in (1, 2))
    rows, shared, empty = episodes._select(ended, fresh, old)
    np.testing.assert_array_equal(rows, [[1] * 3, [2] * 3])
    np.testing.assert_array_equal(shared, [2])
    assert empty.shape == (0,)
