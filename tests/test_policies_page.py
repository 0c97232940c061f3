"""Every snippet and command of docs/policies.md runs as printed."""

import re
import shlex
import subprocess
import sys

from tests.mpi.launch import ROOT, clean

TEXT = (ROOT / "docs" / "policies.md").read_text()


def test_the_snippets_and_commands_run_one_after_the_other(tmp_path):
    def python(*words):
        env = clean(DISPLAY="", WAYLAND_DISPLAY="", SDL_VIDEODRIVER="dummy")
        command = [sys.executable, *words]
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
    for command in commands:
        python(*shlex.split(command)[1:])
    assert (tmp_path / "pole.gif").exists()
    assert (tmp_path / "pole" / "policy.py").exists()
