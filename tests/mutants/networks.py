"""Mutants of networks that are not Flax modules."""

from tests.mutants import Mutant

FILE, TEST = "purerl/nets/modules.py", "tests/nets/test_modules.py"
T_CONTRACT = "tests/contract/test_networks.py"

MUTANTS = [
    Mutant(
        FILE,
        "if not isinstance(module, nn.Module) or STATISTICS not in variables:",
        "if STATISTICS not in variables:",
        TEST,
    ),
    Mutant(
        FILE,
        "if not isinstance(module, nn.Module):\n        return apply(",
        "if False:\n        return apply(",
        TEST,
    ),
    Mutant(FILE, "if isinstance(module, nn.Module) and not {", "if not {", T_CONTRACT),
    Mutant(FILE, "isinstance(module, type) or", "", T_CONTRACT),
    Mutant(
        FILE, "not all(map(callable, functions))", "not any(map(callable, functions))", T_CONTRACT
    ),
    Mutant(FILE, "return jax.tree.map(jnp.asarray, variables)", "return variables", TEST),
    Mutant(
        FILE,
        "if isinstance(kind, str) or not jnp",
        "if not isinstance(kind, str) and not jnp",
        TEST,
    ),
    Mutant(
        FILE,
        "isinstance(kind, str) or not jnp.issubdtype(kind, jnp.floating)",
        "isinstance(kind, str)",
        TEST,
    ),
    Mutant(FILE, "return params | statistics if statistics else params", "return params", TEST),
    Mutant(
        "purerl/checks.py",
        "if dataclasses.is_dataclass(value) and type(value).__hash__ is None:",
        "if False:",
        T_CONTRACT,
    ),
]
