"""purerl: reinforcement learning as pure functions, in JAX.

`import purerl` is fast and changes no global setting. Each submodule loads on first use:

    import purerl
    state = purerl.algos.td3.init(key, spec)
    run = purerl.train("sac", "Pendulum-v1", steps=20_000)
    run = purerl.load("runs/pendulum-v1-sac/pendulum-v1-sac_s0", "best")
"""

from typing import TYPE_CHECKING, Any, overload

from purerl.lazy import load_on_use

if TYPE_CHECKING:
    from collections.abc import Sequence

    from purerl import (
        algos,
        buffers,
        checks,
        envs,
        errors,
        loops,
        moments,
        mpi,
        nets,
        returns,
        rng,
        runs,
        schedules,
        spaces,
        types,
    )
    from purerl.runs.policy.run import Run

__version__ = "0.1.0"
__all__ = [
    "__version__",
    "algos",
    "buffers",
    "checks",
    "envs",
    "errors",
    "load",
    "loops",
    "moments",
    "mpi",
    "nets",
    "restore",
    "returns",
    "rng",
    "runs",
    "save",
    "schedules",
    "setup",
    "spaces",
    "train",
    "types",
]


__getattr__ = load_on_use(__name__, __all__)


def setup(threads: int | None = 1, cache: bool | str = True, devices: int = 1) -> None:
    """Configure JAX for training loops that run on the CPU.

    Call it at the start of a script. The settings are global to the process, so the library never
    calls it itself.

    Args:
        threads: Size of XLA's CPU thread pool. With one thread, results are bit for bit
            reproducible, and small networks run as fast. None keeps JAX's default.
        cache: Directory for compiled programs, which later processes load. True means
            `~/.cache/purerl/jax` (none for a user without a home folder), and False keeps JAX's
            default.
        devices: Number of CPU devices to split batches over. With several ranks, more than one
            connects the devices of all ranks by `jax.distributed`.

    Raises:
        RuntimeError: If JAX has already started, because it would ignore the settings.
    """
    import os

    from purerl import checks

    if threads is not None:
        checks.integer("threads", threads, 1)
    checks.integer("devices", devices, 1)
    import jax

    try:  # first, because JAX refuses only this setting after its start
        jax.config.update("jax_num_cpu_devices", devices)
    except RuntimeError as error:
        raise RuntimeError(
            "purerl.setup() must come before the first JAX computation of the process. Call it "
            "right after the imports."
        ) from error
    if threads is not None:
        os.environ["NPROC"] = str(threads)  # read by XLA's CPU client when it starts
    # A call of `act` takes 8-14 us with synchronous dispatch and 31-100 us without.
    jax.config.update("jax_cpu_enable_async_dispatch", False)
    if folder := find_cache() if cache is True else str(cache or ""):
        jax.config.update("jax_compilation_cache_dir", folder)
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
        jax.config.update("jax_persistent_cache_min_entry_size_bytes", 0)
    from purerl import mpi

    mpi.init()  # from now on, a rank that fails ends the whole job
    if devices > 1:
        mpi.connect_devices()


def find_cache() -> str:
    """Return the default folder of compiled programs; empty for a user without a home folder."""
    import os

    root = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return "" if root.startswith("~") else os.path.join(root, "purerl", "jax")


def load(path: Any, checkpoint: str | int = "last", **options: Any) -> "Run":
    """Load a run and the policy of one of its checkpoints.

    Args:
        path: Folder of the run.
        checkpoint: Which checkpoint to load: `last`, `best`, or the step of one.
        **options: Options `env_fn`, `spec` and `algo` of `purerl.runs.policy.run.load`.
    """
    from purerl.runs.policy import run

    return run.load(path, checkpoint, **options)


def save(path: Any, state: Any) -> None:
    """Write a tree of arrays, such as the `State` of a learner, to one file with a checksum."""
    from purerl.runs.record import states

    states.save_state(path, state)


def restore(path: Any, like: Any) -> Any:
    """Read a tree that `save` wrote. No code is executed.

    Args:
        path: File to read.
        like: Tree with the structure, shapes and types of the saved one, for example a new state
            from `init`. Its numbers are not used.
    """
    from purerl.runs.record import states

    return states.restore_state(path, like)


@overload
def train(algo: Any, env: Any, *, seeds: "Sequence[int]", **settings: Any) -> "list[Run]": ...


@overload
def train(algo: Any, env: Any, *, seeds: None = None, **settings: Any) -> "Run": ...


def train(algo: Any, env: Any, **settings: Any) -> Any:
    """Train an algorithm in a new run folder, and return the run; with `seeds`, a list of runs.

    Args:
        algo: Name of an algorithm, or a module with a custom one.
        env: Gymnasium id, a name such as `jax:CartPole-v1`, a function that makes the environment,
            or an environment in JAX.
        **settings: Arguments of `purerl.runs.policy.run.train` (`seed`, `seeds`, `name`, ...),
            and any field of the algorithm's `Spec`, of its schedule, and of the run's options.
    """
    from purerl.runs.policy import run

    return run.train(algo, env, **settings)
