"""`purerl export`: a folder that runs without purerl."""

import json
import subprocess
import sys

import numpy as np

import purerl
from tests.runs.trained import begun

RUN_IT = """
import sys, json
for name in ("jax", "jaxlib", "flax", "optax", "gymnasium", "purerl", "scipy"):
    sys.modules[name] = None
import numpy as np
sys.path.insert(0, sys.argv[1])
from policy import load
policy = load()
one = policy(np.zeros(4))
print(json.dumps([one, policy(np.eye(4)).tolist(), type(one).__name__]))
"""


def test_the_exported_folder_needs_only_numpy(here, tmp_path):
    run, made = begun("ppo"), tmp_path / "a b" / "made"
    words = ("export", str(run.folder), "--out", str(made), "--checkpoint", "0")
    done = here(*words)
    assert done.code == 0, done.err
    assert "written and checked" in done.out
    done = subprocess.run(
        [sys.executable, "-I", "-c", RUN_IT, str(made)], capture_output=True, text=True, cwd="/"
    )
    assert done.returncode == 0, done.stderr
    loaded = purerl.load(run.folder, 0)
    wanted = [loaded.policy(np.zeros(4)), loaded.policy(np.eye(4)).tolist(), "int"]
    assert json.loads(done.stdout) == wanted
    about = json.loads((made / "policy.json").read_text())
    assert (about["algo"], about["env"], about["step"]) == ("ppo", "CartPole-v1", 0)
    again = here(*words)
    assert again.code == 2
    assert "already exists; purerl never overwrites files" in again.err
    assert not [p for p in made.parent.iterdir() if p != made]
