"""Functions that a grid calls in separate processes, and that end in different ways."""

import os
import signal
import sys
import time
from pathlib import Path


def fate(kind, seed, scale=1.0):
    """Return a number, or end in the way that `kind` names."""
    print(f"{kind} with seed {seed}", flush=True)
    if kind == "raise":
        raise ArithmeticError("boom\x1b[31m")
    if kind == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if kind == "leave":
        os._exit(0)
    if kind == "exit":
        sys.exit(0)
    if kind == "hang":
        time.sleep(600)
    return {"nan": float("nan"), "word": None}.get(kind, scale * (seed + 1))


def write_log(seed, lr, logger_kwargs):
    """Write a log and a custom configuration, as the algorithms of Spinning Up do."""
    from purerl.runs.record.logger import EpochLogger

    logger = EpochLogger(**logger_kwargs)
    logger.save_config({"lr": lr, "seed": seed, "env": None})
    logger.store(EpRet=lr)
    logger.log_tabular("Epoch", 1)
    logger.log_tabular("EpRet", with_min_and_max=True)
    logger.dump_tabular()
    return lr


def count_calls(path, seed):
    """Append a line to the file at `path`, and wait until the file `path.go` exists."""
    with open(path, "a") as file:
        file.write(f"{seed}\n")
    for _ in range(30_000):  # ten minutes
        if Path(f"{path}.go").exists():
            return seed
        time.sleep(0.02)
    raise TimeoutError(f"{path}.go did not appear within ten minutes")


def report_arguments(seed, logger_kwargs, ac_kwargs, env_fn):
    """Write the arguments to a file in the folder of the run."""
    env = env_fn()
    name = env.spec.id
    env.close()
    out = Path(logger_kwargs["output_dir"]) / "arguments.txt"
    threads = os.environ["OMP_NUM_THREADS"]
    out.write_text(f"{name} {ac_kwargs} {seed} {logger_kwargs['exp_name']} {threads}")
