"""`loss` and its parts."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen as nn

from purerl import algos, rng
from purerl.algos import dqn, ppo
from purerl.spaces import Discrete
from tests.cases import DISCRETE, make_rollout
from tests.contract.shared import (
    close,
    custom_networks,
    equal,
    evaluate,
    learner,
    traced_learner,
)


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


def test_a_number_as_terminated_is_a_chance_of_ending(case):
    """As in n-step returns, whose discount becomes part of `terminated`."""
    if case.on_policy or case.has_sequences:
        pytest.skip("its batches have no terminated")
    params, batch, found = learner(case).params, case.batch(), []
    batch = batch._replace(rew=0.01 * batch.rew)  # within the atoms of xqc
    for share in (0.0, 1.0, 0.25):
        terminated = np.full(6, share, np.float32)
        _, info, _ = evaluate(case.algo.critic_loss, params, batch._replace(terminated=terminated))
        found.append(info["target"])
    assert found[0] != found[1]
    np.testing.assert_allclose(found[2], 0.75 * found[0] + 0.25 * found[1], rtol=1e-4)


def test_loss_is_the_same_under_jit(case):
    params, batch = learner(case).params, case.batch()
    close(case.algo.loss(params, batch), evaluate(case.algo.loss, params, batch)[:2])


def test_noise_in_the_batch_replaces_the_noise_from_its_key(case):
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
    if not algos.get_facts(case.algo).splits_batches:
        pytest.skip("normalises by the statistics of the batch")
    params, batch = learner(case).params, case.noisy()
    whole, *halves = (
        evaluate(case.algo.loss, params, jax.tree.map(lambda x, s=s: x[s], batch))[2]
        for s in np.s_[:, :3, 3:]
    )
    close(whole, jax.tree.map(lambda a, b: (a + b) / 2, *halves))


@pytest.mark.parametrize("key", [0, None, np.zeros(2, np.uint32), jnp.zeros(2, jnp.uint32)])
def test_anything_but_a_typed_key_is_refused(case, key):
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


def test_batches_and_observations_of_other_types_are_refused(case, key):
    params, batch = learner(case).params, case.batch()
    kind, first = ("PolicyBatch", "adv") if case.on_policy else ("Batch", "rew")
    kind = "SequenceBatch" if case.has_sequences else kind
    with pytest.raises(ValueError, match=rf"^batch must be a purerl\.types\.{kind}, (as|got)"):
        case.algo.loss(params, tuple(batch))
    with pytest.raises(ValueError, match=rf"^batch\.{first} must have shape \[B"):
        case.algo.loss(params, batch._replace(**{first: np.float32(0)}))
    with pytest.raises(ValueError, match=r"^obs must be an array \[\.\.\., \*\(3,\)\]"):
        case.algo.act(params, [0.0, 0.0, 0.0], key)


def test_a_state_in_place_of_parameters_is_refused_and_vice_versa(case, key):
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


def test_actions_stay_32_bits_wide_where_jax_may_have_64(case, key):
    obs = np.zeros((2, *case.env.obs_shape), np.float32)
    with jax.enable_x64(True):
        params = traced_learner(case).params
        for args in ((case.algo.act, params, obs, key), (case.algo.policy, params, obs)):
            assert jax.eval_shape(*args).dtype == case.env.action.dtype


def test_networks_of_low_precision_give_losses_of_full_precision(case):
    networks = custom_networks(case, dtype=jnp.bfloat16)
    state = traced_learner(case, **networks)
    state, info = jax.eval_shape(case.algo.update, state, case.batch())
    assert {x.dtype.name for x in jax.tree.leaves((state.params, info))} == {"float32"}


def test_parameters_of_low_precision_keep_it(case):
    networks = custom_networks(case, "low precision")
    state = traced_learner(case, **networks)
    before = jax.tree.map(lambda x: x.dtype.name, state)
    for _ in range(2):
        state, _ = jax.eval_shape(case.algo.update, state, case.batch())
    assert jax.tree.map(lambda x: x.dtype.name, state) == before


def test_the_error_of_a_custom_network_names_it_and_its_inputs(case):
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
    if case.has_sequences:
        pytest.skip("a cut ends an episode inside of a sequence; its own tests say how")
    params, batch = learner(case).params, case.batch()
    flipped = batch._replace(truncated=~batch.truncated)
    equal(*(evaluate(case.algo.loss, params, rows)[:2] for rows in (batch, flipped)))


def test_a_loss_without_key_and_noise_is_refused_with_the_remedy(case):
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
    for field in batch._fields[: 7 if case.on_policy or case.has_sequences else 6]:
        for wrong in (getattr(batch, field)[..., None], getattr(batch, field)[:, None], None):
            broken = batch._replace(**{field: wrong})
            for part in (*case.parts, "loss"):
                with pytest.raises(ValueError, match=r"^batch\.\w+ must have shape"):
                    getattr(case.algo, part)(state.params, broken)
            with pytest.raises(ValueError, match=r"^batch\.\w+ must have shape"):
                case.algo.update(state, broken)
