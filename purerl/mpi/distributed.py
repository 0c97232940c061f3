"""Connect the devices of all ranks, so that one program can run over all of them."""

import socket

import jax

from purerl.mpi import host, world


def connect_devices() -> None:
    """Start `jax.distributed` on all ranks, before JAX starts. Do nothing on one rank."""
    here = world.get_world()
    if here.size == 1 or jax.distributed.is_initialized():
        return
    name = "localhost" if here.neighbours == here.size else socket.gethostname()
    with socket.socket() as free:
        free.bind(("", 0))
        address = host.allgather(f"{name}:{free.getsockname()[1]}")[0]  # that of rank 0
    jax.config.update("jax_enable_preemption_service", False)  # it would ignore SIGTERM
    jax.distributed.initialize(address, num_processes=here.size, process_id=here.rank)
