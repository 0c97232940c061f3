"""Returns and advantages, compared with published numbers and with their definitions as sums."""

import types
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from purerl import returns


def near(got: Any, wanted: Any, tolerance: float = 1e-5) -> None:
    np.testing.assert_allclose(got, wanted, rtol=tolerance, atol=tolerance)


def f32(*numbers: float) -> jax.Array:
    return jnp.array(numbers, jnp.float32)


# --- published numbers --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("lam", "expected"),
    [
        (1.0, (-1.451188, -4.455746, 2.539651, 0.5249, -0.49)),
        (0.7, (-0.676979, -5.248167, 2.484608, 0.67043, -0.49)),
        (0.4, (0.567319, -6.042124, 2.34312, 0.81596, -0.49)),
    ],
)
def test_gae_equals_published_numbers(lam, expected):
    rew, values = f32(0, 0, 1, 0, -0.5), f32(1, 4, -3, -2, -1, -1)
    no = jnp.zeros(5)
    for fn in (returns.gae, jax.jit(returns.gae)):
        near(fn(rew, values[:-1], values[1:], no, no, 0.99, lam), expected)


def test_gae_stops_at_a_terminal_step():
    rew, values = f32(0, 0, 0, 0, 1), f32(-3, -2, -1, 0, 5, -1)
    wanted = (2.2899, 1.73, 1.0, 0.0, -4.9)
    by_discount = returns.gae(
        rew, values[:-1], values[1:], 0 * rew, 0 * rew, f32(0.9, 0.9, 0.9, 0, 0.9), 0.7
    )
    by_flag = returns.gae(rew, values[:-1], values[1:], f32(0, 0, 0, 1, 0), 0 * rew, 0.9, 0.7)
    near(by_discount, wanted)
    near(by_flag, wanted)


@pytest.mark.parametrize(
    ("terminated", "expected"),
    [
        (1.0, (454.83447, 376.114269, 291.298, 200)),
        (0.0, (454.010879, 375.238574, 290.366905, 199.01)),
    ],
)
def test_a_terminal_step_does_not_bootstrap_but_a_cut_does(terminated, expected):
    val, next_val = f32(-3, 2, 3, 4), f32(2, 3, 4, -1)
    rew, last = f32(101, 102, 103, 200), f32(0, 0, 0, 1)
    flags = terminated * last, (1 - terminated) * last
    adv = returns.gae(rew, val, next_val, *flags, 0.99, 0.95)
    near(adv + val, expected)


def test_the_end_of_the_rollout_is_a_cut_unless_it_is_terminal():
    """Spinning Up bootstrapped from V(s) if the last step of an epoch was terminal."""
    rew, val, next_val, no = f32(1, 1), f32(0, 0), f32(5, 7), jnp.zeros(2)
    end = f32(0, 1)
    for cut in (no, end):
        near(returns.gae(rew, val, next_val, no, cut, 0.5, 1.0), (1 + 2.5 + 0.5 * 4.5, 4.5))
        near(returns.gae(rew, val, next_val, end, cut, 0.5, 1.0), (1 + 2.5 + 0.5 * 1, 1))
        near(returns.reward_to_go(rew, next_val, no, cut, 0.5), (1 + 0.5 * 4.5, 4.5))
        near(returns.reward_to_go(rew, next_val, end, cut, 0.5), (1.5, 1))


def test_lambda_and_n_step_returns_equal_published_numbers():
    rew, disc, v = f32(1, 0, -1, 0, 1), f32(0.5, 0.9, 1, 0.5, 0.8), f32(3, 1, 5, -5, 3)
    no = jnp.zeros(5)
    near(
        returns.lambda_returns(rew, v, no, no, disc, 0.75), (1.646055, 0.722813, 0.7375, 0.65, 3.4)
    )
    near(returns.lambda_returns(rew, v, no, no, disc, 1.0), (1.315, 0.63, 0.7, 1.7, 3.4))
    near(returns.n_step_returns(rew, v, no, no, disc, 3), (2.8, -3.15, 0.7, 1.7, 3.4))
    three = returns.n_step_returns(f32(1, 2, 3), f32(0, 0, 10), no[:3], no[:3], 0.9, 3)
    near(three[0], 12.52)


def test_n_steps_do_not_cross_the_end_of_an_episode():
    ones, end = jnp.ones(5), f32(0, 0, 1, 0, 0)
    ended = returns.n_step_returns(ones, 10 * ones, end, 0 * end, 0.98, 5)
    cut = returns.n_step_returns(ones, 10 * ones, 0 * end, end, 0.98, 5)
    near(ended[0], 2.9404)
    near(cut[0], 2.9404 + 0.98**3 * 10)


def test_returns_of_episodes_equal_published_numbers():
    rew = jnp.arange(8.0)
    terminated, truncated = f32(1, 0, 0, 1, 0, 0, 0, 1), f32(0, 0, 0, 0, 0, 1, 0, 0)
    to_go = returns.reward_to_go(rew, jnp.zeros(8), terminated, truncated, 0.1)
    near(to_go, (0, 1.23, 2.3, 3, 4.5, 5, 6.7, 7))
    whole = returns.episode_return(rew, terminated, truncated, 0.1)
    near(whole, (0, 1.23, 1.23, 1.23, 4.5, 4.5, 6.7, 6.7))


@pytest.mark.parametrize(
    ("end", "expected"),
    [(None, (2.404, 2.52, 2.9)), (2, (2.0395, 1.71, 2)), (1, (1.27, 0, 2.9))],
)
def test_retrace_equals_published_numbers(end, expected):
    rew, q, rho = f32(1, 0, 2), f32(0.5, 0.4, 0.3), f32(2, 0.5, 1)
    next_v = f32(0.5, 0.2, 1)
    terminated = jnp.zeros(3) if end is None else jnp.zeros(3).at[end].set(1.0)
    near(returns.retrace(rew, q, next_v, terminated, jnp.zeros(3), rho, 0.9), expected)


# --- definitions, as sums over all pairs of steps -----------------------------------------------


def rows(seed: int, length: int, number: int) -> dict[str, np.ndarray]:
    """Return random rewards, values, ratios and flags `[T]` (number 0) or `[T, N]`, in float64."""
    rng = np.random.default_rng(seed)
    shape = (length, number) if number else (length,)
    val, rew, next_val = rng.normal(size=(3, *shape))
    terminated, truncated = rng.random((2, *shape)) < 0.2
    rho = rng.uniform(0.1, 3.0, shape)
    inside = ~(terminated | truncated)[:-1]
    next_val[:-1][inside] = val[1:][inside]  # the successor is the next row
    return {
        "rew": rew, "val": val, "next_val": next_val, "rho": rho,
        "terminated": terminated, "truncated": truncated,
    }  # fmt: skip


def by_column(definition: Any, data: dict[str, np.ndarray]) -> np.ndarray:
    """Apply a definition for one environment to every environment."""
    if data["rew"].ndim == 1:
        return np.array(definition(**data))
    number = data["rew"].shape[1]
    columns = [definition(**{k: x[:, i] for k, x in data.items()}) for i in range(number)]
    return np.stack(columns, axis=1)


def last_of(t: int, terminated: np.ndarray, truncated: np.ndarray) -> int:
    """Return the index of the last row in the episode of row t."""
    ends = np.flatnonzero((terminated | truncated)[t:])
    return t + int(ends[0]) if len(ends) else len(terminated) - 1


# Few shapes, because each one compiles anew, and whole functions, not each of their operations.
NAMES = (
    "gae",
    "lambda_returns",
    "reward_to_go",
    "episode_return",
    "forward_sum",
    "vtrace",
    "retrace",
)
compiled = types.SimpleNamespace(**{name: jax.jit(getattr(returns, name)) for name in NAMES})
data = st.tuples(st.integers(0, 10**6), st.sampled_from((1, 2, 9)), st.sampled_from((0, 2)))
unit = st.floats(0.0, 1.0)
examples = settings(max_examples=25, deadline=None)


def n_step(t, n, gamma, rew, next_val, terminated, truncated, **_):
    """Return the sum of n rewards, or fewer at the end of the episode, and the value after them."""
    end = min(t + n - 1, last_of(t, terminated, truncated))
    total = sum(gamma ** (k - t) * rew[k] for k in range(t, end + 1))
    return total + gamma ** (end + 1 - t) * (0.0 if terminated[end] else next_val[end])


@examples
@given(data, unit, unit)
def test_gae_is_a_sum_of_errors(shape, gamma, lam):
    def definition(rew, val, next_val, terminated, truncated, rho):
        delta = rew + gamma * (1 - terminated) * next_val - val
        last = [last_of(t, terminated, truncated) for t in range(len(rew))]
        return [
            sum((gamma * lam) ** (k - t) * delta[k] for k in range(t, last[t] + 1))
            for t in range(len(rew))
        ]

    d = rows(*shape)
    got = compiled.gae(
        jnp.float32(d["rew"]), jnp.float32(d["val"]), jnp.float32(d["next_val"]),
        d["terminated"], d["truncated"], gamma, lam,
    )  # fmt: skip
    near(got, by_column(definition, d))


@examples
@given(data, unit, unit)
def test_lambda_returns_mix_all_lengths(shape, gamma, lam):
    def definition(terminated, truncated, **d):
        found = []
        for t in range(len(terminated)):
            most = last_of(t, terminated, truncated) - t + 1
            parts = [
                n_step(t, n, gamma, terminated=terminated, truncated=truncated, **d)
                for n in range(1, most + 1)
            ]
            mixed = sum((1 - lam) * lam ** (n - 1) * parts[n - 1] for n in range(1, most))
            found.append(mixed + lam ** (most - 1) * parts[-1])
        return found

    d = rows(*shape)
    flags = d["terminated"], d["truncated"]
    rew, next_val = jnp.float32(d["rew"]), jnp.float32(d["next_val"])
    near(compiled.lambda_returns(rew, next_val, *flags, gamma, lam), by_column(definition, d))


@examples
@given(data, unit, st.integers(1, 6))
def test_n_step_returns_are_sums(shape, gamma, n):
    def definition(**d):
        return [n_step(t, n, gamma, **d) for t in range(len(d["rew"]))]

    d = rows(*shape)
    flags = d["terminated"], d["truncated"]
    rew, next_val = jnp.float32(d["rew"]), jnp.float32(d["next_val"])
    near(returns.n_step_returns(rew, next_val, *flags, gamma, n), by_column(definition, d))


@examples
@given(data, unit)
def test_reward_to_go_and_episode_return_are_sums(shape, gamma):
    def to_go(**d):
        return [n_step(t, 10**6, gamma, **d) for t in range(len(d["rew"]))]

    def whole(terminated, truncated, **d):
        d["next_val"] = 0 * d["rew"]
        ends = terminated | truncated
        starts = [max([k + 1 for k in range(t) if ends[k]], default=0) for t in range(len(ends))]
        return [
            n_step(s, 10**6, gamma, terminated=terminated, truncated=truncated, **d) for s in starts
        ]

    def so_far(rew, terminated, truncated, **_):
        ends = terminated | truncated
        starts = [max([k + 1 for k in range(t) if ends[k]], default=0) for t in range(len(ends))]
        return [
            sum(gamma ** (t - k) * rew[k] for k in range(s, t + 1)) for t, s in enumerate(starts)
        ]

    d = rows(*shape)
    flags = d["terminated"], d["truncated"]
    rew, next_val = jnp.float32(d["rew"]), jnp.float32(d["next_val"])
    near(compiled.reward_to_go(rew, next_val, *flags, gamma), by_column(to_go, d))
    near(compiled.episode_return(rew, *flags, gamma), by_column(whole, d))
    near(compiled.forward_sum(rew, *flags, gamma), by_column(so_far, d))


@examples
@given(data, unit, unit, st.floats(0.5, 2.0), st.floats(0.5, 2.0))
def test_vtrace_is_a_sum_of_weighted_errors(shape, gamma, lam, clip_rho, clip_c):
    def definition(rew, val, next_val, terminated, truncated, rho):
        delta = np.minimum(clip_rho, rho) * (rew + gamma * (1 - terminated) * next_val - val)
        c = lam * np.minimum(clip_c, rho)
        return [
            val[t] + sum(
                gamma ** (k - t) * np.prod(c[t:k]) * delta[k]
                for k in range(t, last_of(t, terminated, truncated) + 1)
            )
            for t in range(len(rew))
        ]  # fmt: skip

    def advantages(rew, val, next_val, terminated, truncated, rho):
        target = definition(rew, val, next_val, terminated, truncated, rho)
        later = [
            next_val[t] if last_of(t, terminated, truncated) == t else target[t + 1]
            for t in range(len(rew))
        ]
        return np.minimum(clip_rho, rho) * (rew + gamma * (1 - terminated) * later - val)

    d = rows(*shape)
    f = {k: jnp.float32(d[k]) for k in ("rew", "val", "next_val", "rho")}
    flags = {k: d[k] for k in ("terminated", "truncated")}
    target, adv = compiled.vtrace(
        **f, **flags, gamma=gamma, lam=lam, clip_rho=clip_rho, clip_c=clip_c
    )
    near(target, by_column(definition, d), 1e-4)
    near(adv, by_column(advantages, d), 1e-4)


def test_vtrace_equals_the_numbers_of_rlax():
    """The numbers are those of rlax's test: ratios of two softmax policies, two sequences."""
    behaviour = np.array([
        [[8.9, 0.7], [5.0, 1.0], [0.6, 0.1], [-0.9, -0.1]],
        [[0.3, -5.0], [1.0, -8.0], [0.3, 1.7], [4.7, 3.3]],
    ])  # fmt: skip
    target = np.array([
        [[0.4, 0.5], [9.2, 8.8], [0.7, 4.4], [7.9, 1.4]],
        [[1.0, 0.9], [1.0, -1.0], [-4.3, 8.7], [0.8, 0.3]],
    ])  # fmt: skip
    act = np.array([[0, 1, 0, 0], [1, 0, 0, 1]])[..., None]

    def logp(logits):
        logits = logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))
        return np.take_along_axis(logits, act, axis=-1)[..., 0]

    rho = np.exp(logp(target) - logp(behaviour))
    rew = np.array([[-1.3, -1.3, 2.3, 42.0], [1.3, 5.3, -3.3, -5.0]])
    gamma = np.array([[0.0, 0.89, 0.85, 0.99], [0.88, 1.0, 0.83, 0.95]])
    val = np.array([[2.1, 1.1, -3.1, 0.0, 8.4], [3.1, 0.1, -1.1, 7.4, -1.2]])
    rew, val, next_val, rho, gamma = (
        jnp.float32(x.T) for x in (rew, val[:, :-1], val[:, 1:], rho, gamma)
    )
    no = jnp.zeros((4, 2))
    found, _ = returns.vtrace(rew, val, next_val, no, no, rho, gamma)
    errors = [[-1.615514, -3.497322, 1.867053, 50.316], [1.466243, 3.61164, -0.000083, -13.54]]
    near((found - val).T, errors, 1e-4)


def test_a_long_rollout_is_as_exact_as_a_loop_in_float64():
    """4,000 steps of discount 0.999, cut three times."""
    rng = np.random.default_rng(0)
    rew, val, next_val = rng.normal(size=(3, 4_000)).astype(np.float32)
    ends = np.isin(np.arange(4_000), [999, 1_500, 3_100])
    got = compiled.gae(rew, val, next_val, ends, 0 * ends, 0.999, 0.99)
    wanted, last = np.zeros(4_000), 0.0
    for t in range(3_999, -1, -1):
        continues = 0.0 if ends[t] else 1.0
        delta = float(rew[t]) + 0.999 * continues * float(next_val[t]) - float(val[t])
        wanted[t] = last = delta + 0.999 * 0.99 * continues * last
    np.testing.assert_allclose(got, wanted, atol=2e-5 * np.abs(wanted).max())


def test_vtrace_on_policy_is_the_lambda_return():
    d = rows(3, 12, 2)
    f = [jnp.float32(d[k]) for k in ("rew", "val", "next_val")]
    flags = d["terminated"], d["truncated"]
    target, _ = compiled.vtrace(*f, *flags, jnp.ones((12, 2)), 0.9, 0.7)
    near(target, compiled.lambda_returns(f[0], f[2], *flags, 0.9, 0.7))


@examples
@given(data, unit, unit)
def test_retrace_is_a_sum_of_weighted_errors(shape, gamma, lam):
    def definition(rew, val, next_val, terminated, truncated, rho):
        delta = rew + gamma * (1 - terminated) * next_val - val  # val is Q(s, a) here
        c = lam * np.minimum(1.0, rho)
        return [
            val[t] + sum(
                gamma ** (k - t) * np.prod(c[t + 1 : k + 1]) * delta[k]
                for k in range(t, last_of(t, terminated, truncated) + 1)
            )
            for t in range(len(rew))
        ]  # fmt: skip

    d = rows(*shape)
    f = [jnp.float32(d[k]) for k in ("rew", "val", "next_val")]
    got = compiled.retrace(*f, d["terminated"], d["truncated"], jnp.float32(d["rho"]), gamma, lam)
    near(got, by_column(definition, d), 1e-4)


def test_integer_rewards_are_discounted_like_floats():
    rew, no = jnp.array([1, 2, 3]), jnp.zeros(3)
    near(returns.forward_sum(rew, no, no, 0.5), [1, 2.5, 4.25])
    near(returns.reward_to_go(rew, 0 * rew, no, no, 0.5), [2.75, 3.5, 3])


# --- errors -------------------------------------------------------------------------------------


def test_arrays_that_would_broadcast_are_refused():
    rew, column = jnp.zeros(4), jnp.zeros((4, 1))
    with pytest.raises(
        ValueError, match=r"^val must have the same shape as rew, \(4,\), got \(4, 1\)"
    ):
        returns.gae(rew, column, rew, rew, rew, 0.9, 0.9)
    with pytest.raises(ValueError, match=r"^terminated must have the same shape as rew"):
        returns.reward_to_go(rew, rew, jnp.zeros(3), rew, 0.9)
    for gamma in (jnp.ones(4), jnp.ones((4, 1))):
        with pytest.raises(ValueError, match=r"^gamma must be a number or have the shape of rew"):
            returns.gae(*[jnp.zeros((4, 4))] * 5, gamma, 0.9)
    with pytest.raises(ValueError, match=r"^rew must have shape \[T\] or \[T, N\]"):
        returns.reward_to_go(jnp.zeros(()), rew, rew, rew, 0.9)
    with pytest.raises(ValueError, match="^n must be an integer of at least 1, got 0"):
        returns.n_step_returns(rew, rew, rew, rew, 0.9, 0)
