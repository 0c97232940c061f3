"""A logger like Spinning Up's: rows of named numbers over all ranks, in plain files.

    logger = EpochLogger("data/mine", exp_name="mine")
    logger.store(Loss=0.3)                     # any number of times; a rank may have no value
    logger.log_tabular("Epoch", 1)
    logger.log_tabular("Loss", with_min_and_max=True)   # AverageLoss, StdLoss, MaxLoss, MinLoss
    logger.dump_tabular()                      # prints the row, appends it to progress.txt

All ranks make the same calls in the same order; only rank 0 prints and writes. `progress.txt` is
tab-separated with a header, `metrics.jsonl` has one object per row, null for NaN and infinities.
"""

import json
import math
import os
import sys
import weakref
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import keystr

from purerl import errors, mpi
from purerl.runs.console import write_text
from purerl.runs.record import checkpoint_folders, files
from purerl.runs.record.files import append_text, undo_on_error

_in_use: weakref.WeakValueDictionary[Path, "EpochLogger"] = weakref.WeakValueDictionary()


class EpochLogger:
    """Rows of named numbers in a folder, and statistics of collected values over all ranks.

    Args:
        output_dir: folder for the files, created if it is missing; None to only print.
        output_fname: file name of the table.
        exp_name: name of the experiment, saved with the configuration.
        quiet: whether to print nothing.
        resume: whether to continue existing files; if not, they are refused.
    """

    def __init__(
        self,
        output_dir: str | os.PathLike[str] | None = None,
        output_fname: str = "progress.txt",
        exp_name: str | None = None,
        quiet: bool = False,
        resume: bool = False,
    ) -> None:
        self.exp_name, self.quiet = exp_name, quiet
        self.row: dict[str, Any] = {}
        self.columns: list[str] = []
        self.stored: dict[str, list[Any]] = {}
        self._fname = output_fname
        self.folder = None if output_dir is None or not mpi.is_root() else Path(output_dir)
        if self.folder is None:
            return
        files.make_folder(self.folder)
        table = self.folder / output_fname
        other = _in_use.setdefault(table.resolve(), self)
        if not resume and (table.exists() or other is not self):
            what = "already exists" if table.exists() else "belongs to another logger"
            raise errors.StorageError(
                f"{table} {what}; purerl never overwrites files. Choose another output_dir, or set "
                f"resume=True to append rows."
            )
        self.columns = checkpoint_folders.read_header(table)

    def log(self, message: str, color: str = "") -> None:
        """Print a line on rank 0; `color` is accepted as in Spinning Up, and ignored."""
        if mpi.is_root() and not self.quiet:
            write_text(sys.stdout, f"{message}\n")

    def store(self, **values: Any) -> None:
        """Collect values (numbers or arrays) for the statistics of the epoch."""
        for key, value in values.items():
            self.stored.setdefault(key, []).append(value)

    def log_tabular(
        self,
        key: str,
        value: Any = None,
        with_min_and_max: bool = False,
        average_only: bool = False,
    ) -> None:
        """Set an entry of the current row: a value, or statistics of those stored under the key.

        Args:
            key: name of the entry; Average, Std, Max and Min are put before it for stored values.
                Any row may have new keys.
            value: value of the entry; None for the stored values.
            with_min_and_max: whether to log Max and Min as well.
            average_only: whether to log only the mean, under the key itself.
        """
        entries = {key: value}
        if value is None:
            mean, std, low, high = self._compute_statistics(key)
            self.stored.pop(key, None)
            entries = {key: mean} if average_only else {f"Average{key}": mean, f"Std{key}": std}
            entries |= {f"Max{key}": high, f"Min{key}": low} if with_min_and_max else {}
        for name, entry in entries.items():
            if name in self.row:
                raise ValueError(f"{name} is already in this row. Call dump_tabular() first.")
            if not name or not name.isprintable():
                raise ValueError(f"key must be text without tabs or line ends, got {name!r}.")
            self.row[name] = entry.item() if hasattr(entry, "item") else entry

    def get_stats(self, key: str) -> tuple[float, float]:
        """Return mean and standard deviation of the stored values, over all ranks."""
        mean, std, *_ = self._compute_statistics(key)
        return mean, std

    def _compute_statistics(self, key: str) -> tuple[float, ...]:
        """Return mean, std, min, max; NaN where no rank has a value."""
        values = [np.asarray(x, np.float64).ravel() for x in self.stored.get(key, ())]
        mine = np.concatenate([*values, np.zeros(0)])
        if not mpi.psum(mine.size):
            return (math.nan,) * 4
        return mpi.statistics(mine, min_max=True)

    def dump_tabular(self) -> dict[str, Any]:
        """Print the row, append it to the files, and return it; start a new row."""
        row, self.row = self.row, {}
        self.log(_format_box(row))
        columns = list(dict.fromkeys([*self.columns, *row]))
        if self.folder is not None:
            self._append(self.folder, row, columns)
        self.columns = columns
        return row

    def _append(self, folder: Path, row: dict[str, Any], columns: list[str]) -> None:
        table, objects = folder / self._fname, folder / "metrics.jsonl"
        line = "\t".join(_format_cell(row.get(key)) for key in columns) + "\n"
        with undo_on_error(objects):
            append_text(objects, json.dumps(files.to_json(row)) + "\n")
            if len(columns) == len(self.columns) and table.exists():
                append_text(table, line)
                return
            # With a new key the header grows, and earlier rows get empty cells.
            rows = table.read_text(errors="replace").splitlines()[1:] if table.exists() else []
            rows = [old + "\t" * (len(columns) - 1 - old.count("\t")) for old in rows]
            files.replace_file(
                table,
                "\n".join(["\t".join(columns), *rows, line]).encode(errors="backslashreplace"),
            )

    def save_config(self, config: dict[str, Any]) -> None:
        """Write `config.json`, with the name of the experiment."""
        name = {} if self.exp_name is None else {"exp_name": self.exp_name}
        if self.folder is not None:
            content = files.to_json(config) | name
            files.write_json(self.folder / "config.json", content, sort_keys=True)

    def save_state(self, state: Any, itr: int | None = None) -> Path | None:
        """Write the arrays, numbers and texts of a tree to `state.npz`, or `state<itr>.npz`."""
        if self.folder is None:
            return None
        pairs = jax.tree_util.tree_leaves_with_path(state)
        arrays = {keystr(path): _convert_leaf(keystr(path), leaf) for path, leaf in pairs}
        path = self.folder / f"state{'' if itr is None else itr}.npz"
        files.replace_file(path, lambda stream: np.savez(stream, allow_pickle=False, **arrays))
        return path


def _format_box(row: dict[str, Any]) -> str:
    """Return a row as Spinning Up prints it: a box of two columns."""
    width = max([15, *map(len, row)])
    edge = "-" * (width + 22)
    cells = {
        k: f"{x:8.3g}" if isinstance(x, int | float) else _format_cell(x) for k, x in row.items()
    }
    return "\n".join([edge, *(f"| {k:>{width}} | {x:>15} |" for k, x in cells.items()), edge])


def _format_cell(value: Any) -> str:
    """Return a value as a cell of a table: tabs and line ends as `\\t` and `\\n`."""
    text = "" if value is None else str(value)
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def _convert_leaf(name: str, leaf: Any) -> np.ndarray:
    """Return a leaf of a state as an array; raise TypeError if it cannot be saved."""
    keys = isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
    found = np.empty(0, object) if keys else np.asarray(leaf)
    if found.dtype.hasobject:
        way = "Save jax.random.key_data(key) instead" if keys else "Remove it from the state"
        raise TypeError(
            f"state{name} is a {type(leaf).__name__}, but only arrays, numbers and text can be "
            f"saved, in dictionaries, lists and dataclasses registered with JAX. {way}."
        )
    return found
