"""Files of trees of arrays, such as the state of a learner: one `.npz` that contains its checksum.

The file contains names, types and numbers of arrays. It contains no code, so `restore_state` needs
a tree of the same structure, for example from `init`.
"""

import hashlib
import io
import zipfile
from pathlib import Path
from typing import Any

import jax
import numpy as np

from purerl.errors import ConfigError, Damaged
from purerl.runs.record import arrays, files, safe_files

SHOWN = 5  # differences in a message
_DIGITS = 64  # of a SHA-256 at the end of the file, as the comment of the archive


def save_state(path: str | Path, state: Any) -> None:
    """Write a tree of arrays to a file, which is replaced in one step if it exists.

    Args:
        path: File to write, for example `state.npz`.
        state: Tree of arrays, such as the `State` or `Params` of a learner.
    """
    leaves = {name: np.asarray(leaf) for name, leaf in _name_leaves(state).items()}
    stream = io.BytesIO()
    arrays.write_arrays(leaves, stream)
    with zipfile.ZipFile(stream, "a") as archive:
        archive.comment = b"0" * _DIGITS
    content = stream.getvalue()[:-_DIGITS]
    path = Path(path)
    files.make_folder(path.parent)
    files.replace_file(path, content + hashlib.sha256(content).hexdigest().encode())


def restore_state(path: str | Path, like: Any) -> Any:
    """Read a tree that `save_state` wrote; refuse a changed file, and a tree that differs.

    Args:
        path: File to read.
        like: Tree with the structure, shapes and types of the saved one. Its numbers are not used.

    Raises:
        Damaged: if the file is missing, damaged, or of another kind.
        ConfigError: if the saved tree has other arrays than `like`.
    """
    path = Path(path)
    with safe_files.open_file(path) as file:
        content = file.read()
    digest = hashlib.sha256(content[:-_DIGITS]).hexdigest().encode()
    if digest != content[-_DIGITS:]:
        raise Damaged(f"{path} was changed after it was written: its SHA-256 differs.")
    whole = files.File(len(content), hashlib.sha256(content).hexdigest())
    found = arrays.read_arrays(path, whole)
    wanted = _name_leaves(like)
    saved, due = (
        {name: f"{x.dtype}{list(np.shape(x))}" for name, x in tree.items()}
        for tree in (found, wanted)
    )
    wrong = [
        f"{name} is {saved.get(name, 'missing')} in the file and {due.get(name, 'missing')} here"
        for name in due | saved
        if saved.get(name) != due.get(name)
    ]
    if wrong:
        more = f", and {len(wrong) - SHOWN} more" if len(wrong) > SHOWN else ""
        raise ConfigError(f"{path} has other arrays: {'; '.join(wrong[:SHOWN])}{more}.")
    made = [
        jax.numpy.asarray(found[name]) if isinstance(leaf, jax.Array) else found[name]
        for name, leaf in wanted.items()
    ]
    return jax.tree.unflatten(jax.tree.structure(like), made)


def _name_leaves(tree: Any) -> dict[str, Any]:
    """Return the arrays of a tree by their paths; refuse anything else."""
    named = {jax.tree_util.keystr(path): x for path, x in jax.tree.leaves_with_path(tree)}
    for name, leaf in named.items():
        if not hasattr(leaf, "dtype"):
            raise ConfigError(f"state{name} must be an array, got {leaf!r:.100}.")
        if jax.numpy.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            raise ConfigError(
                f"state{name} is a PRNG key. Save jax.random.key_data(key), and use "
                f"jax.random.wrap_key_data on the restored array."
            )
        if leaf.dtype.kind not in "biuf" and leaf.dtype.name != "bfloat16":
            raise ConfigError(
                f"state{name} is of type {leaf.dtype}. Only booleans, integers, floats of NumPy "
                f"and bfloat16 can be saved."
            )
    return named
