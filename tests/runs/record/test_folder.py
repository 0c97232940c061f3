"""Folders of runs: a new run gets the next free name, unless an earlier one is unfinished."""

import io

import pytest

from purerl.errors import ConfigError
from purerl.runs.record import folder, safe_files
from purerl.runs.settings import config as configs
from purerl.runs.training import train
from purerl.runs.training.progress_bar import Screen
from tests.runs.script import settings, tiny


def test_a_second_run_gets_its_own_folder_unless_the_first_is_unfinished(tmp_path):
    config = settings("td3")
    first = folder.create_folder(configs.to_json(config), str(tmp_path))
    folder.update_status(first, status="done")
    second = folder.create_folder(configs.to_json(config), str(tmp_path))
    assert second.name == f"{first.name}-2"
    folder.update_status(second, status="stopped", step=40_000)
    with pytest.raises(ConfigError, match=r"not finished \(step 40,000\).*purerl resume.*--name"):
        folder.create_folder(configs.to_json(config), str(tmp_path))
    with (
        safe_files.lock_folder(second),
        pytest.raises(ConfigError, match=r"is running in .* --name other"),
    ):
        folder.create_folder(configs.to_json(config), str(tmp_path))
    dated = folder.create_folder(configs.to_json(config), str(tmp_path), datestamp=True)
    assert dated.parent.name.endswith(f"_{config.name}")


def test_a_failed_run_is_named_with_the_command_that_continues_it(tmp_path):
    first = folder.create_folder(configs.to_json(tiny()), str(tmp_path))
    folder.update_status(first, status="failed", reason="EnvFault: no\x1b joint")
    said = []
    second = folder.create_folder(configs.to_json(tiny()), str(tmp_path), say=said.append)
    assert second.name == f"{first.name}-2"
    assert said == [
        f"an earlier run failed (EnvFault: no? joint): {first}. Continue: purerl resume {first}"
    ]
    out = io.StringIO()
    run = train.train(tiny(), data_dir=str(tmp_path), screen=Screen(out)).run
    assert out.getvalue().startswith(said[0])
    assert (run / "stdout.log").read_text().startswith(said[0])
