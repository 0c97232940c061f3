"""Replay buffer, compared with a Python list, and its errors."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from purerl.buffers import replay
from purerl.spaces import Box, EnvSpec
from purerl.types import Batch, Transition

ROW = {"n": np.zeros((), np.int32), "x": np.zeros((2,), np.float32)}
add = jax.jit(replay.add)


def rows(numbers, size):
    """Return a block of `size` rows with these numbers, and with -1 in all further rows."""
    n = np.full(size, -1, np.int32)
    n[: len(numbers)] = numbers
    return {"n": n, "x": np.stack([n, 2 * n], axis=1).astype(np.float32)}


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 17), st.lists(st.integers(0, 9), max_size=12), st.sampled_from([4, 9]))
def test_the_ring_contains_the_same_rows_as_a_list(capacity, counts, size):
    """Capacities are 1 to 17. Blocks may be empty or larger than the ring."""
    buffer, model, next_row, position = replay.init(ROW, capacity), [], 0, 0
    slots = [None] * capacity
    for count in counts:
        count = min(count, size)
        numbers = list(range(next_row, next_row + count))
        buffer = add(buffer, rows(numbers, size), count)
        model = (model + numbers)[-capacity:]
        for number in numbers:
            slots[position % capacity] = number
            position += 1
        next_row += count
        assert int(replay.size(buffer)) == len(model)
        assert int(buffer.position) == position % capacity
    for slot, number in enumerate(slots):
        if number is not None:
            assert int(buffer.data["n"][slot]) == number
            assert buffer.data["x"][slot].tolist() == [number, 2 * number]
    if model:
        drawn = replay.sample(buffer, jax.random.key(0), 1)
        assert int(drawn["n"][0]) in model


def test_add_needs_no_count_for_a_full_block():
    buffer = replay.add(replay.init(ROW, 5), rows([0, 1, 2], 3))
    assert int(replay.size(buffer)) == 3


def test_every_stored_row_is_sampled_equally_often_and_no_other():
    buffer = add(replay.init(ROW, 64), rows(range(8), 9), 8)
    drawn = np.asarray(jax.jit(replay.sample, static_argnums=2)(buffer, jax.random.key(0), 64)["n"])
    for seed in range(1, 100):
        more = jax.jit(replay.sample, static_argnums=2)(buffer, jax.random.key(seed), 64)["n"]
        drawn = np.concatenate([drawn, more])
    counts = np.bincount(drawn, minlength=8)
    assert counts.sum() == 6400
    assert len(counts) == 8
    # Chi-square with 7 degrees of freedom: 24.3 is exceeded once in a thousand.
    assert ((counts - 800) ** 2 / 800).sum() < 24.3


def test_the_rows_of_a_sample_are_independent():
    """Of 2**16 rows, 64 are all different with probability 97 %, as they are with these keys."""
    buffer = replay.add(replay.init({"n": np.int32(0)}, 2**16), {"n": np.arange(2**16, dtype="i4")})
    for seed in range(3):
        drawn = np.asarray(replay.sample(buffer, jax.random.key(seed), 64)["n"])
        assert len(np.unique(drawn)) == 64
        assert len(np.unique(np.diff(np.sort(drawn)))) > 50  # and they have no pattern


def test_rows_stay_together():
    buffer = add(replay.init(ROW, 64), rows(range(9), 9))
    drawn = replay.sample(buffer, jax.random.key(3), 9)
    np.testing.assert_array_equal(drawn["x"][:, 1], 2 * drawn["n"])


def test_the_key_determines_the_sample_and_is_split():
    example = EnvSpec((3,), Box((-1.0,), (1.0,))).example()
    block = jax.tree.map(lambda x: np.zeros((8, *x.shape), x.dtype), example)
    block = block._replace(rew=np.arange(8, dtype=np.float32))
    buffer = replay.add(replay.init(example, 8), block)
    first, again, other = (replay.sample(buffer, jax.random.key(k), 8) for k in (0, 0, 1))
    assert first.rew.tolist() == again.rew.tolist() != other.rew.tolist()
    assert isinstance(first, Batch)
    assert first.noise is None
    data = jax.random.key_data
    assert data(first.key).tolist() == data(again.key).tolist() != data(other.key).tolist()
    assert data(first.key).tolist() != data(jax.random.key(0)).tolist()


def test_structure_and_dtypes_are_kept():
    example = {
        "image": np.zeros((4, 4), np.uint8),
        "pair": (np.float16(0), np.zeros(2, np.float64)),
        "flag": np.bool_(False),
        "count": np.int64(0),
    }
    buffer = replay.init(example, 3)
    block = jax.tree.map(lambda x: np.ones((2, *np.shape(x)), np.asarray(x).dtype), example)
    buffer = replay.add(buffer, block)
    drawn = replay.sample(buffer, jax.random.key(0), 2)
    assert jax.tree.structure(drawn) == jax.tree.structure(example)
    dtypes = jax.tree.map(lambda x: x.dtype.name, drawn)
    assert dtypes["image"] == "uint8"
    assert dtypes["pair"] == ("float16", "float32")
    assert (dtypes["flag"], dtypes["count"]) == ("bool", "int32")
    assert all(bool((leaf == 1).all()) for leaf in jax.tree.leaves(drawn))


def test_a_donated_ring_is_written_in_place():
    buffer = replay.init(ROW, 1000)
    where = buffer.data["x"].unsafe_buffer_pointer()
    donating = jax.jit(replay.add, donate_argnums=0)
    new = donating(buffer, rows([1], 4), 1)
    assert new.data["x"].unsafe_buffer_pointer() == where
    assert buffer.data["x"].is_deleted()


def test_a_ring_that_is_not_donated_does_not_change():
    buffer = replay.init(ROW, 4)
    add(buffer, rows([7], 4), 1)
    assert int(buffer.stored) == 0
    assert not np.asarray(buffer.data["n"]).any()


def test_blocks_of_one_size_share_a_compilation():
    fresh = jax.jit(lambda *args: replay.add(*args))
    buffer = replay.init(ROW, 4)
    for count in range(5):
        buffer = fresh(buffer, rows(range(count), 4), np.int32(count))
    assert fresh._cache_size() == 1


def test_add_and_sample_compose_in_a_scan():
    def step(buffer, number):
        buffer = replay.add(buffer, {"n": number[None], "x": jnp.zeros((1, 2))})
        return buffer, replay.sample(buffer, jax.random.key(0), 2)["n"].max()

    buffer, largest = jax.lax.scan(step, replay.init(ROW, 4), jnp.arange(9))
    assert sorted(buffer.data["n"].tolist()) == [5, 6, 7, 8]
    assert bool((largest <= jnp.arange(9)).all())


def test_a_million_halfcheetah_rows_take_little_more_than_their_raw_bytes():
    spec = EnvSpec((17,), Box((-1.0,) * 6, (1.0,) * 6))
    raw = 10**6 * (4 * (17 + 6 + 1 + 17) + 2)
    shapes = jax.eval_shape(functools.partial(replay.init, spec.example(), 10**6))
    assert sum(x.size * x.dtype.itemsize for x in jax.tree.leaves(shapes)) <= 1.05 * raw
    before = _resident()
    buffer = jax.block_until_ready(replay.init(spec.example(), 10**6))
    assert sum(x.nbytes for x in jax.tree.leaves(buffer)) <= 1.05 * raw
    assert _resident() - before <= 1.05 * raw + 8 * 2**20  # no second copy
    del buffer


def _resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096


def test_a_ring_that_does_not_fit_into_memory_is_refused_with_the_sizes(monkeypatch):
    monkeypatch.setattr(replay, "free_memory", lambda: 2**30)
    with pytest.raises(ValueError, match=r"100,000,000 rows needs 1\.1 GiB and 1\.0 GiB are free"):
        replay.init(ROW, 100_000_000)
    monkeypatch.undo()
    assert 2**28 < replay.free_memory() < 2**50
    with pytest.raises(ValueError, match=r"needs [\d,.]+ GiB and [\d,.]+ GiB are free\. Lower"):
        replay.init({"x": np.zeros(10**6)}, 2**30)


def test_free_memory_is_that_of_the_host_or_the_smaller_container(tmp_path, monkeypatch):
    """The kernel frees cached files on demand, so they count as free."""
    group = tmp_path / "sys" / "fs" / "cgroup"
    group.mkdir(parents=True)
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc" / "meminfo").write_text("MemTotal: 9 kB\nMemAvailable:   5000 kB\n")
    monkeypatch.setattr(replay, "Path", lambda path: tmp_path / path.lstrip("/"))
    assert replay.free_memory() == 5000 * 1024
    (group / "memory.current").write_text("900000\n")
    (group / "memory.stat").write_text("anon 500000\ninactive_file 300000\n")
    for limit, free in (("1000000", 400_000), ("max", 5000 * 1024), ("90000000", 5000 * 1024)):
        (group / "memory.max").write_text(f"{limit}\n")
        assert replay.free_memory() == free


@pytest.mark.parametrize("count", [np.int32(3), np.int32(-1), 1.0, "a", jnp.int32(3), None])
def test_invalid_counts_are_refused(count):
    if count is None:
        with pytest.raises(ValueError, match="^count must be an integer, got float32"):
            add(replay.init(ROW, 3), rows([0, 1], 2), 1.0)
        return
    with pytest.raises(ValueError, match="^count must"):
        replay.add(replay.init(ROW, 3), rows([0, 1], 2), count)


def test_traced_counts_are_bounded_by_the_block():
    for count, stored in ((3, 2), (-1, 0), (np.uint8(1), 1)):
        assert int(add(replay.init(ROW, 3), rows([0, 1], 2), count).stored) == stored


def test_empty_examples_and_bad_keys_are_refused():
    with pytest.raises(ValueError, match="^example must hold at least one array"):
        replay.init({}, 3)
    with pytest.raises(ValueError, match="^key must be one typed key"):
        replay.sample(replay.init(ROW, 3), 0, 1)


@pytest.mark.parametrize("capacity", [0, -1, 1.5, True, 2**31])
def test_bad_capacities_are_refused(capacity):
    with pytest.raises(ValueError, match="^capacity must be"):
        replay.init(ROW, capacity)


def test_blocks_unlike_the_example_are_refused_by_name():
    buffer, good = replay.init(ROW, 4), rows([0, 1], 2)
    with pytest.raises(ValueError, match="^block must have the structure of the example"):
        replay.add(buffer, {"n": good["n"]})
    with pytest.raises(ValueError, match=r"^block\['x'\] must be float32 of shape \(n, \*\(2,\)\)"):
        replay.add(buffer, good | {"x": np.zeros((2, 3), np.float32)})
    with pytest.raises(ValueError, match=r"^block\['x'\] must be .*got float32 of shape \(3, 2\)"):
        replay.add(buffer, good | {"x": np.zeros((3, 2), np.float32)})
    with pytest.raises(ValueError, match=r"^block\['n'\] must be int32 .*got float32"):
        replay.add(buffer, good | {"n": np.zeros(2)})
    with pytest.raises(ValueError, match=r"^count must be in 0 \.\. 2"):
        replay.add(buffer, good, 3)
    assert isinstance(replay.add(buffer, good | {"x": np.zeros((2, 2))}), replay.Replay)  # float64


def test_sampling_more_rows_than_stored_is_refused():
    buffer = replay.add(replay.init(ROW, 4), rows([0, 1], 2))
    with pytest.raises(ValueError, match="^batch_size is 3 but the buffer holds 2 rows"):
        replay.sample(buffer, jax.random.key(0), 3)
    with pytest.raises(ValueError, match="^batch_size must not exceed the capacity 4, got 5"):
        replay.sample(buffer, jax.random.key(0), 5)
    with pytest.raises(ValueError, match="^batch_size must be an integer of at least 1, got 0"):
        replay.sample(buffer, jax.random.key(0), 0)


def test_transitions_come_back_as_a_batch_with_their_fields():
    spec = EnvSpec((3,), Box((-1.0,), (1.0,)))
    buffer = replay.init(spec.example(), 4)
    block = Transition(
        np.full((1, 3), 1.0),
        np.full((1, 1), 2.0),
        np.full(1, 3.0),
        np.full((1, 3), 4.0),
        np.array([True]),
        np.array([False]),
    )
    batch = replay.sample(replay.add(buffer, block), jax.random.key(0), 1)
    assert (batch.obs.max(), batch.act.max(), batch.rew.max(), batch.next_obs.max()) == (1, 2, 3, 4)
    assert (bool(batch.terminated[0]), bool(batch.truncated[0])) == (True, False)
