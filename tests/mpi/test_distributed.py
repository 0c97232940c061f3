"""Connecting the devices of all ranks; `tests/loops/scan/test_joined.py` trains on them."""

import socket

import jax
import pytest

from purerl import mpi
from purerl.mpi import host, world


@pytest.fixture
def connect(monkeypatch):
    """Return a function that connects as a rank of a job, and returns what JAX is asked."""
    asked = []

    def initialize(address, **options):
        asked.append((address.rpartition(":")[0], options))

    monkeypatch.setattr(jax.distributed, "initialize", initialize)
    monkeypatch.setattr(jax.config, "update", lambda name, value: asked.append((name, value)))

    def connect(rank, size, neighbours, addresses=()):
        here = world.World(rank, size, neighbours=neighbours)
        monkeypatch.setattr(world, "get_world", lambda: here)
        monkeypatch.setattr(host, "allgather", lambda mine: [*addresses, mine])
        mpi.connect_devices()
        return asked

    return connect


def test_one_rank_connects_nothing(connect):
    assert connect(0, 1, 1) == []


def test_all_ranks_use_the_address_of_rank_0_without_the_preemption_service(connect):
    service = ("jax_enable_preemption_service", False)
    here = ("host0", {"num_processes": 4, "process_id": 1})
    assert connect(1, 4, 2, ["host0:99"]) == [service, here]


@pytest.mark.parametrize("neighbours", [2, 1])
def test_rank_0_is_reached_by_the_name_of_its_host_if_there_are_several(connect, neighbours):
    name = "localhost" if neighbours == 2 else socket.gethostname()
    assert connect(0, 2, neighbours)[-1] == (name, {"num_processes": 2, "process_id": 0})


def test_a_connection_of_the_user_is_kept(connect, monkeypatch):
    monkeypatch.setattr(jax.distributed, "is_initialized", lambda: True)
    assert connect(0, 2, 2) == []
