"""Receivers of a run's rows besides its folder: TensorBoard, Weights & Biases, custom ones."""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from purerl.errors import ConfigError
from purerl.runs.record import machine
from purerl.runs.settings.config import Config

OPTIONS = ("tensorboard", "wandb")  # each needs the extra of its name


class Sink(Protocol):
    """Receiver of the rows of a run; pass a custom one to `train(config, sinks=(mine,))`."""

    def write(self, step: int, row: Mapping[str, float]) -> None:
        """Receive the finite numbers of a row of `progress.txt`, once per epoch on rank 0."""

    def close(self) -> None:
        """Write or send the remaining rows, at the end of the run."""


def check_packages(config: Config) -> None:
    """Refuse options whose package is missing, before the run starts."""
    for option in OPTIONS:
        if getattr(config.options, option) and (command := machine.explain_missing(option)):
            package = machine.EXTRAS[option]
            raise ConfigError(f"{option} needs {package}, which is not installed. Type: {command}")


class TensorBoard:
    """Event files for TensorBoard, of a run that begins or continues at a step."""

    def __init__(self, path: Path, step: int) -> None:
        from tensorboardX import SummaryWriter  # an optional package

        purge = step + 1 if step else None  # hides rows written after the checkpoint
        self.writer = SummaryWriter(str(path), purge_step=purge)

    def write(self, step: int, row: Mapping[str, float]) -> None:
        """Write a row."""
        for name, value in row.items():
            self.writer.add_scalar(name, value, step)
        self.writer.flush()

    def close(self) -> None:
        """Write the remaining rows and close the files."""
        self.writer.close()


class WandB:
    """A run of Weights & Biases, which a resumed run continues."""

    def __init__(self, project: str, run: Path, content: dict[str, Any]) -> None:
        import wandb  # an optional package

        mark = hashlib.sha256(str(run.resolve()).encode()).hexdigest()[:8]
        names = {"project": project, "name": run.name, "id": f"{run.name}-{mark}", "dir": str(run)}
        self.run = wandb.init(**names, config=content, resume="allow")
        self.run.define_metric("*", step_metric="TotalEnvInteracts")

    def write(self, step: int, row: Mapping[str, float]) -> None:
        """Send a row."""
        self.run.log({**row, "TotalEnvInteracts": step})

    def close(self) -> None:
        """Send the remaining rows and finish the run at Weights & Biases."""
        self.run.finish()
