"""Export a policy to a folder that works without purerl.

    numpy       policy.npz, policy.json and policy.py, which needs only NumPy
    stablehlo   policy.stablehlo and policy.json, for `jax.export` and other StableHLO runtimes

Before the folder gets its final name, the files are read back and compared with the policy.
"""

import io
import itertools
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from jax import export as jax_export

from purerl import algos, nets
from purerl.errors import ConfigError
from purerl.runs.policy import numpy_policy
from purerl.runs.record import files as storage
from purerl.runs.record import safe_files
from purerl.runs.settings import config as configs
from purerl.spaces import Box

if TYPE_CHECKING:
    from purerl.runs.policy.run import Run

FORMATS = ("numpy", "stablehlo")
PLATFORMS = ("cpu", "cuda", "tpu")
ROWS = 64  # number of observations on which the export and the policy are compared
TOLERANCE = 1e-4  # maximum difference of their actions, scaled to [-1, 1]


def export_policy(run: "Run", form: str = "numpy", folder: str | Path | None = None) -> Path:
    """Export the deterministic policy of a run to a new folder and return its path.

    Args:
        run: Run whose policy is exported.
        form: `numpy` (default networks only) or `stablehlo`.
        folder: New folder; None for a new folder inside `export` in the run's folder.

    Raises:
        ConfigError: if the format does not fit the policy, or the folder exists.
    """
    if form not in FORMATS:
        raise ConfigError(f"format must be one of {', '.join(FORMATS)}, got {form!r}.")
    if folder is None:
        names = (f"{run.step:012d}-{form}-{number}" for number in itertools.count(1))
        place = safe_files.get_subfolder(run.folder, "export")
        folder = next(x for name in names if not (x := place / name).exists())
    path = Path(folder)
    if path.exists():
        raise ConfigError(f"{path} already exists; purerl never overwrites files.")
    contents, details = _export_numpy(run) if form == "numpy" else _export_stablehlo(run)
    config, about = configs.to_json(run.config), {"format": numpy_policy.FORMAT, "step": run.step}
    about |= {name: config[name] for name in ("algo", "env", "seed", "spaces")} | details
    contents["policy.json"] = (json.dumps(about, indent=1) + "\n").encode()
    storage.make_folder(path.parent)
    temporary = path.with_name(f".{path.name}.tmp")
    storage.remove(temporary)
    storage.make_folder(temporary)
    try:
        for name, content in contents.items():
            storage.write_file(temporary / name, content)
        storage.sync_folder(temporary)
        _check_actions(run, temporary, form)
    except BaseException:
        storage.remove(temporary)
        raise
    storage.rename_into_place(temporary, path)
    return path


def _export_numpy(run: "Run") -> tuple[dict[str, bytes], dict[str, Any]]:
    """Return the files of a NumPy export, and the entries that it adds to `policy.json`."""
    spec, params, algorithm = run.params.spec, run.params, algos.get_facts(run.config.algo)
    network = getattr(spec, algorithm.acting, None)
    problem, way = "", "run.export('stablehlo'), or --format stablehlo"
    if run.config.algo not in algos.NAMES:
        problem = f"an algorithm of purerl, but {run.config.algo} is custom"
    elif network is not None:
        problem = f"the default networks, but this {algorithm.acting} is custom: {network!r}"
        way = "in Python, purerl.load(run, spec=...).export('stablehlo')"
    elif spec.torso is not None:
        problem = f"flat observations, but this policy reads images with torso {spec.torso!r}"
    if problem:
        raise ConfigError(f"format numpy needs {problem}. Use format stablehlo: {way}.")
    layers = _list_layers(params, algorithm.acting)
    names = [(part, i) for part in ("kernel", "bias") for i in range(len(layers))]
    arrays = {f"{part}{i}": layers[i][part] for part, i in names}
    norms = getattr(params, algorithm.acting)["params"]["MLP_0"]
    if "LayerNorm_0" in norms:
        names = [(part, i) for part in ("scale", "bias") for i in range(len(layers) - 1)]
        arrays |= {f"norm_{part}{i}": norms[f"LayerNorm_{i}"][part] for part, i in names}
    if getattr(spec, "normalise_obs", False) and params.obs_stats.rows > 0:
        arrays |= {"obs_mean": params.obs_stats.mean, "obs_var": params.obs_stats.var}
    file = io.BytesIO()
    np.savez(file, allow_pickle=False, **arrays)
    code = Path(numpy_policy.__file__).read_bytes()
    about = {"layers": len(layers), "activation": spec.activation, "tanh": algorithm.squashed}
    return {"policy.npz": file.getvalue(), "policy.py": code}, about


def _list_layers(params: Any, name: str) -> list[Any]:
    """Return kernel and bias of each dense layer, folded with its normalisation."""
    tree = getattr(params, name)["params"]["MLP_0"]
    layers = [tree[f"Dense_{i}"] for i in range(sum(key.startswith("Dense_") for key in tree))]
    running = _find_statistics(params, name)
    if not running:
        return layers
    norms = [
        (tree[norm], running[norm]) for norm in (f"BatchRenorm_{i}" for i in range(len(layers)))
    ]
    fold = nets.fold_into_dense
    if "bias" in layers[0]:  # before each layer
        return [fold(layer, *norm) for layer, norm in zip(layers, norms, strict=True)]
    first, *rest = norms  # before the first layer, and behind all but the last one
    hidden = [
        fold(layer, *norm, behind=True) for layer, norm in zip(layers[:-1], rest, strict=True)
    ]
    layers = [*hidden, layers[-1]]
    return [fold(layers[0], *first), *layers[1:]]


def _find_statistics(params: Any, name: str) -> dict[str, Any]:
    """Return the running statistics of a network by layer; {} for a network without any."""
    statistics = getattr(params, f"{name}_stats", None)
    if not isinstance(statistics, dict):  # a custom algorithm may have others
        return {}
    return statistics.get(nets.STATISTICS, {}).get("MLP_0", {})


def _export_stablehlo(run: "Run") -> tuple[dict[str, bytes], dict[str, Any]]:
    """Return the file of a StableHLO export, and the entries that it adds to `policy.json`."""
    algo, params, env = run.algo, run.params, run.params.spec.env
    (rows,) = jax_export.symbolic_shape("rows")  # so that it accepts any number of rows
    example = jax.ShapeDtypeStruct((rows, *env.obs_shape), env.obs_dtype)
    policy = jax.jit(lambda obs: algo.policy(params, obs))
    exported = jax_export.export(policy, platforms=PLATFORMS)(example)
    try:
        content = bytes(exported.serialize())
    except ImportError as error:
        text = "format stablehlo needs flatbuffers: pip install 'purerl[export]'"
        raise ConfigError(text) from error
    (action,) = exported.out_avals
    return {"policy.stablehlo": content}, {
        "platforms": list(exported.platforms),
        "calling_convention_version": exported.calling_convention_version,
        "input": [["rows", *env.obs_shape], env.obs_dtype],
        "output": [["rows", *action.shape[1:]], str(action.dtype)],
        "jax": jax.__version__,
    }


def _find_input_statistics(run: "Run") -> tuple[Any, Any] | None:
    """Return the running mean and variance of observations, if the policy has them."""
    if getattr(run.params.spec, "normalise_obs", False):
        return run.params.obs_stats.mean, run.params.obs_stats.var
    layers = _find_statistics(run.params, algos.get_facts(run.config.algo).acting)
    first: Any = layers.get("BatchRenorm_0")
    flat = first is not None and first["mean"].shape == run.params.spec.env.obs_shape
    return (first["mean"], first["var"]) if flat else None


def _check_actions(run: "Run", folder: Path, form: str) -> None:
    """Raise `ConfigError` if an exported policy does not act like the run's policy."""
    if form == "numpy":
        policy = numpy_policy.load(folder)
    else:
        content = (folder / "policy.stablehlo").read_bytes()
        policy = jax_export.deserialize(bytearray(content)).call
    env = run.params.spec.env
    obs = 2 * np.asarray(jax.random.normal(jax.random.key(0), (ROWS, *env.obs_shape)))
    if np.dtype(env.obs_dtype).kind != "f":
        obs = np.abs(10 * obs)  # at most 100, which fits into any integer type
    elif stats := _find_input_statistics(run):  # choose values as they occurred in training
        obs = np.asarray(stats[0]) + np.sqrt(np.asarray(stats[1])) * obs
    obs = obs.astype(env.obs_dtype)
    wanted, found = np.asarray(run.policy(obs)), np.asarray(policy(obs))
    same = found.shape == wanted.shape and found.dtype.kind == wanted.dtype.kind
    if same and not isinstance(env.action, Box):  # rounding may decide between close values
        same = int((found != wanted).sum()) <= ROWS // 16
    elif same:
        same = bool(np.abs(env.normalise(found) - env.normalise(wanted)).max() < TOLERANCE)
    if not same:
        raise ConfigError(
            "the exported policy does not act like the original, so it was removed. Please report "
            "this, with the output of purerl inspect."
        )
