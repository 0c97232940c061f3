"""`purerl.save` and `purerl.restore` return the same bits, or raise an error with the reason."""

import io
import zipfile

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import purerl
from purerl.algos import ppo, sac
from purerl.errors import ConfigError, Damaged
from tests.cases import BOX, CASES


@pytest.mark.parametrize("name", ["sac-auto", "ppo-options", "dqn-double"])
def test_a_restored_state_is_equal_in_every_bit_and_continues_equally(name, tmp_path):
    case = CASES[name]
    state, _ = case.algo.update(case.algo.init(jax.random.key(0), case.spec()), case.batch())
    purerl.save(tmp_path / "new" / "state.npz", state)
    like = case.algo.init(jax.random.key(1), case.spec())
    found = purerl.restore(tmp_path / "new" / "state.npz", like)
    assert jax.tree.structure(found) == jax.tree.structure(state)
    for a, b in zip(*map(jax.tree.leaves, (found, state)), strict=True):
        assert isinstance(a, jax.Array)
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)
    after = [case.algo.update(one, case.batch(seed=2))[0] for one in (found, state)]
    for a, b in zip(*map(jax.tree.leaves, after), strict=True):
        np.testing.assert_array_equal(a, b)


def test_numpy_arrays_and_low_precision_keep_their_type(tmp_path):
    tree = {"a": np.arange(3, dtype=np.int64), "b": (jnp.ones((2, 0)), jnp.bfloat16(1.5))}
    purerl.save(tmp_path / "x", tree)
    found = purerl.restore(tmp_path / "x", jax.tree.map(lambda x: x * 0, tree))
    assert type(found["a"]) is np.ndarray
    assert found["a"].dtype == np.int64
    assert found["b"][0].shape == (2, 0)
    assert found["b"][1].dtype == jnp.bfloat16
    assert float(found["b"][1]) == 1.5


def test_the_file_is_an_archive_that_numpy_opens_and_is_replaced_at_once(tmp_path):
    purerl.save(tmp_path / "x.npz", {"a": np.arange(3)})
    purerl.save(str(tmp_path / "x.npz"), {"a": np.arange(4)})
    assert [path.name for path in tmp_path.iterdir()] == ["x.npz"]
    with np.load(tmp_path / "x.npz") as found:
        np.testing.assert_array_equal(found["0"], np.arange(4))


def test_any_changed_byte_and_any_missing_end_are_noticed(tmp_path):
    path, like = tmp_path / "x.npz", {"a": np.arange(3), "b": np.ones(2)}
    purerl.save(path, like)
    content = path.read_bytes()
    for at in range(0, len(content), 7):
        path.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
        with pytest.raises(Damaged, match="its SHA-256 differs"):
            purerl.restore(path, like)
    for length in range(0, len(content), 11):
        path.write_bytes(content[:length])
        with pytest.raises(Damaged, match="its SHA-256 differs"):
            purerl.restore(path, like)


def test_missing_files_links_and_files_of_other_programs_are_refused(tmp_path):
    with pytest.raises(Damaged, match="is missing"):
        purerl.restore(tmp_path / "nothing", {})
    purerl.save(tmp_path / "x", {"a": np.ones(2)})
    (tmp_path / "link").symlink_to(tmp_path / "x")
    with pytest.raises(Damaged, match="not a regular file"):
        purerl.restore(tmp_path / "link", {"a": np.ones(2)})
    np.savez(tmp_path / "other.npz", a=np.ones(2))
    with pytest.raises(Damaged, match="SHA-256"):
        purerl.restore(tmp_path / "other.npz", {"a": np.ones(2)})


def test_a_sealed_archive_of_objects_runs_no_code(tmp_path):
    import hashlib

    stream = io.BytesIO()
    np.savez(stream, a=np.array([print], dtype=object))
    with zipfile.ZipFile(stream, "a") as archive:
        archive.comment = b"0" * 64
    content = stream.getvalue()[:-64]
    seal = hashlib.sha256(content).hexdigest().encode()
    (tmp_path / "x").write_bytes(content + seal)
    with pytest.raises(Damaged, match="is not a file of arrays"):
        purerl.restore(tmp_path / "x", {"a": np.ones(1)})


def test_other_arrays_are_named_with_both_shapes(tmp_path):
    wide, small = (sac.init(jax.random.key(0), sac.Spec(BOX, hidden=(n,))) for n in (8, 4))
    purerl.save(tmp_path / "x", wide)
    with pytest.raises(ConfigError, match=r"bias'\] is float32\[8\] in the file and float32\[4\]"):
        purerl.restore(tmp_path / "x", small)
    other = ppo.init(jax.random.key(0), ppo.Spec(BOX, hidden=(8,)))
    with pytest.raises(ConfigError, match=r"missing .*, and \d+ more\.$"):
        purerl.restore(tmp_path / "x", other)


def test_anything_but_arrays_is_refused_before_a_file_is_made(tmp_path):
    with pytest.raises(ConfigError, match=r"state\['a'\] must be an array, got 3"):
        purerl.save(tmp_path / "x", {"a": 3})
    for wrong in (np.complex64(1), np.array(["x"]), np.array([{}], object)):
        with pytest.raises(ConfigError, match=r"state\['a'\] is of type .* can be saved"):
            purerl.save(tmp_path / "x", {"a": wrong})
    with pytest.raises(ConfigError, match=r"is a PRNG key. Save jax\.random\.key_data"):
        purerl.save(tmp_path / "x", {"a": jax.random.key(0)})
    assert not list(tmp_path.iterdir())
