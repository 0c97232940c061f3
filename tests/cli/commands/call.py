"""A helper that runs a command in this process."""

from purerl.cli.main import main


def call(*words: object) -> int:
    """Run a command with its arguments; return its exit code."""
    try:
        return main([str(word) for word in words])
    except SystemExit as error:
        return int(error.code or 0)
