"""Networks: the default ones, custom ones, and those that `init` refuses."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import linen as nn

from purerl.spaces import Box
from tests.contract.shared import custom_networks, equal, learner


def test_custom_networks_see_images_and_learn(case):
    if getattr(case.spec(), "dropout", 0):
        pytest.skip("only default critics drop units")
    env = dataclasses.replace(case.env, obs_shape=(4, 4, 2), obs_dtype="uint8")
    image = case._replace(env=env)
    state = learner(image, **custom_networks(image))
    batch = image.batch()
    images = {name: np.uint8(x) for name, x in batch._asdict().items() if "obs" in name}
    batch = batch._replace(**images)
    new, info = case.algo.update(state, batch)
    assert np.isfinite(list(info.values())).all()
    assert case.algo.act(new.params, batch.obs, jax.random.key(0)).shape == batch.act.shape
    assert image.spec(**custom_networks(image)) == image.spec(**custom_networks(image))


def test_a_torso_lets_the_default_networks_read_images(case):
    env = dataclasses.replace(case.env, obs_shape=(36, 36, 1), obs_dtype="uint8")
    image = case._replace(env=env)
    fields = {field.name for field in dataclasses.fields(case.algo.Spec)}
    raw = {"normalise_obs": False} if "normalise_obs" in fields else {}
    spec = image.spec(torso="nature_cnn", **raw)
    state = jax.eval_shape(functools.partial(case.algo.init, spec=spec), jax.random.key(0))
    for name in case.networks:
        assert "NatureCNN_0" in str(jax.tree.structure(getattr(state.params, name))), name
    batch = image.batch()
    batch = batch._replace(obs=np.uint8(batch.obs))
    if not case.on_policy:
        batch = batch._replace(next_obs=np.uint8(batch.next_obs))
    new, _ = jax.eval_shape(case.algo.update, state, batch)
    assert jax.tree.map(jnp.shape, new.params) == jax.tree.map(jnp.shape, state.params)
    for leading in ((), (2,), (2, 3)):
        obs = jax.ShapeDtypeStruct((*leading, *env.obs_shape), np.uint8)
        act = jax.eval_shape(case.algo.act, state.params, obs, jax.random.key(0))
        assert act.shape == (*leading, *env.action.shape)


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        ("batch statistics", "must use the collections? 'params'.* only.*batch_stats"),
        ("dropout", "must draw no random numbers, but .*dropout.* make it deterministic"),
        ("integer parameter", "must have float parameters only, got int32"),
    ],
)
def test_custom_networks_must_be_pure_and_float(case, broken, message):
    for name, module in custom_networks(case, broken).items():
        with pytest.raises(ValueError, match=f"^{name} {message}"):
            learner(case, **{name: module})


def test_custom_networks_must_have_the_documented_output(case):
    for name, module in custom_networks(case, "width").items():
        with pytest.raises(
            ValueError, match=rf"^{name} must return \[B.*\], got .*\(3, \d\).* for B = 3"
        ):
            learner(case, **{name: module})


@dataclasses.dataclass(frozen=True)
class Plain:
    """A network that is not a Flax module, with the numbers of one."""

    module: nn.Module

    def init(self, key, *inputs):
        tree = self.module.init(key, *inputs)["params"]
        return [tree] if self.module.kind == "scalar" else {"running": tree}  # any tree, any name

    def apply(self, params, *inputs):
        tree = params[0] if self.module.kind == "scalar" else params["running"]
        return self.module.apply({"params": tree}, *inputs)


@dataclasses.dataclass
class Mutable:
    """A network that is compared by value, and therefore has no hash."""

    init = apply = Plain.apply


def test_an_object_with_init_and_apply_is_a_network(case):
    if getattr(case.spec(), "dropout", 0):
        pytest.skip("only default critics drop units")
    modules = custom_networks(case)
    plain = {name: Plain(module) for name, module in modules.items()}
    batch, results = case.batch(), []
    for networks in (modules, plain):
        state = learner(case, **networks)
        assert learner(case, **networks).params.spec == state.params.spec
        for _ in range(2):
            state, info = case.algo.update(state, batch)
        act = case.algo.act(state.params, batch.obs[:4], jax.random.key(0))
        results.append((jax.tree.leaves(state), info, act))
    equal(*results)


def test_custom_networks_must_be_hashable_and_have_init_and_apply(case):
    for name in case.networks:
        with pytest.raises(ValueError, match=f"^{name} must be hashable.*use tuples"):
            case.spec(**{name: nn.Sequential([nn.Dense(2), nn.tanh])})
        with pytest.raises(ValueError, match=f"^{name} must be hashable, .*Mutable .*frozen"):
            case.spec(**{name: Mutable()})
        for wrong in (lambda obs: obs, Plain, nn.Dense, optax.sgd(0.1)):
            with pytest.raises(ValueError, match=f"^{name} must be None, an instance of a flax.li"):
                case.spec(**{name: wrong})


def test_settings_of_the_default_networks_reach_each_of_them(case, key):
    def networks(**settings):
        params = learner(case, **settings).params
        return {name: jax.tree.leaves(getattr(params, name)) for name in case.networks}

    plain, batch = learner(case), case.batch()
    for name, leaves in networks(hidden=(5,)).items():
        assert {x.shape[1] for x in leaves if x.ndim == 2} >= {5}, name
    usual = plain.params.spec.initializer
    others = networks(initializer="lecun_normal" if usual == "orthogonal" else "orthogonal")
    for name, leaves in networks().items():
        for old, new in zip(leaves, others[name], strict=True):
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
