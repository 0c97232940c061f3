"""The examples in docstrings run and give the results shown."""

import doctest
import importlib
import pkgutil

import pytest

import purerl
import purerl_school

MODULES = [
    name
    for package in (purerl, purerl_school)
    for name in (
        package.__name__,
        *(m.name for m in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")),
    )
]


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings_give_the_results_shown(name):
    module = importlib.import_module(name)
    assert module.__doc__
    failed, _ = doctest.testmod(module, optionflags=doctest.ELLIPSIS)
    assert not failed
