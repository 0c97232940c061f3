"""Reward functions are found in environments of every kind, and wrong ones are refused."""

import functools

import gymnasium
import jax
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

from purerl import errors
from purerl.loops.hindsight import rewards
from purerl.spaces import EnvSpec
from tests.loops.hindsight import reach
from tests.loops.hindsight.reach import JaxReach, Reach, start

SPEC = EnvSpec.of(Reach())


def find(env, is_sparse=False):
    outcome = rewards.try_step(env, SPEC)
    return rewards.find_relabelling(env, outcome, "future", 4.0, is_sparse)


ROWS = np.float32([[0, 5], [1, 5], [2, 5]]), np.float32([[0, 6], [3, 6], [2, 6]])


def test_rewards_and_terminations_are_computed_for_all_goals_at_once_or_one_by_one():
    found = find(Reach(terminates=True))
    assert not found.reward.one_by_one
    assert found.terminated.one_by_one  # it returns one flag for any number of goals
    gain, ends = found.compute(*ROWS, np.array([True, True, True]))
    assert (gain.tolist(), ends.tolist()) == ([0, -1, 0], [True, False, True])
    gain, ends = found.compute(*(x[None, :] for x in ROWS), np.array([[False, True, True]]))
    assert (gain.shape, ends.tolist()) == ((1, 3), [[False, False, True]])


def test_one_flag_for_many_goals_is_not_taken_for_their_flags():
    class Maze(Reach):
        def compute_terminated(self, achieved, desired, info):
            return bool(np.linalg.norm(achieved - desired) <= reach.NEAR)

    found = find(Maze(terminates=True))
    assert found.terminated.one_by_one
    assert found.compute(ROWS[0], ROWS[0], np.ones(3, bool))[1].tolist() == [True] * 3


def test_environments_without_terminations_keep_the_stored_ones():
    class Plain(Reach):
        compute_terminated = None

    class Abstract(Reach):
        def compute_terminated(self, achieved, desired, info):
            raise NotImplementedError

    for make in (Plain, Abstract):
        found = find(make())
        assert found.terminated is None
        assert found.compute(*ROWS, np.ones(3, bool))[1] is None


def test_functions_in_jax_are_used_if_they_cover_the_terminations_too():
    class Half(JaxReach):
        jax_compute_terminated = None

    assert find(JaxReach()).in_jax
    assert not find(Half()).in_jax


def test_wrappers_may_have_their_own_functions():
    class Far(gymnasium.Wrapper):
        def step(self, action):
            obs, _, *rest = self.env.step(action)
            return obs, self.compute_reward(obs["achieved_goal"], obs["desired_goal"], {}), *rest

        def compute_reward(self, achieved, desired, info):
            return -3.0 * np.ones(achieved.shape[:-1])

    found = find(gymnasium.wrappers.TimeLimit(Far(Reach()), 5))
    assert found.compute(*ROWS, np.ones(3, bool))[0].tolist() == [-3, -3, -3]


def test_equal_functions_of_other_environments_share_a_compiled_program():
    def near(achieved, desired, info, width):
        return -1.0 * (abs(achieved - desired)[..., 0] > width)

    class Partly(Reach):
        compute_terminated = None

        def __init__(self):
            super().__init__()
            self.jax_compute_reward = functools.partial(near, width=0.5)

    one, other = find(Partly()), find(Partly())
    assert one == other
    assert hash(one) == hash(other)
    assert jax.jit(one.reward)(*ROWS, {}).tolist() == [0, -1, 0]


class Scaled(gymnasium.RewardWrapper):
    def reward(self, reward):
        return 2 * reward - 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"compute_reward": None}, r"her needs compute_reward\(achieved_goal, .*--no-her"),
        ({"compute_reward": lambda *_: np.nan}, "compute_reward of the environment must return f"),
        ({"compute_reward": lambda *_: 1 / 0}, "the environment raised ZeroDivisionError in compu"),
        ({"jax_compute_reward": lambda *_: 0.0, "compute_terminated": None},
         "jax_compute_reward of the environment must return a reward for each"),
    ],
)  # fmt: skip
def test_functions_that_cannot_be_used_are_refused(change, message):
    env = Reach()
    outcome = rewards.try_step(env, SPEC)
    vars(env).update(change)
    with pytest.raises((ValueError, errors.EnvFault), match=message):
        rewards.find_relabelling(env, outcome, "future", 4.0, False)


def test_a_wrapper_that_changes_rewards_is_refused():
    with pytest.raises(ValueError, match=r"^her needs the same rewards from compute_reward and"):
        start(lambda: Scaled(Reach()))
    start(lambda: Scaled(Reach()), her=False).envs.close()


def test_clipped_targets_need_rewards_of_minus_one_and_zero():
    class Shifted(Reach):
        def compute_reward(self, achieved, desired, info):
            return 1 + super().compute_reward(achieved, desired, info)

    assert find(Reach(), is_sparse=True)
    assert find(Shifted())
    with pytest.raises(ValueError, match=r"^clip_targets is for rewards of -1 and 0, got \[.*1\.0"):
        find(Shifted(), is_sparse=True)


class Remote(gymnasium.vector.VectorWrapper):
    """Hides the environments of a vector environment, as one does that has them elsewhere."""

    def reset(self, **options):
        return self.call_inside("reset", **options)

    def step(self, actions):
        return self.call_inside("step", actions)

    def call_inside(self, method, *args, **options):
        self.env.envs = self.envs
        try:
            return getattr(self.env, method)(*args, **options)
        finally:
            self.env.envs = ()


def make_remote():
    made = Remote(reach.make_vector(AutoresetMode.SAME_STEP)())
    made.envs, made.env.envs = made.env.envs, ()
    return made


def test_a_vector_environment_that_has_its_environments_elsewhere_gets_one_more():
    carry = start(make_remote)
    spare = carry.relabelling.reward.function.__self__
    assert spare is carry.envs._spare
    assert spare not in carry.envs.env.envs
    closed = []
    spare.close = lambda: closed.append(1)
    carry.envs.close()
    assert closed == [1]


@pytest.mark.parametrize("mode", AutoresetMode)
def test_episodes_may_end_at_the_first_step(mode):
    """In SAME_STEP mode its observation is already that of the next episode."""

    class Far(Reach):
        def reset(self, **options):
            super().reset(**options)
            self.goal[0] = 50.0 if self.episode else 0.0  # only the first episode has a seed
            return self.obs(), {}

    def make():
        return gymnasium.vector.SyncVectorEnv(
            [functools.partial(Far, limit=1)] * 2, autoreset_mode=mode
        )

    outcome = rewards.try_step(make(), SPEC)
    assert (outcome.reward, outcome.desired_goal[0]) == (-1, 50)
    carry = start(make)
    assert carry.schedule.log_info == ("is_success",)
    carry.envs.close()


@pytest.mark.parametrize("value", [np.array([True]), None, "yes"])
@pytest.mark.parametrize("mode", [None, AutoresetMode.SAME_STEP])
def test_success_that_is_no_number_is_not_logged(mode, value):
    class Odd(Reach):
        def step(self, action):
            *rest, _ = super().step(action)
            return *rest, {"is_success": value, "success": True}

    env = gymnasium.vector.SyncVectorEnv([Odd] * 2, autoreset_mode=mode) if mode else Odd()
    assert rewards.try_step(env, SPEC).success == "success"


@pytest.mark.parametrize("name", ["achieved_goal", "desired_goal", "observation"])
def test_parts_of_observations_with_another_number_of_axes_are_refused(name):
    class Odd(Reach):
        def obs(self):
            found = super().obs()
            return found | {name: found[name][None]}

        def compute_reward(self, achieved, desired, info):
            return super().compute_reward(achieved.reshape(-1, 2), desired.reshape(-1, 2), info)[0]

    with pytest.raises(errors.EnvFault, match=r"of the environment's observation must have"):
        rewards.try_step(Odd(), SPEC)


def test_a_vector_environment_may_compute_rewards_itself():
    made = make_remote()
    made.env.env_fns = ()
    with pytest.raises(ValueError, match=r"^her needs compute_reward of an environment, but Sync"):
        start(lambda: made)
    made.env.compute_reward = made.envs[0].compute_reward
    carry = start(lambda: made)
    assert carry.relabelling.reward.function == made.envs[0].compute_reward
