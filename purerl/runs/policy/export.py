"""`purerl export`: a policy as a folder that needs no purerl.

    numpy       policy.npz, policy.json and policy.py, which runs on numpy alone
    stablehlo   policy.stablehlo and policy.json, for whatever runs StableHLO; `jax.export` reads it

What was written is read back and compared with the policy before the folder gets its name.
"""

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from purerl import errors
from purerl.cli import run_arguments
from purerl.runs.console import print_lines
from purerl.runs.policy import numpy_policy
from purerl.runs.record import files as storage

if TYPE_CHECKING:
    from purerl.runs.policy.run import Run

PLATFORMS = ("cpu", "cuda", "tpu")
ROWS = 64  # observations on which the two are compared
TOLERANCE = 1e-4  # between their actions, in units of [-1, 1]
# Algorithm -> the network that acts, and whether its output is squashed by tanh.
ACTING = {
    "ddpg": ("actor", True),
    "dqn": ("critic", False),
    "ppo": ("actor", False),
    "reinforce": ("actor", False),
    "sac": ("actor", True),
    "td3": ("actor", True),
    "trpo": ("actor", False),
    "vpg": ("actor", False),
}


def export_policy(run: "Run", form: str = "numpy", folder: str | Path | None = None) -> Path:
    """Write the deterministic policy of a run into a new folder.

    Args:
        run: whose policy.
        form: `numpy` (default networks only) or `stablehlo`.
        folder: not there yet; None for one in the run's folder.

    Returns:
        The folder.

    Raises:
        ConfigError: if the policy cannot be exported so, or the folder is there.
    """
    if form not in FORMS:
        raise errors.ConfigError(f"format must be one of {', '.join(FORMS)}, got {form!r}.")
    write, read = FORMS[form]
    path = _free(run, form) if folder is None else Path(folder)
    if path.exists():
        raise errors.ConfigError(f"{path} exists, and nothing is ever written over.")
    files = write(run)
    storage.make_folder(path.parent)
    made = path.with_name(f".{path.name}.tmp")
    storage.remove(made)
    storage.make_folder(made)
    try:
        for name, content in files.items():
            storage.write_file(made / name, content)
        storage.sync_folder(made)
        _check(run, read(made))
    except BaseException:
        storage.remove(made)
        raise
    storage.rename_into_place(made, path)
    return path


def _about(run: "Run") -> dict[str, Any]:
    from purerl.runs.settings import config as configs

    plain = configs.to_json(run.config)
    found = {name: plain[name] for name in ("algo", "env", "seed", "spaces")}
    return {"format": numpy_policy.FORMAT, "step": run.step} | found


def _numpy(run: "Run") -> dict[str, bytes]:
    """Return the files of a policy on numpy."""
    spec, params = run.params.spec, run.params
    name, tanh = ACTING[run.config.algo]
    if getattr(spec, name) is not None:
        raise errors.ConfigError(
            f"format numpy knows the default networks; this {name} is one's own, "
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
    about = {"layers": len(layers), "activation": spec.activation, "tanh": tanh}
    return {
        "policy.json": _json(_about(run) | about),
        "policy.npz": _npz(arrays),
        "policy.py": Path(numpy_policy.__file__).read_bytes(),
    }


def _stablehlo(run: "Run") -> dict[str, bytes]:
    """Return the files of a policy in StableHLO, for any number of observations."""
    import jax
    from jax import export

    algo, params, env = run.algo, run.params, run.params.spec.env
    (rows,) = export.symbolic_shape("rows")
    example = jax.ShapeDtypeStruct((rows, *env.obs_shape), env.obs_dtype)
    policy = jax.jit(lambda obs: algo.policy(params, obs))
    exported = export.export(policy, platforms=PLATFORMS)(example)
    try:
        content = bytes(exported.serialize())
    except ImportError as error:
        raise errors.ConfigError(
            "format stablehlo needs flatbuffers: pip install 'purerl[export]'"
        ) from error
    about = {
        "platforms": list(exported.platforms),
        "calling_convention_version": exported.calling_convention_version,
        "input": [["rows", *env.obs_shape], env.obs_dtype],
        "output": [["rows", *exported.out_avals[0].shape[1:]], str(exported.out_avals[0].dtype)],
        "jax": jax.__version__,
    }
    return {"policy.json": _json(_about(run) | about), "policy.stablehlo": content}


def _read_numpy(folder: Path) -> Callable[[Any], Any]:
    return numpy_policy.load(folder)


def _read_stablehlo(folder: Path) -> Callable[[Any], Any]:
    from jax import export

    content = (folder / "policy.stablehlo").read_bytes()
    return export.deserialize(bytearray(content)).call


def _check(run: "Run", policy: Callable[[Any], Any]) -> None:
    """Refuse a policy that does not act as the run's does."""
    from purerl.spaces import Discrete

    obs, env = _observations(run), run.params.spec.env
    wanted, found = np.asarray(run.policy(obs)), np.asarray(policy(obs))
    same = found.shape == wanted.shape and found.dtype.kind == wanted.dtype.kind
    if same and isinstance(env.action, Discrete):  # rounding may decide between equal values
        same = int((found != wanted).sum()) <= ROWS // 16
    elif same:
        same = bool(np.abs(env.normalise(found) - env.normalise(wanted)).max() < TOLERANCE)
    if not same:
        raise errors.ConfigError(
            "what was exported does not act as the policy does, and was removed. Please report "
            "this, with the output of purerl inspect."
        )


def _observations(run: "Run") -> np.ndarray:
    """Return observations to compare on, near those the policy was trained on where it knows."""
    import jax

    spec = run.params.spec
    shape, dtype = (ROWS, *spec.env.obs_shape), np.dtype(spec.env.obs_dtype)
    if dtype.kind != "f":
        return np.asarray(jax.random.randint(jax.random.key(0), shape, 0, 100)).astype(dtype)
    obs = 2 * np.asarray(jax.random.normal(jax.random.key(0), shape))
    if getattr(spec, "normalise_obs", False):
        stats = run.params.obs_stats
        obs = np.asarray(stats.mean) + np.sqrt(np.asarray(stats.var)) * obs
    return obs.astype(dtype)


def _free(run: "Run", form: str) -> Path:
    """Return a path in the run's folder where nothing is."""
    for number in range(1, 1_000_000):
        path = run.folder / "export" / f"{run.step:012d}-{form}-{number}"
        if not path.exists():
            return path
    raise errors.StorageError(f"{run.folder / 'export'} is full.")


def _json(content: dict[str, Any]) -> bytes:
    return (json.dumps(content, indent=1) + "\n").encode()


def _npz(arrays: dict[str, np.ndarray]) -> bytes:
    file = io.BytesIO()
    np.savez(file, allow_pickle=False, **arrays)
    return file.getvalue()


def command(words: list[str]) -> int:
    """Write the policy of a run as a folder."""
    parser = run_arguments.make_parser("export", "Write a policy as a folder that needs no purerl.")
    parser.add_argument("--format", choices=tuple(FORMS), default="numpy", help="default: numpy")
    parser.add_argument("--out", type=Path, help="folder, not there yet (default: in the run's)")
    args = parser.parse_args(words)

    def export() -> None:
        path = export_policy(run_arguments.load_run(args, args.run), args.format, args.out)
        names = ", ".join(sorted(p.name for p in path.iterdir()))
        print_lines(f"written and checked: {path} ({names})")

    return run_arguments.run_command("export", export)


# Format -> what writes the files, and what reads a folder of them.
FORMS = {"numpy": (_numpy, _read_numpy), "stablehlo": (_stablehlo, _read_stablehlo)}
