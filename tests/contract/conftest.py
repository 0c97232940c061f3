"""Parametrize every test of this folder by the cases of `tests/cases.py`.

Compilation takes most of the time. So `make test` runs one case of each algorithm, and `make
test-all` runs all cases. The functions of `shared.py` compile once for each case, and the files of
one algorithm run in one worker.
"""

import pytest

from tests.cases import CASES

# One case of each algorithm, chosen to reach most of its lines. `make test` leaves out the
# others (crossq, pqn, redq, sac_discrete, tqc, xqc), whose own tests reach their lines.
REPRESENTATIVES = (
    "acer",
    "td3",
    "ddpg",
    "sac-auto",
    "dqn-double",
    "reinforce-discrete",
    "vpg-discrete",
    "trpo-box",
    "ppo-options",
)
# Tests that compile much run with fewer algorithms.
FEW = {
    "test_update_is_the_same_without_jit": ("td3", "reinforce-discrete"),
    "test_a_number_as_terminated_is_a_chance_of_ending": ("dqn-double",),
    "test_update_works_under_vmap_over_seeds": ("td3", "dqn-double", "ppo-options"),
    "test_custom_networks_see_images_and_learn": ("td3", "dqn-double", "ppo-options"),
    "test_a_torso_lets_the_default_networks_read_images": ("sac-auto", "acer", "trpo-box"),
}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run each test for every case; with `ON_POLICY` in its module, for the cases of that kind."""
    on_policy = getattr(metafunc.module, "ON_POLICY", None)
    cheap = metafunc.module.__name__.endswith(("test_signatures", "test_specs"))
    params, chosen = [], FEW.get(metafunc.function.__name__, REPRESENTATIVES)
    for name, case in CASES.items():
        marks = [] if cheap or name in chosen else [pytest.mark.complete]
        if on_policy in (None, case.on_policy):
            params.append(pytest.param(case, id=name, marks=marks))
    metafunc.parametrize("case", params)
