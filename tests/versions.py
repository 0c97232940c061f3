"""Run the quick test suite on each supported Python that this machine has: `make test-versions`.

    python tests/versions.py           # all of them, and the oldest packages that are allowed
    python tests/versions.py --smoke   # imports, two trainings, a resume and some tests of the
                                       # contract on the newest Python, if it is newer than this one

The supported versions are the classifiers in pyproject.toml. Interpreters are found on the PATH and
among those of pyenv. Each has its own environment, such as `.venv-3.13`.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
LABEL = "Programming Language :: Python :: "
OLDEST = ROOT / ".venv-oldest"


def list_supported() -> list[tuple[int, int]]:
    """Return the versions of Python in pyproject.toml, oldest first."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    names = [x.removeprefix(LABEL) for x in project["classifiers"] if x.startswith(LABEL)]
    return sorted((3, int(name.partition(".")[2])) for name in names if "." in name)


def find_python(version: tuple[int, int]) -> str | None:
    """Return the path of an interpreter that starts and can make environments."""
    name = "{}.{}".format(*version)
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    found = [shutil.which(f"python{name}"), *sorted(pyenv.glob(f"versions/{name}.*/bin/python"))]
    program = "import ensurepip, sys, venv; print(sys.version_info[:2])"
    for path in map(str, filter(None, found)):
        done = subprocess.run([path, "-c", program], capture_output=True, text=True)
        if done.returncode == 0 and done.stdout.strip() == str(version):
            return path
    return None


def install_oldest(python: str) -> None:
    """Make an environment with the oldest versions of all direct dependencies."""
    done, project = OLDEST / ".installed-dev", ROOT / "pyproject.toml"
    if done.exists() and done.stat().st_mtime >= project.stat().st_mtime:
        return
    own = str(OLDEST / "bin" / "python")
    quiet = ["--quiet", "--disable-pip-version-check"]
    run([python, "-m", "venv", str(OLDEST)])
    run([own, "-m", "pip", "install", *quiet, "uv"])
    lowest = ["--quiet", "--python", own, "--resolution", "lowest-direct"]
    run([own, "-m", "uv", "pip", "install", *lowest, "--editable", ".[dev]"])
    done.touch()


def run(command: list[str]) -> None:
    """Run a command in the project's folder, and end this program if it fails."""
    print("+", *command, flush=True)
    env = {name: value for name, value in os.environ.items() if name != "MAKEFLAGS"}
    code = subprocess.run(command, cwd=ROOT, env=env).returncode
    if code:
        sys.exit(code)


def run_suites() -> None:
    """Run the quick suite on all versions that are found."""
    for version in list_supported():
        name = "{}.{}".format(*version)
        python = find_python(version)
        if python is None:
            print(f"Python {name} was not found: skipped", flush=True)
            continue
        run(["make", "unit", f"PYTHON={python}"])
        if version == list_supported()[0]:
            install_oldest(python)
            run(["make", "unit", f"PYTHON={python}", f"VENV={OLDEST.name}"])


def run_smoke() -> None:
    """Run a few programs and tests on the newest Python."""
    newer = [version for version in list_supported() if version > sys.version_info[:2]]
    found = [(version, path) for version in newer if (path := find_python(version))]
    if not found:
        print("no newer supported Python was found: skipped", flush=True)
        return
    version, path = found[-1]
    venv = ".venv-{}.{}".format(*version)
    run(["make", f"{venv}/.installed-dev", f"PYTHON={path}"])
    python = str(ROOT / venv / "bin" / "python")
    run([python, "-W", "error", "-c", "import purerl; purerl.algos.td3; purerl.loops.gym"])
    with tempfile.TemporaryDirectory() as folder:
        words = ["--data-dir", folder, "--steps", "3000", "--hidden", "32,32"]
        td3 = ["td3", "--env", "Pendulum-v1", "--name", "gym", "--start-steps", "1000"]
        run([python, "-m", "purerl", "train", *td3, *words])
        run([python, "-m", "purerl", "resume", f"{folder}/gym/gym_s0", "--steps", "4000"])
        ppo = ["ppo", "--env", "jax:CartPole-v1", "--name", "jax", "--steps-per-epoch", "1000"]
        run([python, "-m", "purerl", "train", *ppo, *words])
    run([python, "-m", "pytest", "-q", "tests/contract", "-k", "td3 or ppo", "-m", "not complete"])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--smoke", action="store_true", help="a few programs on the newest Python")
    run_smoke() if parser.parse_args().smoke else run_suites()
