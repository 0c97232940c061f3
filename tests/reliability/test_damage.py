"""Damaged files of a run: either the data are as written, or the damage is reported."""

import collections
import dataclasses
import random
import shutil

import pytest

from purerl import errors
from purerl.errors import ConfigError
from purerl.runs.record import checkpoint, checkpoint_folders, folder, status
from purerl.runs.settings import config as configs
from purerl.runs.settings.config import Options
from purerl.runs.training import train
from purerl.runs.training.progress_bar import Screen
from purerl.runs.training.saving import describe_run
from tests.loops.test_snapshot import bits
from tests.reliability.counts import sizes
from tests.runs.script import settings

NAMED = (ConfigError, errors.StorageError, errors.NoCheckpoint)  # errors of one line
UNREAD = "stdout.log"  # nothing reads it


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    """Return a finished run with all kinds of files, its configuration and its checkpoints."""
    config = settings("td3")
    schedule = dataclasses.replace(config.schedule, steps=1_000, steps_per_epoch=250)
    config = dataclasses.replace(config, schedule=schedule, options=Options(100, keep=3))
    data = str(tmp_path_factory.mktemp("good"))
    run = train.train(config, data_dir=data, screen=Screen(quiet=True)).run
    truths = {step: bits(load(run, step).frozen) for step in checkpoint_folders.list_steps(run)}
    return run, config, truths


def load(run, step=None):
    """Load a checkpoint as `resume` does, without making the environment."""
    content = status.read_json(run / "config.json")
    config = configs.from_json(content)
    return checkpoint.load(run, describe_run(config), 0, step)


def files(run):
    found = [p.relative_to(run) for p in sorted(run.rglob("*")) if p.is_file()]
    return [p for p in found if p.name not in (".lock", UNREAD)]


def damage(path, way, rng):
    """Damage a file; return whether its content changed."""
    before = path.read_bytes()
    content, size = bytearray(before), len(before)
    place = rng.randrange(size)
    length = rng.randint(1, max(1, min(64, size - place)))
    match way:
        case "flip":
            content[place] ^= 1 << rng.randrange(8)
        case "cut":
            del content[place:]
        case "zeros":
            content[place : place + length] = bytes(length)
        case "swap":
            other = rng.randrange(size)
            content[place], content[other] = content[other], content[place]
        case "take out":
            del content[place : place + length]
        case "duplicate":
            content[place:place] = content[place : place + length]
        case "delete":
            path.unlink()
            return True
        case "exchange":  # replace it by another file of the run
            others = [p for p in path.parents[1].rglob("*.*") if p.is_file() and p != path]
            content = bytearray(rng.choice(sorted(others)).read_bytes())
    path.write_bytes(content)
    return bytes(content) != before


WAYS = ("flip", "cut", "zeros", "swap", "take out", "duplicate", "delete", "exchange")


def logs(run):
    """Return the rows of the logs, without empty cells and line ends at their ends."""
    paths = [run / name for name in ("progress.txt", "metrics.jsonl", "episodes.csv")]
    texts = [path.read_bytes() if path.exists() else b"" for path in paths]
    table = b"\n".join(row.rstrip(b"\t") for row in texts[0].splitlines()[1:])
    return [text.rstrip(b"\n") for text in (table, *texts[1:])]


def verdict(run, good, config, truths, state, best):
    """Read a damaged run; return `as written`, `said`, `refused`, or `silent` with the reason."""
    if status.read_status(run) not in (state, {}):
        return "silent: status.json"
    try:
        found = configs.from_json(status.read_json(run / "config.json"))
        loaded = load(run)
    except NAMED as error:
        return "refused" if str(error) else "silent: an error without a word"
    if bits(loaded.frozen) != truths[loaded.step]:
        return "silent: other numbers"
    said = loaded.skipped or loaded.changed or not status.read_status(run)
    if loaded.step != max(truths) and not loaded.skipped:
        return "silent: another step"
    if found != config and not said:
        return "silent: config.json"
    if checkpoint_folders.read_best(run) != best and not said:
        return "silent: best.json"
    if not all(map(bytes.startswith, logs(run), logs(good))) and not said:  # more is cut off
        return "silent: a log"
    return "said" if said else "as written"


@sizes("damages")
def test_every_damage_is_reported_or_harmless(good, tmp_path, figures, number):
    run, config, truths = good
    state, best = status.read_status(run), checkpoint_folders.read_best(run)
    assert state["status"] == "done"
    assert best
    names, rng = files(run), random.Random(number)
    kinds = {"".join(c for c in p.name if not c.isdigit()) for p in names}
    assert kinds == {
        "config.json", "status.json", "progress.txt", "metrics.jsonl", "episodes.csv",
        "best.json", "manifest.json", "rank.npz", "--.npz",
    }  # fmt: skip
    counts, silent, tried = collections.Counter(), [], 0
    while tried < number:
        copy = tmp_path / "copy"
        shutil.copytree(run, copy)
        name, way = names[tried % len(names)], WAYS[tried // len(names) % len(WAYS)]
        if damage(copy / name, way, rng):
            tried += 1
            found = verdict(copy, run, config, truths, state, best)
            counts[found] += 1
            if found.startswith("silent"):
                silent.append((str(name), way, found))
        shutil.rmtree(copy)
    figures(cases=tried, files=len(names), **counts)
    assert not silent


SMALL = ("config.json", "status.json", "checkpoints/best.json", "checkpoints/{}/manifest.json")


@pytest.mark.parametrize("name", SMALL)
@sizes("cuts")
def test_small_files_cut_at_every_byte(good, tmp_path, figures, name, number):
    run, config, truths = good
    name = name.format(f"{max(truths):012d}")
    state, best = status.read_status(run), checkpoint_folders.read_best(run)
    copy = tmp_path / "copy"
    shutil.copytree(run, copy)
    content, path = (run / name).read_bytes(), copy / name
    step = max(1, len(content) // number)
    cuts = sorted({*range(0, len(content), step), *range(len(content) - 3, len(content))})
    counts = collections.Counter()
    for cut in cuts:
        path.write_bytes(content[:cut])
        counts[verdict(copy, run, config, truths, state, best)] += 1
    figures(file=name, cuts=len(cuts), **counts)
    assert not [one for one in counts if one.startswith("silent")], counts


@pytest.mark.parametrize("name", ["progress.txt", "metrics.jsonl", "episodes.csv"])
def test_logs_cut_at_every_byte_of_their_last_rows_are_noticed(good, tmp_path, name):
    run, *_ = good
    copy = tmp_path / "copy"
    shutil.copytree(run, copy)
    seen = checkpoint.load(run, {}, 0).manifest["seen"]
    content = (run / name).read_bytes()
    rows = content.splitlines(keepends=True)
    for cut in range(len(content) - len(b"".join(rows[-3:])), len(content)):
        (copy / name).write_bytes(content[:cut])
        if not content[cut:].strip(b"\t\n"):  # empty cells and line ends contain no data
            continue
        (said,) = checkpoint_folders.find_changes(copy, seen)
        assert name in said
        assert "was changed after the checkpoint" in said
    (copy / name).write_bytes(content + b"a row that came later\n")
    assert not checkpoint.load(copy, {}, 0).changed


def test_a_longer_configuration_is_noticed(good, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(good[0], copy)
    with open(copy / "config.json", "a") as file:
        file.write(" ")
    (said,) = checkpoint.load(copy, {}, 0).changed
    assert "config.json was changed after the checkpoint" in said


def test_a_later_column_is_not_damage(good, tmp_path):
    run, *_ = good
    copy = tmp_path / "copy"
    shutil.copytree(run, copy)
    header, *rows = (run / "progress.txt").read_text().splitlines()
    wider = [f"{header}\tLate", *(f"{row}\t" for row in rows), "1\t2\t3"]
    (copy / "progress.txt").write_text("\n".join(wider) + "\n")
    assert not checkpoint.load(copy, {}, 0).changed


def test_a_changed_status_is_ignored_and_written_again(good, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(good[0], copy)
    path = copy / "status.json"
    path.write_text(path.read_text().replace('"step": 1000', '"step": 9000'))
    assert status.read_status(copy) == {}
    folder.update_status(copy, status="running", step=7)
    assert status.read_status(copy)["step"] == 7
    assert status.read_status(copy)["versions"]
