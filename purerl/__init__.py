"""purerl: reinforcement learning as pure functions, in JAX.

Importing the package imports nothing heavy and changes no global setting:

    from purerl.algos import td3            # init, act, policy, loss, update
    from purerl.loops import gym as loop    # start, advance, run, evaluate
    run = purerl.train("sac", "Pendulum-v1", steps=20_000)
    run = purerl.load("runs/pendulum-v1-sac/pendulum-v1-sac_s0", "best")
"""

from typing import TYPE_CHECKING, Any

from purerl._setup import setup

if TYPE_CHECKING:
    from purerl.runs.policy.run import Run

__version__ = "0.1.0"
__all__ = ["__version__", "load", "setup", "train"]


def load(path: Any, checkpoint: str | int = "last", **options: Any) -> "Run":
    """Load a run with the policy of a checkpoint: `last`, `best` or a step.

    Args:
        path: folder of the run.
        checkpoint: which.
        **options: `env_fn` and `spec`, as `purerl.runs.policy.run.load` takes them.
    """
    from purerl.runs.policy import run

    return run.load(path, checkpoint, **options)


def train(algo: str, env: Any, **settings: Any) -> "Run":
    """Train in a new folder and return the run.

    Args:
        algo: name of the algorithm.
        env: Gymnasium id, or a function that makes the environment.
        **settings: `seed`, `name`, `data_dir` and others that `purerl.runs.policy.run.train` takes,
            and all fields of the algorithm's `Spec`, of its schedule, and of the run's options.
    """
    from purerl.runs.policy import run

    return run.train(algo, env, **settings)
