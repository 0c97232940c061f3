"""Run scripts in the process of the tests, because a separate process takes seconds to start."""

import contextlib
import io
import runpy
import sys
import warnings
from pathlib import Path
from typing import NamedTuple
from unittest import mock

import jax

import purerl

ROOT = Path(__file__).parents[1]


class Done(NamedTuple):
    """Exit code and output of a script."""

    code: int
    out: str
    err: str


def run_script(path: str, *arguments: str) -> Done:
    """Run a script of `examples/` like `python PATH ARGUMENTS`."""
    out, err, code = io.StringIO(), io.StringIO(), 0
    with (
        mock.patch.object(sys, "argv", [path, *arguments]),
        mock.patch.object(sys, "path", [str(ROOT / "examples"), *sys.path]),
        mock.patch.object(purerl, "setup"),  # conftest.py has called it
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        warnings.catch_warnings(),
        jax.numpy_rank_promotion("allow"),
    ):
        warnings.simplefilter("default")
        try:
            runpy.run_path(str(ROOT / path), run_name="__main__")
        except SystemExit as end:
            code = int(end.code or 0)
    return Done(code, out.getvalue(), err.getvalue())
