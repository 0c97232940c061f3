"""Where the rows of a run may go besides its folder: TensorBoard, Weights & Biases, or your own.

A sink has `write(step, row)`, called once per epoch on rank 0 with the columns of `progress.txt`
that are finite numbers, and `close()`. Give yours to `train(config, sinks=(mine,))`.
"""

import hashlib
import importlib.util
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from purerl.errors import ConfigError
from purerl.runs.settings.config import Config

PACKAGES = {"tensorboard": "tensorboardX", "wandb": "wandb"}  # option -> what it needs


class Sink(Protocol):
    """Takes the rows of a run."""

    def write(self, step: int, row: Mapping[str, float]) -> None:
        """Take the row of an epoch that ended at an environment step."""

    def close(self) -> None:
        """Write what is left."""


def check_packages(config: Config) -> None:
    """Refuse options whose package is missing, before anything is done."""
    for option, package in PACKAGES.items():
        if getattr(config.options, option) and importlib.util.find_spec(package) is None:
            raise ConfigError(
                f"{option} needs {package}, which is not installed. "
                f"Type: pip install 'purerl[{option}]'"
            )


def make_sinks(config: Config, run: Path, content: dict[str, Any], step: int) -> list[Sink]:
    """Make the sinks that the options of a run name.

    Args:
        config: of the run.
        run: its folder.
        content: what the run is told about itself, as in `config.json`.
        step: at which it begins or goes on.
    """
    made: list[Sink] = []
    if config.options.tensorboard:
        made.append(TensorBoard(run / "tensorboard", step))
    if config.options.wandb:
        made.append(WandB(config.options.wandb, run, content))
    return made


class TensorBoard:
    """Event files for TensorBoard: `tensorboard --logdir runs`."""

    def __init__(self, folder: Path, step: int) -> None:
        from tensorboardX import SummaryWriter

        purge = step + 1 if step else None  # what a run that was cut wrote beyond its checkpoint
        self.writer = SummaryWriter(str(folder), purge_step=purge)

    def write(self, step: int, row: Mapping[str, float]) -> None:
        """Take a row."""
        for name, value in row.items():
            self.writer.add_scalar(name, value, step)
        self.writer.flush()

    def close(self) -> None:
        """Write what is left."""
        self.writer.close()


class WandB:
    """A run of Weights & Biases, which a resumed run goes on with."""

    def __init__(self, project: str, run: Path, content: dict[str, Any]) -> None:
        import wandb

        mark = hashlib.sha256(str(run.resolve()).encode()).hexdigest()[:8]
        self.run = wandb.init(
            project=project,
            name=run.name,
            id=f"{run.name}-{mark}",
            dir=str(run),
            config=content,
            resume="allow",
        )
        self.run.define_metric("*", step_metric="TotalEnvInteracts")

    def write(self, step: int, row: Mapping[str, float]) -> None:
        """Take a row."""
        self.run.log({**row, "TotalEnvInteracts": step})

    def close(self) -> None:
        """Write what is left."""
        self.run.finish()
