"""Examples in docstrings run, and give what they say."""

import doctest
import importlib
import pkgutil

import pytest

import purerl

MODULES = ["purerl", *(m.name for m in pkgutil.walk_packages(purerl.__path__, "purerl."))]


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings(name):
    module = importlib.import_module(name)
    assert module.__doc__
    failed, _ = doctest.testmod(module, optionflags=doctest.ELLIPSIS)
    assert not failed
