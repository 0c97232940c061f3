"""One call for programs: threads, dispatch, compilation cache and devices, before JAX starts."""

import os
from pathlib import Path

from purerl import checks


def setup(threads: int | None = 1, cache: bool | str = True, devices: int = 1) -> None:
    """Configure JAX for the thin loop; for entry points, never called by the library itself.

    All of this is global to the process, which is why importing purerl does none of it.

    Args:
        threads: size of XLA's CPU thread pool. One is as fast as more at the sizes of this field
            and makes results repeat bit for bit; None leaves JAX's default.
        cache: keep compiled programs between processes, in `~/.cache/purerl/jax` or in the
            directory given.
        devices: number of CPU devices to split batches over.

    Raises:
        RuntimeError: if JAX has started already, since all of it would be ignored then.
    """
    if threads is not None:
        checks.integer("threads", threads, 1)
    checks.integer("devices", devices, 1)
    import jax

    try:  # first, because it refuses once a backend exists, and the rest would not
        jax.config.update("jax_num_cpu_devices", devices)
    except RuntimeError as error:
        raise RuntimeError(
            "purerl.setup() must come before the first JAX computation of the process; call it "
            "right after the imports."
        ) from error
    if threads is not None:
        os.environ["NPROC"] = str(threads)  # read by XLA's CPU client when it starts
    # An acting call costs 8-14 us with synchronous dispatch and 31-100 us without.
    jax.config.update("jax_cpu_enable_async_dispatch", False)
    if cache:
        root = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "purerl" / "jax"
        jax.config.update("jax_compilation_cache_dir", str(root if cache is True else cache))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
        jax.config.update("jax_persistent_cache_min_entry_size_bytes", 0)
    from purerl import mpi

    mpi.init()  # from here on a rank that fails ends the job
