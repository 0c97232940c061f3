"""The fixture that runs a command in this process."""

from tests.cli.conftest import here

__all__ = ["here"]
