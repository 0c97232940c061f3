"""Every command and every snippet of the README, and every example, runs as printed.

Training commands run with fewer steps, and one grid with one seed. `make test` leaves out most
example scripts, because tests/test_examples.py runs them with other options. `make test-all` runs
all of them.
"""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.mpi.launch import ranks

ROOT = Path(__file__).parents[1]
LIMIT = 600  # seconds until a process that hangs is ended
TEXT = (ROOT / "README.md").read_text()
EXAMPLES = (ROOT / "docs" / "guides" / "examples.md").read_text()
COMMANDS = [
    line.split("#")[0].strip()
    for block in re.findall(r"```bash\n(.*?)```", TEXT + EXAMPLES, re.DOTALL)
    for line in block.splitlines()
    if line.split("#")[0].strip()
]
# Fewer steps for commands that train.
SHORT = {
    "examples/run_sac.py": ["--steps", "1200"],
    "examples/run_td3.py": ["--steps", "1200"],
    "examples/run_ddpg.py": ["--steps", "1200"],
    "examples/run_crossq.py": ["--steps", "1200", "--num-test-episodes", "2"],
    "examples/run_acer.py": ["--steps", "3200", "--replay-start", "640"],
    "examples/run_dqn.py": ["--steps", "1200"],
    "examples/run_pqn.py": ["--steps", "4096"],
    "examples/run_ppo.py": ["--steps", "4000"],
    "examples/run_trpo.py": ["--steps", "4000"],
    "examples/run_vpg.py": ["--steps", "4000"],
    "examples/run_reinforce.py": ["--steps", "4000"],
    "examples/pg_simple.py": ["--epochs", "1"],
    "examples/pg_reward_to_go.py": ["--epochs", "1"],
    "examples/custom_ddpg_ou.py": ["--steps", "1200"],
    "examples/custom_td3_loop.py": ["--steps", "1200"],
    "examples/custom_ppo_jax.py": ["--steps", "8192"],
    "examples/vmap_seeds.py": ["--steps", "1200"],
    "examples/run_scan_ppo.py": ["--steps", "5120", "--seeds", "2"],
    "examples/custom_jax_env.py": ["--steps", "2000"],
    "examples/compare_loops.py": ["--steps", "400"],
    "examples/bench_ppo_cartpole.py": ["--num_runs", "1", "--epochs", "1"],
}
# Fewer steps and smaller networks for the snippets.
SHORT_SNIPPETS = {
    "steps=8_000": "steps=4_000",
    "hidden=(64, 64)": "hidden=(8, 8)",
}


def test_the_readme_contains_commands_and_snippets():
    assert len(COMMANDS) >= 7
    assert TEXT.count("```python") >= 2


def test_the_snippets_run_as_one_program(tmp_path):
    snippets = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    script = tmp_path / "readme.py"
    text = "\n".join(snippets)
    for printed, short in SHORT_SNIPPETS.items():
        assert text.count(printed) == 1
        text = text.replace(printed, short)
    script.write_text(text)
    run = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, cwd=tmp_path, timeout=LIMIT
    )
    assert run.returncode == 0, run.stderr
    assert len(run.stdout.splitlines()) == 1


# All commands run in one process, because each start of JAX takes seconds.
IN_ONE_PROCESS = """
import sys
from purerl import run
from purerl.cli import main
for module, *arguments in {commands!r}:
    sys.argv = [module, *arguments]
    code = main.main(arguments) if module == "purerl" else run.main(arguments)
    assert not code, (arguments, code)
    print("=== next ===", flush=True)
"""
STEPS = re.compile(r"--steps (\d+)")
GRIDS = {"--seed 0 1 ": "--seed 0 ", "--hid 32 64 --l 2 --seed 0 10 ": "--hid 32 --l 2 --seed 0 "}


def shorten(command: str) -> str:
    """Return a command with a tenth of its steps, and with fewer runs of the two grids."""
    for printed, short in GRIDS.items():
        command = command.replace(printed, short)
    return STEPS.sub(lambda match: f"--steps {int(match[1]) // 10}", command)


def test_the_purerl_commands_work_in_order(tmp_path):
    commands = [c for c in COMMANDS if c.startswith("python -m purerl")]
    assert len(commands) == 11
    words = [shlex.split(shorten(command))[2:] for command in commands]
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", IN_ONE_PROCESS.format(commands=words)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=env,
        timeout=LIMIT,
    )
    assert done.returncode == 0, done.stderr
    outputs = done.stdout.split("=== next ===\n")
    assert len(outputs) == len(commands) + 1
    assert all(map(str.strip, outputs[:-1])), done.stdout


SCRIPTS = [c for c in COMMANDS if c.startswith("python") and "-m purerl" not in c]


QUICK = {"python examples/logger_outside_rl.py"}  # `make run` runs run_sac.py, tests/mpi on ranks


@pytest.mark.parametrize(
    "command",
    [pytest.param(c, marks=[] if c in QUICK else pytest.mark.complete) for c in SCRIPTS],
)
def test_example_commands_run(command):
    words = shlex.split(command)[1:]
    short = [] if "--steps" in words else SHORT.get(words[0], [])
    run = subprocess.run(
        [sys.executable, *words, *short],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=LIMIT,
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout.strip()


@pytest.mark.complete
@pytest.mark.parametrize("command", [c for c in COMMANDS if c.startswith("mpiexec")])
def test_example_commands_run_on_ranks(command):
    _, _, number, _, *words = shlex.split(command)
    done = ranks(int(number), *words, *SHORT[words[0]])
    assert done.code == 0, done.err
    assert f"on {number} ranks" in done.out


@pytest.mark.parametrize("command", [c for c in COMMANDS if c.startswith("make")])
def test_make_targets_do_what_the_readme_says(command):
    """Print the plan of a target; under `make test`, where .venv exists, also run `make run`."""
    target = command.split()[1]
    plan = subprocess.run(
        ["make", "-n", target], capture_output=True, text=True, cwd=ROOT, timeout=LIMIT
    )
    assert plan.returncode == 0, plan.stderr
    wanted = {"run": ["examples/run_sac.py"], "test": ["ruff check", "mypy", "-m pytest"]}
    assert all(words in plan.stdout for words in wanted[target])
    if target == "run" and "MAKELEVEL" in os.environ:
        short = "ARGS=--steps 1200"
        run = subprocess.run(
            ["make", target, short], capture_output=True, text=True, cwd=ROOT, timeout=LIMIT
        )
        assert run.returncode == 0, run.stderr
        assert "return -" in run.stdout


def test_paths_and_make_targets_named_in_the_text_exist():
    for path in re.findall(r"\]\(([\w./]+)\)", TEXT):
        assert (ROOT / path).exists(), path
    for path in re.findall(r"`((?:examples|purerl|tests|docs)/[\w./]+)`", TEXT):
        assert (ROOT / path).exists(), path
    makefile = (ROOT / "Makefile").read_text()
    for page in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]:
        for target in re.findall(r"make ([a-z]+(?:-[a-z]+)*)`", page.read_text()):
            assert f"\n{target}:" in makefile, f"{page.name}: make {target}"
