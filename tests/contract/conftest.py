"""Parametrize every test of this folder by the cases of `tests/cases.py`.

Compilation takes most of the time, so the functions of `shared.py` compile once for each case, and
the files of one algorithm run in one worker. A test that compiles programs of its own runs for one
case of each algorithm in `make test`, and for all cases in `make test-all`.
"""

import pytest

from tests.cases import CASES

# One case of each algorithm, chosen to reach most of its lines.
REPRESENTATIVES = (
    "td3",
    "ddpg",
    "sac-auto",
    "dqn-double",
    "reinforce-discrete",
    "vpg-discrete",
    "trpo-box",
    "ppo-options",
)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run each test for every case; with `ON_POLICY` in its module, for the cases of that kind."""
    on_policy = getattr(metafunc.module, "ON_POLICY", None)
    params = []
    for name, case in CASES.items():
        once = hasattr(metafunc.function, "once_per_algorithm") and name not in REPRESENTATIVES
        marks = [pytest.mark.complete] if once else []
        if on_policy in (None, case.on_policy):
            params.append(pytest.param(case, id=name, marks=marks))
    metafunc.parametrize("case", params)
