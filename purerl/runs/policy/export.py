"""A policy as a folder that needs no purerl.

    numpy       policy.npz, policy.json and policy.py, which needs NumPy only
    stablehlo   policy.stablehlo and policy.json, for `jax.export` and other StableHLO runtimes

The files are read back and compared with the policy before the folder gets its name.
"""

import io
import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from jax import export as jax_export

from purerl import algos
from purerl.errors import ConfigError
from purerl.runs.policy import numpy_policy
from purerl.runs.record import files as storage
from purerl.runs.settings import config as configs
from purerl.spaces import Discrete

if TYPE_CHECKING:
    from purerl.runs.policy.run import Run

PLATFORMS = ("cpu", "cuda", "tpu")
ROWS = 64  # observations on which the export and the policy are compared
TOLERANCE = 1e-4  # maximum difference of their actions, in units of [-1, 1]


def export_policy(run: "Run", form: str = "numpy", folder: str | Path | None = None) -> Path:
    """Write the deterministic policy of a run into a new folder and return its path.

    Args:
        run: Run whose policy is exported.
        form: `numpy` (default networks only) or `stablehlo`.
        folder: New folder; None for one in the run's folder.

    Raises:
        ConfigError: if the format does not fit the policy, or the folder exists.
    """
    if form not in FORMS:
        raise ConfigError(f"format must be one of {', '.join(FORMS)}, got {form!r}.")
    write, read = FORMS[form]
    if folder is None:
        names = (f"{run.step:012d}-{form}-{number}" for number in itertools.count(1))
        folder = next(x for name in names if not (x := run.folder / "export" / name).exists())
    path = Path(folder)
    if path.exists():
        raise ConfigError(f"{path} already exists; purerl never overwrites files.")
    contents = write(run)
    storage.make_folder(path.parent)
    made = path.with_name(f".{path.name}.tmp")
    storage.remove(made)
    storage.make_folder(made)
    try:
        for name, content in contents.items():
            storage.write_file(made / name, content)
        storage.sync_folder(made)
        _check_actions(run, read(made))
    except BaseException:
        storage.remove(made)
        raise
    storage.rename_into_place(made, path)
    return path


def _write_about(run: "Run", **more: Any) -> bytes:
    """Return the content of `policy.json`."""
    config = configs.to_json(run.config)
    about = {"format": numpy_policy.FORMAT, "step": run.step}
    about |= {name: config[name] for name in ("algo", "env", "seed", "spaces")}
    return (json.dumps(about | more, indent=1) + "\n").encode()


def _write_numpy(run: "Run") -> dict[str, bytes]:
    """Return the files of a policy for NumPy."""
    spec, params, algorithm = run.params.spec, run.params, algos.ALGORITHMS[run.config.algo]
    name = algorithm.acting
    if getattr(spec, name) is not None:
        raise ConfigError(
            f"format numpy needs the default networks, but this {name} is custom: "
            f"{getattr(spec, name)!r}. Format stablehlo takes any: in Python, "
            f"purerl.load(run, spec=...).export('stablehlo')."
        )
    layers = getattr(params, name)["params"]["MLP_0"]
    arrays = {}
    for i in range(len(layers)):
        arrays[f"kernel{i}"] = np.asarray(layers[f"Dense_{i}"]["kernel"])
        arrays[f"bias{i}"] = np.asarray(layers[f"Dense_{i}"]["bias"])
    if getattr(spec, "normalise_obs", False) and params.obs_stats.rows > 0:
        arrays["obs_mean"] = np.asarray(params.obs_stats.mean)
        arrays["obs_var"] = np.asarray(params.obs_stats.var)
    file = io.BytesIO()
    np.savez(file, allow_pickle=False, **arrays)
    about = {"layers": len(layers), "activation": spec.activation, "tanh": algorithm.squashed}
    return {
        "policy.json": _write_about(run, **about),
        "policy.npz": file.getvalue(),
        "policy.py": Path(numpy_policy.__file__).read_bytes(),
    }


def _write_stablehlo(run: "Run") -> dict[str, bytes]:
    """Return the files of a policy in StableHLO, for any number of observations."""
    algo, params, env = run.algo, run.params, run.params.spec.env
    (rows,) = jax_export.symbolic_shape("rows")
    example = jax.ShapeDtypeStruct((rows, *env.obs_shape), env.obs_dtype)
    policy = jax.jit(lambda obs: algo.policy(params, obs))
    exported = jax_export.export(policy, platforms=PLATFORMS)(example)
    try:
        content = bytes(exported.serialize())
    except ImportError as error:
        raise ConfigError(
            "format stablehlo needs flatbuffers: pip install 'purerl[export]'"
        ) from error
    about = _write_about(
        run,
        platforms=list(exported.platforms),
        calling_convention_version=exported.calling_convention_version,
        input=[["rows", *env.obs_shape], env.obs_dtype],
        output=[["rows", *exported.out_avals[0].shape[1:]], str(exported.out_avals[0].dtype)],
        jax=jax.__version__,
    )
    return {"policy.json": about, "policy.stablehlo": content}


def _read_stablehlo(folder: Path) -> Callable[[Any], Any]:
    content = (folder / "policy.stablehlo").read_bytes()
    return jax_export.deserialize(bytearray(content)).call


# Format -> function that returns its files, function that reads a policy back from its folder.
FORMS: dict[str, tuple[Callable[["Run"], dict[str, bytes]], Callable[[Path], Any]]] = {
    "numpy": (_write_numpy, numpy_policy.load),
    "stablehlo": (_write_stablehlo, _read_stablehlo),
}


def _check_actions(run: "Run", policy: Callable[[Any], Any]) -> None:
    """Raise `ConfigError` if an exported policy does not act like the run's policy."""
    obs, env = _draw_observations(run), run.params.spec.env
    wanted, found = np.asarray(run.policy(obs)), np.asarray(policy(obs))
    same = found.shape == wanted.shape and found.dtype.kind == wanted.dtype.kind
    if same and isinstance(env.action, Discrete):  # rounding may decide between equal values
        same = int((found != wanted).sum()) <= ROWS // 16
    elif same:
        same = bool(np.abs(env.normalise(found) - env.normalise(wanted)).max() < TOLERANCE)
    if not same:
        raise ConfigError(
            "the exported policy does not act as the original does, and was removed. Please "
            "report this, with the output of purerl inspect."
        )


def _draw_observations(run: "Run") -> np.ndarray:
    """Return observations for a comparison, from the range of training if the policy knows it."""
    spec = run.params.spec
    shape, dtype = (ROWS, *spec.env.obs_shape), np.dtype(spec.env.obs_dtype)
    if dtype.kind != "f":
        return np.asarray(jax.random.randint(jax.random.key(0), shape, 0, 100)).astype(dtype)
    obs = 2 * np.asarray(jax.random.normal(jax.random.key(0), shape))
    if getattr(spec, "normalise_obs", False):
        stats = run.params.obs_stats
        obs = np.asarray(stats.mean) + np.sqrt(np.asarray(stats.var)) * obs
    return obs.astype(dtype)
