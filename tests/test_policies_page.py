"""Every snippet and command of docs/guides/policies.md runs as printed."""

import re
import shlex
import subprocess
import sys

import pytest

from tests.mpi.launch import ROOT, clean

# All commands run in one process, because each start of JAX takes seconds.
COMMANDS = """
from purerl.cli.main import main
for arguments in {commands!r}:
    assert main(arguments) == 0, arguments
"""
TEXT = (ROOT / "docs" / "guides" / "policies.md").read_text()


@pytest.mark.complete
def test_the_snippets_and_commands_run_one_after_the_other(tmp_path):
    def python(*arguments):
        env = clean(DISPLAY="", WAYLAND_DISPLAY="", SDL_VIDEODRIVER="dummy")
        command = [sys.executable, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=env)
        assert done.returncode == 0, done.stderr
        assert done.stdout.strip()

    snippets = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    assert len(snippets) == 4
    (tmp_path / "page.py").write_text("\n".join(snippets))
    python("page.py")
    blocks = re.findall(r"```bash\n(.*?)```", TEXT, re.DOTALL)
    commands = [line for block in blocks for line in block.splitlines()]
    assert len(commands) == 4
    commands = [shlex.split(command.removeprefix("python -m purerl ")) for command in commands]
    (tmp_path / "commands.py").write_text(COMMANDS.format(commands=commands))
    python("commands.py")
    assert (tmp_path / "pole.gif").exists()
    assert (tmp_path / "pole" / "policy.py").exists()
