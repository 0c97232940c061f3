"""Loggers in the manner of Spinning Up: rows of named numbers, over all ranks, in plain files.

    logger = EpochLogger("data/mine", exp_name="mine")
    logger.store(Loss=0.3)                     # as often as you like; any rank may have none
    logger.log_tabular("Epoch", 1)
    logger.log_tabular("Loss", with_min_and_max=True)   # AverageLoss, StdLoss, MaxLoss, MinLoss
    logger.dump_tabular()                      # prints the row, appends it to progress.txt

All ranks make the same calls in the same order; rank 0 alone prints and writes. `progress.txt` is
tab-separated with a header, `metrics.jsonl` has one object per row, null for what is no number.
"""

import contextlib
import json
import math
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from purerl import errors, mpi
from purerl.runs.record import files, safe_files


class Logger:
    """Rows of named numbers into a folder of one's own.

    Args:
        output_dir: folder to write to, made where missing; None keeps everything on the screen.
        output_fname: name of the table.
        exp_name: name of the experiment, saved with the configuration.
        quiet: print nothing.
        resume: go on with the files that are there, instead of refusing them.
    """

    def __init__(
        self,
        output_dir: str | os.PathLike[str] | None = None,
        output_fname: str = "progress.txt",
        exp_name: str | None = None,
        quiet: bool = False,
        resume: bool = False,
    ) -> None:
        self.folder = None if output_dir is None else Path(output_dir)
        self.exp_name, self.quiet = exp_name, quiet
        self.row: dict[str, Any] = {}
        self.columns: list[str] = []
        self._fname = output_fname
        if self.folder is None or not mpi.is_root():
            return
        files.make_folder(self.folder)
        table = self.folder / output_fname
        if table.exists() and not resume:
            raise errors.StorageError(
                f"{table} exists, and nothing is ever written over. Choose another output_dir."
            )
        if table.exists():
            with safe_files.open_file(table) as file:
                header = file.readline(2**20).decode("utf-8", "replace")
            self.columns = header.rstrip("\n").split("\t")

    def log(self, message: str, color: str = "") -> None:
        """Print a line, on rank 0; a colour is taken, as Spinning Up's does, and not shown."""
        if mpi.is_root() and not self.quiet:
            sys.stdout.write(message + "\n")
            sys.stdout.flush()

    def log_tabular(self, key: str, value: Any) -> None:
        """Set an entry of the row in progress; a key may come for the first time in any row."""
        if key in self.row:
            raise ValueError(f"{key} is in this row already; dump_tabular() begins the next one.")
        if not key or not key.isprintable():
            raise ValueError(
                f"key must be a word without tabs, line ends and control characters, got {key!r}."
            )
        self.row[key] = value.item() if hasattr(value, "item") else value

    def dump_tabular(self) -> dict[str, Any]:
        """Print the row, append it to the files, begin the next one; return it."""
        row, self.row = self.row, {}
        if not mpi.is_root():
            return row
        if not self.quiet:
            self.log(format_box(row))
        columns = [*self.columns, *(key for key in row if key not in self.columns)]
        if self.folder is not None:
            self._append(row, columns)
        self.columns = columns
        return row

    def _append(self, row: dict[str, Any], columns: list[str]) -> None:
        assert self.folder is not None
        table, objects = self.folder / self._fname, self.folder / "metrics.jsonl"
        line = "\t".join(_word(row.get(key)) for key in columns) + "\n"
        with undo_on_error(objects):
            append_text(objects, json.dumps(replace_non_finite(row), default=str) + "\n")
            if len(columns) == len(self.columns):
                append_text(table, line)
                return
            # A key that is new: the header grows, and rows before have nothing there.
            text = table.read_text(errors="replace") if table.exists() else ""
            rows = text.splitlines()[1:]
            rows = [old + "\t" * (len(columns) - 1 - old.count("\t")) for old in rows]
            text = "\n".join(["\t".join(columns), *rows, line])
            files.replace_file(table, text.encode())

    def save_config(self, config: dict[str, Any]) -> None:
        """Write `config.json`, with the name of the experiment."""
        config = to_json(config)
        if self.exp_name is not None:
            config["exp_name"] = self.exp_name
        if self.folder is not None and mpi.is_root():
            text = json.dumps(config, indent=4, sort_keys=True) + "\n"
            files.replace_file(self.folder / "config.json", text.encode())

    def save_state(self, state: Any, itr: int | None = None) -> Path | None:
        """Write the arrays of a tree to `state.npz`, or `state<itr>.npz`; no code, no pickle.

        Raises:
            TypeError: if a leaf is neither an array nor a number or a word; it is named.
        """
        if self.folder is None or not mpi.is_root():
            return None
        pairs = jax.tree_util.tree_leaves_with_path(state)
        named = ((jax.tree_util.keystr(path), leaf) for path, leaf in pairs)
        arrays = {name: _storable(name, leaf) for name, leaf in named}
        path = self.folder / f"state{'' if itr is None else itr}.npz"
        files.replace_file(path, files.pack_named_arrays(arrays))
        return path


class EpochLogger(Logger):
    """A logger that also gathers values over an epoch, and logs their statistics over all ranks."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.stored: dict[str, list[Any]] = {}

    def store(self, **values: Any) -> None:
        """Remember values (numbers or arrays) for the statistics of the epoch."""
        for key, value in values.items():
            self.stored.setdefault(key, []).append(value)

    def log_tabular(
        self,
        key: str,
        value: Any = None,
        with_min_and_max: bool = False,
        average_only: bool = False,
    ) -> None:
        """Set an entry: a value given, or statistics of what was stored under the key.

        Args:
            key: name; with stored values the columns are Average, Std, Max and Min of it.
            value: given, or None for what was stored.
            with_min_and_max: the last two as well.
            average_only: the mean alone, under the key itself.
        """
        if value is not None:
            super().log_tabular(key, value)
            return
        mean, std, low, high = self._statistics(key)
        self.stored.pop(key, None)
        super().log_tabular(key if average_only else f"Average{key}", mean)
        if not average_only:
            super().log_tabular(f"Std{key}", std)
        if with_min_and_max:
            super().log_tabular(f"Max{key}", high)
            super().log_tabular(f"Min{key}", low)

    def get_stats(self, key: str) -> tuple[float, float]:
        """Return mean and standard deviation of what is stored, over all ranks."""
        mean, std, *_ = self._statistics(key)
        return mean, std

    def _statistics(self, key: str) -> tuple[float, ...]:
        """Return mean, std, min, max; NaN where no rank has a value."""
        values = [np.asarray(x, np.float64).ravel() for x in self.stored.get(key, ())]
        mine = np.concatenate(values) if values else np.zeros(0)
        if not mpi.psum(mine.size):
            return (math.nan,) * 4
        return mpi.statistics(mine, min_max=True)


def append_text(path: Path, text: str) -> None:
    """Append to a file, all or nothing, or say why it cannot be."""
    with undo_on_error(path):
        try:
            with open(path, "a", encoding="utf-8") as file:
                file.write(text)
        except OSError as error:
            raise safe_files.explain_os_error(error, path) from error


@contextlib.contextmanager
def undo_on_error(path: Path) -> Iterator[None]:
    """Cut a file back to the length it had if what is done fails."""
    length = path.stat().st_size if path.exists() else None
    try:
        yield
    except errors.StorageError:
        with contextlib.suppress(OSError):  # the error that is raised says what is wrong
            if length is None:
                path.unlink(missing_ok=True)
            else:
                os.truncate(path, length)
        raise


def format_box(row: dict[str, Any]) -> str:
    """Return a row as Spinning Up prints it: a box of two columns."""
    width = max(15, *map(len, row), 0) if row else 15
    lines = [f"| {key:>{width}} | {_shown(value):>15} |" for key, value in row.items()]
    edge = "-" * (width + 22)
    return "\n".join([edge, *lines, edge])


def to_json(value: Any) -> Any:
    """Return a value as JSON knows it; what it does not know becomes its name or a word."""
    if isinstance(value, dict):
        return {str(k): to_json(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [to_json(v) for v in value]
    if isinstance(value, str | bool | int | float | None):
        return value
    if isinstance(value, np.generic):
        return value.item()
    return getattr(value, "__name__", str(value))


def replace_non_finite(value: Any) -> Any:
    """Return a value with None for each number that JSON has no word for: nan, infinities."""
    if isinstance(value, dict):
        return {k: replace_non_finite(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [replace_non_finite(v) for v in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _storable(name: str, leaf: Any) -> np.ndarray:
    """Return a leaf of a state as an array, or say what can be one."""
    keys = isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
    found = np.empty(0, object) if keys else np.asarray(leaf)
    if found.dtype.hasobject:
        way = "hand over jax.random.key_data of it" if keys else "take it out of the state"
        raise TypeError(
            f"state{name} is a {type(leaf).__name__}: arrays, numbers and words can be saved, in "
            f"dictionaries, lists and dataclasses that JAX knows; {way}."
        )
    return found


def _word(value: Any) -> str:
    """Return a value as a cell of a table: tabs and line ends as `\\t` and `\\n`."""
    text = "" if value is None else str(value)
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def _shown(value: Any) -> str:
    return f"{value:8.3g}" if isinstance(value, int | float) else _word(value)
