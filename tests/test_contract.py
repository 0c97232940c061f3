"""What docs/design.md promises of every algorithm, tested on each of them.

Compilation is most of the time, so `learner`, `jitted` and `evaluate` compile once for each case. A
test with programs of its own runs for one case of each algorithm in `make test`, and for all cases
in `make test-all`.
"""

import ast
import dataclasses
import functools
import inspect
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen as nn

from purerl import algos, mpi, rng
from purerl.algos import dqn, ppo
from purerl.buffers import replay
from purerl.nets import policies
from purerl.schedules import OffPolicySchedule, OnPolicySchedule
from purerl.spaces import Box, Discrete, EnvSpec
from purerl.types import Batch, PolicyBatch
from tests.cases import CASES, DISCRETE, Case, make_rollout

# One case of each algorithm, chosen to reach most of its lines.
REPRESENTATIVES = (
    "td3",
    "ddpg",
    "sac-auto",
    "dqn-double",
    "reinforce-discrete",
    "vpg-discrete",
    "trpo-box",
    "ppo-options",
)


def once_per_algorithm(test: Any) -> Any:
    """Mark all cases of a test but the representatives as `complete`."""
    test.once_per_algorithm = True
    return test


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run each test for every case, those of one algorithm in one worker."""
    once = hasattr(metafunc.function, "once_per_algorithm")
    params = []
    for name, case in CASES.items():
        marks = []
        if once and name not in REPRESENTATIVES:
            marks.append(pytest.mark.complete)
        params.append(pytest.param(case, id=name, marks=marks))
    metafunc.parametrize("case", params)


def equal(a: Any, b: Any) -> None:
    """Assert equal structure, dtypes and bits."""
    assert jax.tree.structure(a) == jax.tree.structure(b)
    for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        if jnp.issubdtype(x.dtype, jax.dtypes.prng_key):
            x, y = jax.random.key_data(x), jax.random.key_data(y)
        assert x.dtype == y.dtype
        np.testing.assert_array_equal(x, y)


def close(a: Any, b: Any, **tolerance: float) -> None:
    """Assert equal structure and nearly equal values."""
    assert jax.tree.structure(a) == jax.tree.structure(b)
    options = {"rtol": 1e-5, "atol": 1e-6} | tolerance
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, **options), a, b)


def host(tree: Any) -> Any:
    """Copy to NumPy what a later call might change."""
    return jax.tree.map(lambda x: np.array(x, copy=True), tree)


@functools.cache
def jitted(function: Any) -> Any:
    """Compile a function once for all tests."""
    return jax.jit(function)


@functools.cache
def _evaluated(loss: Any) -> Any:
    return jax.jit(jax.value_and_grad(loss, has_aux=True))


def evaluate(loss: Any, params: Any, batch: Any) -> Any:
    """Return a loss, its metrics and its gradient, from one program for all tests."""
    (value, info), grads = _evaluated(loss)(params, batch)
    return value, info, grads


@functools.cache
def _init(algo: Any) -> Any:
    return jax.jit(algo.init, static_argnums=1)


def learner(case: Case, seed: int = 0, **changes: Any) -> Any:
    """Return a new state; `init` is compiled for the settings that many tests share."""
    init = case.algo.init if changes else _init(case.algo)
    return init(jax.random.key(seed), case.spec(**changes))


# --- names and signatures -----------------------------------------------------------------------


def test_names_come_in_the_order_of_the_contract(case):
    order = ["Spec", "SCHEDULE", "NOISE_DRAWS", "Params", "State", "init", "act", "policy"]
    order += ["prepare"] if hasattr(case.algo, "prepare") else []
    order += [*case.parts, "loss", "update"]
    tree = ast.parse(inspect.getsource(case.algo))
    found = [
        node.targets[0].id if isinstance(node, ast.Assign) else node.name
        for node in tree.body
        if isinstance(node, ast.Assign | ast.ClassDef | ast.FunctionDef)
    ]
    assert [name for name in found if name in order] == order
    assert case.algo.__name__.removeprefix("purerl.algos.") in algos.NAMES
    assert isinstance(case.algo.SCHEDULE, OffPolicySchedule | OnPolicySchedule)


def test_arguments_are_those_of_the_contract(case):
    wanted = {"init": ["key", "spec"], "act": ["params", "obs", "key"]}
    wanted |= {"policy": ["params", "obs"], "update": ["state", "batch"]}
    wanted |= {name: ["params", "batch"] for name in (*case.parts, "loss")}
    for name, arguments in wanted.items():
        assert list(inspect.signature(getattr(case.algo, name)).parameters) == arguments, name


def test_the_file_is_flat_and_of_readable_length(case):
    source = inspect.getsource(case.algo)
    assert len(source.splitlines()) <= (450 if case.algo is algos.load("ppo") else 360)
    functions = [n for n in ast.walk(ast.parse(source)) if isinstance(n, ast.FunctionDef)]
    for node in functions:
        body = node.body[1:] if ast.get_docstring(node) else node.body
        assert node.end_lineno - body[0].lineno <= 40, node.name


# --- Spec ---------------------------------------------------------------------------------------


def test_spec_is_frozen_hashable_and_equal_by_value(case):
    assert case.spec() == case.spec()
    assert hash(case.spec()) == hash(case.spec())
    assert case.spec() != case.spec(gamma=0.5)
    with pytest.raises(dataclasses.FrozenInstanceError):
        case.spec().gamma = 0.5


@pytest.mark.parametrize(
    "value", [float("nan"), float("inf"), -1, "1", None, True, np.float32(0.5)]
)
def test_spec_refuses_bad_numbers_by_name(case, value):
    numbers = [f.name for f in dataclasses.fields(case.algo.Spec) if f.type in (int, float)]
    assert "gamma" in numbers
    for name in numbers:
        if name == "log_std_init" and value == -1:
            continue  # the one setting that may be negative
        with pytest.raises(ValueError, match=f"^{name} must be"):
            case.spec(**{name: value})


def test_spec_refuses_other_bad_fields_by_name(case):
    for name, value in {"hidden": [8, 8], "activation": "rleu", "initializer": "zeros"}.items():
        with pytest.raises(ValueError, match=f"^{name} must be"):
            case.spec(**{name: value})
    with pytest.raises(ValueError, match=r"^hidden\[1\] must be an integer of at least 1, got 0"):
        case.spec(hidden=(8, 0))
    with pytest.raises(ValueError, match="^env must be an EnvSpec"):
        case.algo.Spec(env="Pendulum-v1")


def test_spec_refuses_the_wrong_action_space(case):
    if case.wrong_env is None:
        pytest.skip("takes both kinds of action space")
    name = case.algo.__name__.rpartition(".")[2]
    with pytest.raises(ValueError, match=rf"^{name} needs a \w+ action space"):
        case.algo.Spec(case.wrong_env)


def test_spec_asks_for_flat_observations_and_names_the_wrapper(case):
    images = dataclasses.replace(case.env, obs_shape=(8, 8, 3), obs_dtype="uint8")
    with pytest.raises(ValueError, match=r"flat observations.*FlattenObservation"):
        case.algo.Spec(images)


def test_equal_specs_share_one_trace_of_update(case):
    case.algo.update(learner(case), case.batch())
    before = case.algo.update._cache_size()
    for seed in range(3):
        state = learner(case, seed)
        state = state.replace(params=dataclasses.replace(state.params, spec=case.spec()))
        for step in range(3):
            state, _ = case.algo.update(state, case.batch(seed=step))
    assert case.algo.update._cache_size() == before


# --- networks of one's own ----------------------------------------------------------------------


class Own(nn.Module):
    """A network for any of the fields: dense on all inputs, or broken on purpose."""

    kind: str
    dim: int
    broken: str = ""
    dtype: Any = jnp.float32

    @nn.compact
    def __call__(self, obs, *act):
        flat = obs.reshape(obs.shape[0], -1).astype(jnp.float32) / 255.0
        if self.broken == "batch statistics":
            flat = nn.BatchNorm(use_running_average=True)(flat)
        if self.broken == "dropout":
            flat = nn.Dropout(0.1, deterministic=False)(flat)
        if self.broken == "integer parameter":
            flat = flat + self.param("n", lambda key: jnp.zeros((), jnp.int32))
        width = self.dim + (self.broken == "width")
        low = jnp.bfloat16 if self.broken == "low precision" else jnp.float32
        dense = functools.partial(nn.Dense, dtype=self.dtype, param_dtype=low)
        x = jnp.concatenate([flat, *act], axis=-1)
        x = dense(1 if self.kind == "scalar" else width)(x)
        if self.kind == "gaussian":
            return x, dense(width)(flat)
        if self.kind == "scalar" and self.broken != "width":
            return x[:, 0]
        return jnp.tanh(x) if self.kind == "unit" else x


def own(case: Case, broken: str = "", dtype: Any = jnp.float32) -> dict[str, nn.Module]:
    dim = case.env.act_dim
    return {name: Own(kind, dim, broken, dtype) for name, kind in case.networks.items()}


@once_per_algorithm
def test_own_networks_see_images_and_learn(case):
    env = dataclasses.replace(case.env, obs_shape=(4, 4, 2), obs_dtype="uint8")
    image = case._replace(env=env)
    state = learner(image, **own(image))
    batch = image.batch()
    images = {name: np.uint8(x) for name, x in batch._asdict().items() if "obs" in name}
    batch = batch._replace(**images)
    new, info = case.algo.update(state, batch)
    assert np.isfinite(list(info.values())).all()
    assert case.algo.act(new.params, batch.obs, jax.random.key(0)).shape == batch.act.shape
    assert image.spec(**own(image)) == image.spec(**own(image))


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        ("batch statistics", "must use the collection 'params' only.*batch_stats"),
        ("dropout", "must draw no random numbers, but .*dropout.* make it deterministic"),
        ("integer parameter", "must have float parameters only, got int32"),
    ],
)
def test_own_networks_must_be_pure_and_float(case, broken, message):
    for name, module in own(case, broken).items():
        with pytest.raises(ValueError, match=f"^{name} {message}"):
            learner(case, **{name: module})


def test_own_networks_must_have_the_documented_output(case):
    for name, module in own(case, "width").items():
        with pytest.raises(
            ValueError, match=rf"^{name} must return \[B.*\], got .*\(3, \d\).* for B = 3"
        ):
            learner(case, **{name: module})


def test_own_networks_must_be_hashable_modules(case):
    for name in case.networks:
        with pytest.raises(ValueError, match=f"^{name} must be hashable.*use tuples"):
            case.spec(**{name: nn.Sequential([nn.Dense(2), nn.tanh])})
        with pytest.raises(ValueError, match=f"^{name} must be an instance of a flax.linen module"):
            case.spec(**{name: lambda obs: obs})


@once_per_algorithm
def test_settings_of_the_default_networks_reach_each_of_them(case, key):
    def networks(**settings):
        params = learner(case, **settings).params
        return {name: jax.tree.leaves(getattr(params, name)) for name in case.networks}

    plain, batch = learner(case), case.batch()
    for name, leaves in networks(hidden=(5,)).items():
        assert {x.shape[1] for x in leaves if x.ndim == 2} >= {5}, name
    orthogonal = networks(initializer="orthogonal")
    for name, leaves in networks().items():
        for old, new in zip(leaves, orthogonal[name], strict=True):
            assert old.ndim < 2 or bool((old != new).any()), name
    style = "tanh" if plain.params.spec.activation == "relu" else "relu"
    other = learner(case, activation=style).params
    for part in case.parts:
        loss = getattr(case.algo, part)
        if part != "alpha_loss":  # it is 0 for a temperature that is fixed, or 1
            assert loss(plain.params, batch)[0] != loss(other, batch)[0], part
    fields = {field.name for field in dataclasses.fields(case.algo.Spec)}
    if "log_std_init" in fields and isinstance(case.env.action, Box):
        assert any((x == -1.25).all() for x in networks(log_std_init=-1.25)["actor"])
    if "head_scale" in fields:
        quiet = networks(head_scale=1e-6)["actor"]
        assert any(x.ndim == 2 and jnp.abs(x).max() < 1e-5 for x in quiet)


# --- init ---------------------------------------------------------------------------------------


def test_init_is_pure_and_makes_float_parameters(case):
    state = case.algo.init(jax.random.key(0), case.spec())
    equal(state, case.algo.init(jax.random.key(0), case.spec()))
    close(state, learner(case))
    for leaf in jax.tree.leaves(state.params):
        assert leaf.dtype == jnp.float32
    a, b = learner(case, 0).params, learner(case, 1).params
    kernels = [
        x for x in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True) if x[0].ndim == 2
    ]
    assert all(bool((x != y).any()) for x, y in kernels)


def test_no_two_networks_start_equal_and_targets_are_copies(case):
    params = case.algo.init(jax.random.key(0), case.spec()).params
    fields = {f.name: getattr(params, f.name) for f in dataclasses.fields(params)}
    for name, tree in fields.items():
        if name.startswith("target_"):
            equal(tree, fields[name.removeprefix("target_")])
    if isinstance(fields.get("critic"), tuple):
        first, second = (jax.tree.leaves(tree)[-1] for tree in fields["critic"])
        assert bool((first != second).any())
    buffers = [leaf.unsafe_buffer_pointer() for leaf in jax.tree.leaves(params)]
    assert len(set(buffers)) == len(buffers)


# --- act and policy -----------------------------------------------------------------------------


@pytest.mark.parametrize("leading", [(), (4,), (2, 3)])
def test_act_takes_any_leading_axes_numpy_or_jax(case, leading, key):
    params = learner(case).params
    obs = np.random.default_rng(0).normal(size=(*leading, *case.env.obs_shape)).astype(np.float32)
    for fn in (case.algo.policy, lambda p, o: case.algo.act(p, o, key)):
        out = fn(params, obs)
        assert out.shape == (*leading, *case.env.action.shape)
        assert out.dtype == case.env.action.dtype
        equal(out, fn(params, jnp.asarray(obs)))
    rows = obs.reshape(-1, *case.env.obs_shape)
    one_by_one = np.stack([case.algo.policy(params, row) for row in rows])
    np.testing.assert_allclose(
        one_by_one, np.reshape(case.algo.policy(params, obs), one_by_one.shape), atol=1e-6
    )


def test_act_explores_by_its_key_and_stays_inside_the_box(case):
    params = learner(case, **case.explore).params
    obs = np.zeros((500, *case.env.obs_shape), np.float32)
    first, again, other = (case.algo.act(params, obs, jax.random.key(k)) for k in (0, 0, 1))
    equal(first, again)
    assert bool((first != other).any())
    first = np.asarray(first)
    if not isinstance(case.env.action, Box):
        start = case.env.action.start
        assert sorted(set(first.tolist())) == list(range(start, start + case.env.act_dim))
        return
    low, high = np.float32(case.env.action.low), np.float32(case.env.action.high)
    if not case.on_policy:  # a Gaussian policy may leave the box: the loop clips a copy
        assert (first >= low).all()
        assert (first <= high).all()
    assert (np.ptp(first, axis=0) > 0.97 * (high - low)).all()  # and both ends are reached


def test_policy_stays_inside_the_box(case):
    if not isinstance(case.env.action, Box):
        pytest.skip("no box")
    params = learner(case).params
    far = 1e3 * np.random.default_rng(0).normal(size=(50, 3)).astype(np.float32)
    big = dataclasses.replace(params, actor=jax.tree.map(lambda x: 10 * x, params.actor))
    out = np.asarray(case.algo.policy(big, far))
    assert (out >= np.float32(case.env.action.low)).all()
    assert (out <= np.float32(case.env.action.high)).all()


def test_act_refuses_observations_of_the_wrong_shape(case, key):
    params = learner(case).params
    wrong = np.zeros((5, case.env.obs_shape[0] + 1), np.float32)
    for fn in (case.algo.policy, lambda p, o: case.algo.act(p, o, key)):
        with pytest.raises(
            ValueError, match=r"^obs must have shape \[\.\.\., \*\(3,\)\], got \(5, 4\)"
        ):
            fn(params, wrong)


# --- losses -------------------------------------------------------------------------------------


def test_loss_is_a_finite_scalar_with_flat_scalar_metrics(case):
    value, info, _ = evaluate(case.algo.loss, learner(case).params, case.batch())
    assert value.shape == ()
    assert np.isfinite(value)
    assert info
    for name, metric in info.items():
        assert jnp.shape(metric) == (), name
        assert np.isfinite(metric), name


def test_loss_and_gradient_are_the_sums_of_the_named_losses(case):
    params, batch = learner(case).params, case.batch()
    parts = [getattr(case.algo, name) for name in case.parts]
    values, _, grads = zip(*(evaluate(part, params, batch) for part in parts), strict=True)
    value, _, grad = evaluate(case.algo.loss, params, batch)
    close(value, sum(values))
    close(grad, jax.tree.map(lambda *g: sum(g), *grads))


def test_each_loss_moves_its_own_parameters_and_nothing_else(case):
    params, batch = learner(case).params, case.batch()
    for part in case.parts:
        grads = evaluate(getattr(case.algo, part), params, batch)[2]
        for field in dataclasses.fields(params):
            if field.name == "spec":
                continue
            leaves = jax.tree.leaves(getattr(grads, field.name))
            moved = any(bool((leaf != 0).any()) for leaf in leaves)
            assert moved == (field.name in case.owns[part]), (part, field.name)


def test_loss_is_the_same_under_jit(case):
    params, batch = learner(case).params, case.batch()
    close(case.algo.loss(params, batch), evaluate(case.algo.loss, params, batch)[:2])


def test_noise_in_the_batch_replaces_the_draw_from_its_key(case):
    if not case.algo.NOISE_DRAWS:
        pytest.skip("draws no noise")
    params, batch = learner(case).params, case.batch()
    noise = rng.noise(batch, case.algo.NOISE_DRAWS, case.env.act_dim)
    drawn, injected, other = (
        evaluate(case.algo.loss, params, rows)
        for rows in (
            batch,
            batch._replace(key=None, noise=noise),
            batch._replace(key=None, noise=noise + 1.0),
        )
    )
    close(drawn[:2], injected[:2])
    assert other[0] != drawn[0]


def test_halves_of_a_batch_with_noise_average_to_the_whole(case):
    params, batch = learner(case).params, case.noisy()
    whole, *halves = (
        evaluate(case.algo.loss, params, jax.tree.map(lambda x, s=s: x[s], batch))[2]
        for s in np.s_[:, :3, 3:]
    )
    close(whole, jax.tree.map(lambda a, b: (a + b) / 2, *halves))


@pytest.mark.parametrize("key", [0, None, np.zeros(2, np.uint32), jnp.zeros(2, jnp.uint32)])
def test_what_is_no_key_is_refused(case, key):
    params, obs = learner(case).params, np.zeros(case.env.obs_shape, np.float32)
    with pytest.raises(
        ValueError, match=r"^key must be one typed key such as jax\.random\.key\(0\)"
    ):
        case.algo.init(key, case.spec())
    with pytest.raises(ValueError, match="^key must be one typed key"):
        case.algo.act(params, obs, key)
    if case.algo.NOISE_DRAWS and key is not None:
        with pytest.raises(ValueError, match=r"^batch\.key must be one typed key"):
            case.algo.loss(params, case.batch()._replace(key=key))


def test_a_batch_must_be_one_and_observations_arrays(case, key):
    params, batch = learner(case).params, case.batch()
    kind, first = ("PolicyBatch", "adv") if case.on_policy else ("Batch", "rew")
    with pytest.raises(ValueError, match=rf"^batch must be a purerl\.types\.{kind}, (as|got)"):
        case.algo.loss(params, tuple(batch))
    with pytest.raises(ValueError, match=rf"^batch\.{first} must have shape \[B\]"):
        case.algo.loss(params, batch._replace(**{first: np.float32(0)}))
    with pytest.raises(ValueError, match=r"^obs must be an array \[\.\.\., \*\(3,\)\]"):
        case.algo.act(params, [0.0, 0.0, 0.0], key)


def test_a_state_for_its_parameters_is_refused_and_the_other_way_round(case, key):
    state, batch = learner(case), case.batch()
    obs, module = np.zeros(case.env.obs_shape, np.float32), case.algo.__name__.rpartition(".")[2]
    calls = [
        lambda params: case.algo.act(params, obs, key),
        lambda params: case.algo.policy(params, obs),
        *(
            lambda params, name=name: getattr(case.algo, name)(params, batch)
            for name in (*case.parts, "loss")
        ),
    ]
    if case.on_policy:
        calls.append(lambda params: case.algo.prepare(params, make_rollout(case.env)))
    for call in calls:
        with pytest.raises(
            ValueError, match=rf"^params must be .*, got a {module}\.State\. Pass state\.params\."
        ):
            call(state)
    with pytest.raises(ValueError, match=rf"^state must be the State.*, got a {module}\.Params\."):
        case.algo.update(state.params, batch)


def test_settings_of_another_algorithm_are_refused(case, key):
    module = case.algo.__name__.rpartition(".")[2]
    other = dqn.Spec(DISCRETE) if case.algo is not dqn else ppo.Spec(DISCRETE)
    for wrong, got in ((other, r"a \w+\.Spec"), (case.env, r"a purerl\.spaces\.EnvSpec"), (3, "3")):
        with pytest.raises(ValueError, match=rf"^spec must be a {module}\.Spec, got {got}\."):
            case.algo.init(key, wrong)


@once_per_algorithm
def test_actions_stay_32_bits_wide_where_jax_may_have_64(case, key):
    obs = np.zeros((2, *case.env.obs_shape), np.float32)
    with jax.enable_x64(True):
        params = learner(case).params
        assert case.algo.act(params, obs, key).dtype == case.env.action.dtype
        assert case.algo.policy(params, obs).dtype == case.env.action.dtype


@once_per_algorithm
def test_networks_of_low_precision_give_losses_of_full_precision(case):
    networks = own(case, dtype=jnp.bfloat16)
    state, info = case.algo.update(learner(case, **networks), case.batch())
    assert {jnp.result_type(x).name for x in jax.tree.leaves((state.params, info))} == {"float32"}


@once_per_algorithm
def test_parameters_of_low_precision_keep_it(case):
    networks = own(case, "low precision")
    state = learner(case, **networks)
    before = jax.tree.map(lambda x: x.dtype.name, state)
    for _ in range(2):
        state, _ = case.algo.update(state, case.batch())
    assert jax.tree.map(lambda x: x.dtype.name, state) == before


def test_own_networks_that_raise_are_named_with_their_inputs(case):
    class Picky(nn.Module):
        @nn.compact
        def __call__(self, *inputs):
            raise KeyError("no such layer")

    for name in case.networks:
        with pytest.raises(ValueError, match=rf"^{name} must accept .* \(3, 3\).*KeyError"):
            learner(case, **{name: Picky()})


def test_loss_ignores_truncation(case):
    if case.on_policy:
        pytest.skip("its rows have no flags; tests of prepare say what a cut does")
    params, batch = learner(case).params, case.batch()
    flipped = batch._replace(truncated=~batch.truncated)
    equal(*(evaluate(case.algo.loss, params, rows)[:2] for rows in (batch, flipped)))


def test_loss_without_key_and_noise_says_what_to_do(case):
    if not case.algo.NOISE_DRAWS:
        pytest.skip("draws no noise")
    with pytest.raises(ValueError, match=r"needs batch\.key or batch\.noise.*batch\._replace"):
        case.algo.loss(learner(case).params, case.batch(key=None))
    batch = case.batch()._replace(noise=np.zeros((6, 9, 9), np.float32))
    with pytest.raises(
        ValueError, match=r"batch\.noise must have shape \(6, \d, 2\), got shape \(6, 9"
    ):
        case.algo.loss(learner(case).params, batch)


def test_actions_of_a_discrete_space_must_be_integers(case):
    if not isinstance(case.env.action, Discrete):
        pytest.skip("a box")
    batch = case.batch()
    batch = batch._replace(act=np.asarray(batch.act, np.float32))
    for part in (*case.parts, "loss"):
        with pytest.raises(ValueError, match=r"batch\.act must hold integers, got float32"):
            getattr(case.algo, part)(learner(case).params, batch)


def test_loss_and_update_refuse_wrong_shapes_by_name(case):
    state, batch = learner(case), case.batch()
    for field in batch._fields[: 7 if case.on_policy else 6]:
        for wrong in (getattr(batch, field)[..., None], getattr(batch, field)[:, None], None):
            broken = batch._replace(**{field: wrong})
            for part in (*case.parts, "loss"):
                with pytest.raises(ValueError, match=r"^batch\.\w+ must have shape"):
                    getattr(case.algo, part)(state.params, broken)
            with pytest.raises(ValueError, match=r"^batch\.\w+ must have shape"):
                case.algo.update(state, broken)


# --- update -------------------------------------------------------------------------------------


@once_per_algorithm
def test_update_changes_neither_its_inputs_nor_its_answer(case):
    state, batch = learner(case), case.batch()
    before = host((state, batch._replace(key=None)))
    first = case.algo.update(state, batch)
    second = case.algo.update(state, batch)
    equal(first, second)
    equal(before, host((state, batch._replace(key=None))))
    with jax.disable_jit():
        close(first[0], case.algo.update(state, batch)[0], rtol=1e-3, atol=1e-5)


def test_update_keeps_structure_and_dtypes_and_counts(case):
    state = learner(case)
    new, info = case.algo.update(state, case.batch())
    assert jax.tree.structure(new) == jax.tree.structure(state)
    for a, b in zip(jax.tree.leaves(new), jax.tree.leaves(state), strict=True):
        assert (a.shape, a.dtype, a.weak_type) == (b.shape, b.dtype, b.weak_type)
    assert int(new.step) == int(state.step) + 1
    for name, metric in info.items():
        assert jnp.shape(metric) == (), name
        if name.endswith("_count"):
            assert float(metric) in (0.0, 1.0)
            assert name.removesuffix("_count") in info


def test_optimisers_remember_every_step(case):
    """An Adam that starts anew at each update takes steps of full size for ever."""
    free = {"target_kl": None} if hasattr(case.spec(), "target_kl") else {}
    state = start = learner(case, **free)
    for seed in range(3):
        state, _ = case.algo.update(state, case.batch(seed=seed))
    spec, owned = state.params.spec, [name for names in case.owns.values() for name in names]
    passes = {"actor": "train_pi_iters", "critic": "train_v_iters"}
    for name, opt in state.opt_state.items():
        steps = 3 * getattr(spec, passes.get(name, ""), 1)
        if name == "actor":
            steps = math.ceil(steps / getattr(spec, "policy_delay", 1))
        before, after = jax.tree.leaves(start.opt_state[name]), jax.tree.leaves(opt)
        assert [int(x) for x in after if jnp.issubdtype(x.dtype, jnp.integer)] == [steps], name
        if name in owned:
            assert all(bool((x != y).any()) for x, y in zip(before, after, strict=True)), name


def test_metrics_not_computed_are_zero_and_not_counted(case):
    state, seen = learner(case), set()
    for seed in range(4):
        state, info = case.algo.update(state, case.batch(seed=seed))
        for name in [n.removesuffix("_count") for n in info if n.endswith("_count")]:
            seen.add((name, float(info[f"{name}_count"])))
            if info[f"{name}_count"] == 0:
                assert info[name] == 0
    assert all((name, 1.0) in seen for name, _ in seen)


@once_per_algorithm
def test_update_works_under_scan_as_in_a_loop(case):
    batches = [case.batch(seed=s, key=None)._replace(key=jax.random.key(s)) for s in range(4)]
    state = scanned = learner(case)
    for batch in batches:
        state, _ = case.algo.update(state, batch)
    stacked = jax.tree.map(lambda *x: jnp.stack(x), *batches)
    scanned, _ = jax.lax.scan(case.algo.update, scanned, stacked)
    close(state, scanned, rtol=1e-4)


@once_per_algorithm
def test_update_works_under_vmap_over_seeds(case):
    batches = [case.batch(seed=s) for s in range(3)]
    keys = jax.random.split(jax.random.key(7), 3)
    states = jax.vmap(lambda k: case.algo.init(k, case.spec()))(keys)
    stacked = jax.tree.map(lambda *x: jnp.stack(x), *batches)
    many = states
    for _ in range(3):
        many, _ = jax.vmap(case.algo.update)(many, stacked)
    for i, batch in enumerate(batches):
        one = jax.tree.map(lambda x, i=i: x[i], states)
        for _ in range(3):
            one, _ = case.algo.update(one, batch)
        close(jax.tree.map(lambda x, i=i: x[i], many), one, rtol=1e-3, atol=1e-4)


@once_per_algorithm
def test_a_caller_may_donate_the_state(case):
    state, batch = learner(case), case.batch()
    expected, _ = case.algo.update(state, batch)
    donating = jax.jit(lambda s, b: case.algo.update(s, b), donate_argnums=0)
    new, _ = donating(state, batch)
    close(new, expected)
    # Whatever `update` reads; what it only writes, such as epsilon, has nothing to give away.
    read = ([getattr(state.params, name) for name in case.networks], state.opt_state, state.step)
    assert all(leaf.is_deleted() for leaf in jax.tree.leaves(read))


@once_per_algorithm
def test_devices_with_parts_of_a_batch_agree_on_the_whole_update(case):
    state, batch = learner(case), case.noisy()
    parts = jax.tree.map(lambda x: x.reshape(2, 3, *x.shape[1:]), batch)
    split = jax.vmap(case.algo.update, in_axes=(None, 0), axis_name=mpi.AXIS)
    many, _ = split(state, parts)
    one, _ = case.algo.update(state, batch)
    for i in range(2):
        close(jax.tree.map(lambda x, i=i: x[i], many), one, rtol=1e-4, atol=3e-5)


def test_update_on_one_process_holds_no_collective_and_no_callback(case):
    text = str(jax.make_jaxpr(case.algo.update)(learner(case), case.batch()))
    assert "callback" not in text
    assert "psum" not in text


def test_update_takes_what_replay_samples(case, key):
    if case.on_policy:
        pytest.skip("takes what prepare makes")
    buffer = replay.init(case.env.example(), 16)
    rows = case.batch(size=8)
    buffer = replay.add(buffer, type(case.env.example())(*rows[:6]))
    batch = replay.sample(buffer, key, 6)
    assert isinstance(batch, Batch)
    case.algo.update(learner(case), batch)


# --- prepare ------------------------------------------------------------------------------------


def prepared(case: Case, rollout: Any = None, **changes: Any) -> PolicyBatch:
    if not case.on_policy:
        pytest.skip("off-policy")
    rollout = make_rollout(case.env) if rollout is None else rollout
    return jitted(case.algo.prepare)(learner(case, **changes).params, rollout)


def test_update_takes_what_prepare_makes(case, key):
    batch = prepared(case)._replace(key=key)
    state, info = case.algo.update(learner(case), batch)
    assert np.isfinite(list(info.values())).all()
    assert all(np.isfinite(x).all() for x in jax.tree.leaves(state.params))


def test_prepare_flattens_steps_of_all_environments(case):
    rollout = make_rollout(case.env)
    batch = prepared(case, rollout)
    np.testing.assert_array_equal(batch.obs, rollout.obs.reshape(10, 3))
    np.testing.assert_array_equal(batch.act, rollout.act.reshape(10, *case.env.action.shape))
    equal(batch.rollout, jax.tree.map(jnp.asarray, rollout))
    assert batch.key is None
    for field in batch[2:7]:
        assert field.shape == (10,)
        assert field.dtype == jnp.float32


def test_weights_have_mean_one_and_standardised_advantages_mean_zero(case):
    batch = prepared(case)
    assert float(batch.weight.mean()) == pytest.approx(1.0, abs=1e-6)
    mean = float((batch.weight * batch.adv).mean())
    assert mean == pytest.approx(0.0, abs=1e-6)
    assert float((batch.weight * batch.adv**2).mean()) == pytest.approx(1.0, abs=1e-5)


def test_the_losses_start_at_the_policy_that_acted(case):
    batch = prepared(case)
    params = learner(case).params
    dist = case.algo.distribution(params, batch.obs)
    close(batch.logp, policies.log_prob(case.env, dist, batch.act))


def test_rows_of_weight_zero_count_for_nothing(case):
    """But for `val`, the mean of all values, and running statistics: of all observations."""
    if not case.on_policy:
        pytest.skip("off-policy")
    batch, other = case.batch(), case.batch(seed=7)
    out = np.array([False, True, False, False, True, False])
    batch = batch._replace(weight=np.where(out, np.float32(0.0), batch.weight))
    garbage = {
        name: np.where(out.reshape(-1, *[1] * (x.ndim - 1)), getattr(other, name) * scale, x)
        for name, x, scale in zip(batch._fields, batch[:6], (9, 1, 9, 9, 1, 9), strict=False)
    }
    state, found = learner(case), []
    for rows in (batch, batch._replace(**garbage)):
        new, info = case.algo.update(state, rows)
        trained = {name: getattr(new.params, name) for name in case.networks}
        found.append((trained, new.opt_state, info | {"val": 0.0}))
    close(*found, rtol=1e-6, atol=1e-7)


def test_environments_side_by_side_do_not_mix(case):
    rollout = make_rollout(case.env)
    whole = prepared(case, rollout)
    for i in range(2):
        one = prepared(case, jax.tree.map(lambda x, i=i: x[:, i : i + 1], rollout))
        close(whole.ret.reshape(5, 2)[:, i], one.ret)
        close(whole.logp.reshape(5, 2)[:, i], one.logp)


def test_ranks_with_parts_of_a_rollout_agree_on_the_whole(case):
    rollout = make_rollout(case.env, number=4)
    whole = prepared(case, rollout)
    params = learner(case).params
    parts = jax.tree.map(lambda x: jnp.stack([x[:, :2], x[:, 2:]]), rollout)
    split = jax.vmap(case.algo.prepare, in_axes=(None, 0), axis_name=mpi.AXIS)(params, parts)
    for field in ("adv", "ret", "logp", "val", "weight"):
        both = getattr(split, field).reshape(2, 5, 2)
        close(getattr(whole, field).reshape(5, 4), jnp.concatenate([*both], axis=1))


def test_prepare_refuses_wrong_shapes_by_name(case):
    if not case.on_policy:
        pytest.skip("off-policy")
    params, rollout = learner(case).params, make_rollout(case.env)
    for field in rollout._fields:
        for wrong in (getattr(rollout, field)[..., None], getattr(rollout, field)[0], None):
            with pytest.raises(ValueError, match=r"^rollout\.\w+ must have shape"):
                case.algo.prepare(params, rollout._replace(**{field: wrong}))
    with pytest.raises(ValueError, match=r"^rollout must be a purerl\.types\.Rollout, got"):
        case.algo.prepare(learner(case).params, tuple(rollout))


@once_per_algorithm
def test_constant_rewards_give_no_nan(case):
    rollout = make_rollout(case.env)
    flat = rollout._replace(rew=0 * rollout.rew, terminated=rollout.terminated | True)
    batch = prepared(case, flat, gamma=0.0)
    state, info = case.algo.update(learner(case, gamma=0.0), batch._replace(adv=0 * batch.adv))
    assert np.isfinite(
        [float(x) for x in jax.tree.leaves((batch[2:7], info)) for x in x.ravel()]
    ).all()
    assert all(np.isfinite(x).all() for x in jax.tree.leaves(state.params))


@once_per_algorithm
def test_results_do_not_depend_on_how_a_box_is_scaled(case):
    if not isinstance(case.env.action, Box):
        pytest.skip("no box")
    unit = EnvSpec(case.env.obs_shape, Box((-1.0, -1.0), (1.0, 1.0)))
    batch = case.batch()
    scaled, plain = learner(case), learner(case._replace(env=unit))
    same = batch._replace(act=case.env.normalise(batch.act))
    for _ in range(3):
        scaled, _ = case.algo.update(scaled, batch)
        plain, _ = case.algo.update(plain, same)
    strip = lambda s: dataclasses.replace(s.params, spec=None)  # noqa: E731
    close(strip(scaled), strip(plain), rtol=1e-3, atol=1e-5)
