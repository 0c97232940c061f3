"""Mutants of the options and flags of XLA."""

from tests.mutants import Mutant

FILE, TEST = "purerl/compiler.py", "tests/test_compiler.py"

MUTANTS = [
    Mutant(FILE, "if k not in flags and", "if", TEST),
    Mutant(FILE, "and _is_option(k, v)", "", TEST),
    Mutant(FILE, "itertools.compress(flags, pool.map(_can_start, flags))", "flags", TEST),
    Mutant(FILE, "itertools.compress(flags, pool.map(_can_start, flags))", "()", TEST),
    Mutant(FILE, "select_options(QUICK)", "select_options(FAST)", TEST),
    Mutant(FILE, "select_options(FAST)", "select_options(QUICK)", TEST),
    Mutant(
        FILE,
        "        @functools.wraps(function)\n",
        "        compile_once()\n\n        @functools.wraps(function)\n",
        TEST,
    ),
]
