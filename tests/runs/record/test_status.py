"""The status of runs, and the commands to type for them."""

import json

from purerl.runs.record import status


def test_what_is_to_be_typed_can_be_copied(tmp_path):
    run = tmp_path / "my runs" / "a"
    run.mkdir(parents=True)
    quoted = f"'{run}'"
    assert status.format_command("watch", run) == f"purerl watch {quoted}"
    (run / "config.json").write_text(json.dumps({"env": "mine:Own v0"}))
    status.write_status(run, {"ranks": 2})
    assert status.format_command("watch", run) == f"purerl watch {quoted} --env 'mine:Own v0'"
    assert status.format_command("plot", run) == f"purerl plot {quoted}"
    assert status.format_command("resume", run, "--steps", "8") == (
        f"purerl resume {quoted} --steps 8 --env 'mine:Own v0' --num-cpu 2"
    )
