"""Fixtures that run a command in this process, or record runs instead of starting them."""

from types import SimpleNamespace

import pytest

import purerl
from purerl.cli.commands import sweep, train_and_resume
from purerl.runs.settings import aliases, config
from purerl.runs.sweeps.results import Sweep
from tests.cli.commands.call import call
from tests.mpi.launch import ROOT


@pytest.fixture
def start_nothing(monkeypatch):
    """Record the configurations of runs, by name and seed, instead of starting them."""
    found = {}

    def train(words, prog):
        assert prog == "python -m purerl.run"
        args = train_and_resume.make_parser(words[0], words).parse_args(words[1:])
        settings, base, _ = train_and_resume.read_settings(words[0], args)
        content = aliases.build_configuration(words[0], settings, base)
        for seed in args.seed or [0]:
            found[content.get("name"), seed] = config.from_json(content)
        found["where"] = (args.num_cpu or 1, args.data_dir, bool(args.datestamp))
        return 0

    def variants(named, name, algo, plan, values, base):
        for word, seed, settings in named:
            found[word, seed] = config.from_json(aliases.build_configuration(algo, settings, base))
        found["where"] = (plan.num_cpu, plan.data_dir, plan.datestamp)
        return Sweep((), 0, ROOT)

    monkeypatch.setattr(train_and_resume, "train", train)
    monkeypatch.setattr(sweep, "run_variants", variants)
    return found


@pytest.fixture
def here(capsys, monkeypatch):
    """Run a command in this process."""
    monkeypatch.setattr(purerl, "setup", lambda *args, **kwargs: None)  # JAX has started

    def run(*words):
        capsys.readouterr()
        return SimpleNamespace(code=call(*words), **capsys.readouterr()._asdict())

    return run
