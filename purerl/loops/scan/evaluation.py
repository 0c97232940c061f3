"""Test episodes in environments in JAX, all at the same time."""

import functools
from collections.abc import Callable
from types import ModuleType
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from purerl import algos, checks, mpi, rng
from purerl.envs import episodes as in_progress
from purerl.envs.episodes import Episodes
from purerl.envs.protocol import JaxEnv
from purerl.errors import NonFiniteError
from purerl.loops import devices, records
from purerl.loops.adapters import in_jax
from purerl.loops.carry import Record
from purerl.loops.scan import stepping
from purerl.loops.scan.stepping import World

TEST_STEPS = 500  # of a program, after which an evaluation may stop


def evaluate(
    algo: ModuleType,
    params: Any,
    env: JaxEnv,
    seed: int,
    epoch: int,
    episodes: int,
    max_ep_len: int | None = None,
    deterministic: bool = True,
    should_stop: Callable[[], bool] = lambda: False,
    log_info: tuple[str, ...] = (),
) -> Record:
    """Play whole episodes, all at the same time.

    Args:
        algo: A module of `purerl.algos`.
        params: The learner's parameters.
        env: Environment in JAX.
        seed: Seed of the run. The keys of the episodes are derived from it and from `epoch`.
        epoch: Number of the evaluation.
        episodes: Number of episodes on this rank.
        max_ep_len: Length at which episodes are cut, or None for the environment's own limit.
        deterministic: Whether to act by `policy`. Otherwise `act` samples, with one key per step.
        should_stop: Function that is called between two programs; True ends the evaluation.
        log_info: Names of values of `info` to read from the last step of each episode.

    Returns:
        A dict of `test_returns` and `test_lengths`, and a list `test_NAME` for each name in
        `log_info`. It is empty if `should_stop` ended the evaluation.
    """
    checks.integer("episodes", episodes, 1)
    checks.integer("epoch", epoch, 0)
    checks.seed(seed)
    algo, env, rank = algos.load(algo), in_jax.check_env(env), mpi.proc_id()
    params = devices.unreplicate(params)
    world = World(env, episodes, in_jax.limit_steps(env, max_ep_len), log_info)
    own_seed = rng.host_seed(seed, rank, "eval", epoch)  # other episodes than those of training
    words = np.array([own_seed, seed, rank, *rng.words(epoch)], np.uint32)
    none = jnp.zeros(episodes)
    test = Test(
        stepping.reset(world, env.params, words[[0, 2]]),
        none.astype(bool),
        none.astype(jnp.float32),
        none.astype(jnp.int32),
        jnp.zeros((episodes, len(log_info)), jnp.float32),
    )
    call = 0
    while not test.is_over.all():
        if should_stop():
            return {}
        args = (params, env.params, words, test, np.int32(call), np.int32(TEST_STEPS))
        test = _run_test(algo, world, deterministic, *args)
        call += TEST_STEPS
    returns = np.asarray(test.returns)
    if not np.isfinite(returns).all():
        raise NonFiniteError(
            f"the return of a test episode is {returns[~np.isfinite(returns)][0]}, which is not "
            f"finite. Correct the rewards of the environment, or check the policy's actions."
        )
    named = records.name_info("test", log_info, map(tuple, np.asarray(test.infos).tolist()))
    lengths = np.asarray(test.lengths).tolist()
    return {"test_returns": returns.tolist(), "test_lengths": lengths} | named


class Test(NamedTuple):
    """Test episodes in progress: the first episode of each environment."""

    episodes: Episodes
    is_over: jax.Array  # [N] bool
    returns: jax.Array  # [N] float32
    lengths: jax.Array  # [N] int32
    infos: jax.Array  # [N, K] float32


@functools.partial(jax.jit, static_argnums=(0, 1, 2))
def _run_test(
    algo: ModuleType,
    world: World,
    deterministic: bool,
    params: Any,
    env_params: Any,
    words: jax.Array,
    test: Test,
    call: jax.Array,
    steps: jax.Array,
) -> Test:
    """Continue test episodes by at most `steps` steps.

    Args:
        algo: A module of `purerl.algos`.
        world: The environments, one for each episode.
        deterministic: Whether to act by `policy`.
        params: The learner's parameters.
        env_params: Parameters of the environments.
        words: Seed of the episodes, seed of the run, rank, and the epoch as two words.
        test: The episodes.
        call: Number of steps before these.
        steps: Number of steps.
    """

    def step(state: tuple[jax.Array, Test]) -> tuple[jax.Array, Test]:
        t, test = state
        if deterministic:
            act = algo.policy(params, test.episodes.obs)
        else:
            counter = jnp.stack([jnp.uint32(0), (call + t).astype(jnp.uint32)])
            key = rng.stream(words[1], words[2], "eval", words[3:5], counter)
            act = algo.act(params, test.episodes.obs, key)
        args = (world.env, env_params, words[0], words[2], world.max_steps)
        episodes, result = in_progress.step(*args, test.episodes, act)
        new = result.ended & ~test.is_over
        infos = stepping.read_infos(world, result.info)
        return t + 1, Test(
            episodes,
            test.is_over | new,
            jnp.where(new, result.ret, test.returns),
            jnp.where(new, result.length, test.lengths),
            jnp.where(new[:, None], infos, test.infos),
        )

    def goes_on(state: tuple[jax.Array, Test]) -> jax.Array:
        return (state[0] < steps) & ~state[1].is_over.all()

    return jax.lax.while_loop(goes_on, step, (jnp.int32(0), test))[1]
