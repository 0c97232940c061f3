"""Options of the XLA compiler. Each is used only if the installed XLA accepts it.

An unknown option fails the compilation, and an unknown flag in `XLA_FLAGS` ends the process. XLA
changes both often, so this module asks the installed library and never its version.
"""

import functools
import itertools
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

# For programs that run often. Wide vector registers and fewer copies around a conditional make a
# burst 3 to 7 % faster. The lower LLVM level compiles half a second faster and runs as fast.
FAST = {
    "xla_cpu_prefer_vector_width": 512,
    "xla_cpu_copy_insertion_use_region_analysis": True,
    "xla_backend_optimization_level": 2,
}
# For programs that run rarely: it halves their compile time.
QUICK = {"xla_backend_optimization_level": 0}
# For tests: programs compile several times as fast and run slower.
TEST_FLAGS = (
    "--xla_backend_optimization_level=0",
    "--xla_llvm_disable_expensive_passes=true",
    "--xla_cpu_use_fusion_emitters=false",
    "--xla_cpu_parallel_codegen_split_count=1",  # one LLVM module per program, not up to 32
)


def jit_fast(function: Callable[..., Any], **options: Any) -> Any:
    """Return `jax.jit` of a program that runs often. It starts JAX, to ask for its options."""
    import jax  # start-up time

    return jax.jit(function, compiler_options=select_options(FAST), **options)


def jit_quickly(**options: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator like `jax.jit`, for a program that runs rarely.

    JAX starts at the first call of the program, not when its module is imported.
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.cache
        def compile_once() -> Any:
            import jax  # start-up time

            return jax.jit(function, compiler_options=select_options(QUICK), **options)

        @functools.wraps(function)
        def call(*args: Any) -> Any:
            return compile_once()(*args)

        return call

    return decorate


def select_options(wanted: Mapping[str, Any]) -> dict[str, Any]:
    """Return the compiler options that XLA accepts and that `XLA_FLAGS` does not set."""
    flags = os.environ.get("XLA_FLAGS", "")
    return {k: v for k, v in wanted.items() if k not in flags and _is_option(k, v)}


@functools.cache
def _is_option(name: str, value: Any) -> bool:
    """Return whether an empty program compiles with an option."""
    import jax  # start-up time

    try:
        jax.jit(lambda: 0, compiler_options={name: value}).lower().compile()
    except jax.errors.JaxRuntimeError:
        return False
    return True


def select_flags(wanted: Iterable[str]) -> str:
    """Return the flags that XLA accepts, as a value of `XLA_FLAGS`.

    Child processes try them, because an unknown flag ends the process: first all flags at once,
    then, if that fails, each of them.
    """
    together = " ".join(wanted)
    if _can_start(together):
        return together
    flags = together.split()
    with ThreadPoolExecutor() as pool:
        return " ".join(itertools.compress(flags, pool.map(_can_start, flags)))


def _can_start(flags: str) -> bool:
    """Return whether a process with these flags can compile a program."""
    program = "import jax; jax.jit(lambda: 0).lower().compile()"
    env = os.environ | {"XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"}
    done = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True)
    return done.returncode == 0
