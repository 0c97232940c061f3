"""Print the figures of the long tests, for docs/measurements/reliability.md."""

import json

import pytest


@pytest.fixture
def figures(capsys, request):
    """Return a function that prints the figures of a test as one line of JSON."""

    def show(**found):
        if "not reliability" in request.config.option.markexpr:
            return
        with capsys.disabled():
            print("\nfigures " + json.dumps({"test": request.node.name} | found))

    return show
