"""Spinning Up's command lines, run by `python -m purerl.run`."""

import pytest

from purerl import errors
from purerl.cli import main as program
from purerl.cli import spinningup
from purerl.cli.commands import sweep, train_and_resume
from purerl.runs.settings import aliases, config, presets
from tests.mpi.launch import python


def spec(**fields):
    return {"spec": fields}


# Arguments of `python -m purerl.run`, and (name, seed) of each run -> settings without defaults.
LINES = [
    ("ppo --env CartPole-v1 --exp_name x", {("x", 0): {}}),
    ("ppo_pytorch --env CartPole-v1 --exp_name x --seed 7", {("x", 7): {}}),
    (
        "ppo --env CartPole-v1 --hid 64 --l 2 --exp_name x",
        {("x", 0): spec(hidden=(64, 64))},
    ),
    (
        "ppo --env CartPole-v1 --hid 64 64 --l 2 --seed 0 10 20 --exp_name x --num_cpu 2",
        {("x", s): spec(hidden=(64, 64)) for s in (0, 10, 20)} | {"where": (2, None, False)},
    ),
    ("ppo --env CartPole-v1 --hid 64,32 --exp_name x", {("x", 0): spec(hidden=(64, 32))}),
    ("ppo --env CartPole-v1 --hid [64,32] --exp_name x", {("x", 0): spec(hidden=(64, 32))}),
    (
        "ppo --env CartPole-v1 --hid 32 64,64 --exp_name x",
        {("x_ac-hid32", 0): spec(hidden=(32,)), ("x_ac-hid64-64", 0): spec(hidden=(64, 64))},
    ),
    (
        "ppo --env CartPole-v1 --hid 32 64 --l 1 2 --exp_name x",
        {
            ("x_ac-hid32", 0): spec(hidden=(32,)),
            ("x_ac-hid32-32", 0): spec(hidden=(32, 32)),
            ("x_ac-hid64", 0): spec(hidden=(64,)),
            ("x_ac-hid64-64", 0): spec(hidden=(64, 64)),
        },
    ),
    (
        "ppo --env CartPole-v1 --exp_name x --hid[h] [32,32] [64,32] --act torch.nn.Tanh nn.relu",
        {
            ("x_h32-32_ac-acttanh", 0): spec(hidden=(32, 32), activation="tanh"),
            ("x_h32-32_ac-actrelu", 0): spec(hidden=(32, 32), activation="relu"),
            ("x_h64-32_ac-acttanh", 0): spec(hidden=(64, 32), activation="tanh"),
            ("x_h64-32_ac-actrelu", 0): spec(hidden=(64, 32), activation="relu"),
        },
    ),
    (
        "ddpg --env Pendulum-v1 --exp_name ddpg --ac_kwargs:hidden_sizes [300] --pi_lr[p] 1e-4",
        {("ddpg_p0-0001", 0): spec(hidden=(300,), pi_lr=1e-4)},
    ),
    (
        "sac --env Pendulum-v1 --exp_name s --gamma 0.9 0.99 --dt --data_dir d --cpu 1",
        {
            ("s_gam0-9", 0): spec(gamma=0.9),
            ("s_gam0-99", 0): spec(gamma=0.99),
            "where": (1, "d", True),
        },
    ),
    (
        "sac --env Pendulum-v1 --exp_name s --epochs 3 --steps_per_epoch 2000 --start_steps 0",
        {
            ("s", 0): {
                "schedule": {"steps": 6_000, "steps_per_epoch": 2_000, "start_steps": 0},
            }
        },
    ),
    (
        "ppo --env CartPole-v1 Acrobot-v1 --exp_name e",
        {("e_envcartpole-v1", 0): {}, ("e_envacrobot-v1", 0): {}},
    ),
    (
        "ppo --env CartPole-v1 --exp_name b --normalise_obs True False --recompute_advantages",
        {
            ("b_nor", 0): spec(normalise_obs=True, recompute_advantages=True),
            ("b", 0): spec(recompute_advantages=True),
        },
    ),
    (
        "trpo --env_name CartPole-v1 --exp_name t --algo npg --schedule:max_ep_len 100",
        {("t", 0): spec(method="npg") | {"schedule": {"max_ep_len": 100}}},
    ),
    (
        "ppo --env CartPole-v1 --exp_name n --log_std_init -1e-1 -.5 --target_kl none",
        {
            ("n_log-0-1", 0): spec(log_std_init=-0.1, target_kl=None),
            ("n_log-0-5", 0): spec(target_kl=None),
        },
    ),
    (
        "vpg --env CartPole-v1 --exp_name v --options:save_freq 500",
        {("v", 0): {"options": {"save_freq": 500}}},
    ),
]


@pytest.mark.parametrize(("line", "expected"), LINES, ids=[line for line, _ in LINES])
def test_spinning_ups_command_lines_start_the_same_runs(line, expected, start_nothing):
    assert spinningup.main(line.split()) == 0
    where = expected.get("where", (1, None, False))
    expected = {k: v for k, v in expected.items() if k != "where"}
    assert start_nothing.pop("where") == where
    assert set(start_nothing) == set(expected)
    for key, changes in expected.items():
        made = start_nothing[key]
        names = presets.read_presets(made.algo)
        preset = names["spinningup"].settings if "spinningup" in names else {}
        base = aliases.build_configuration(made.algo, {"env": made.env} | dict(preset))
        default = config.from_json(base)
        for part in ("spec", "schedule", "options"):
            given, usual = vars(getattr(made, part)), vars(getattr(default, part))
            assert given == usual | changes.get(part, {}), part


@pytest.mark.parametrize(
    ("line", "messages"),
    [
        ("ppo", ["--env is missing"]),
        ("ppo --env", ["--env: expected a value"]),
        ("pppo --env X", ["unknown command 'pppo'. Did you mean 'ppo'?"]),
        ("ppo_torch --env X", ["unknown command 'ppo_torch'"]),
        ("ppo --env CartPole-v1 --gama 1", ["--gama: ppo has no setting 'gama'", "'gamma'?"]),
        ("ppo --env CartPole-v1 --gam 0.9", ["no setting 'gam'"]),
        ("ppo --env CartPole-v1 --gamma x --lam y", ["--gamma: expected a n", "--lam: expected"]),
        ("ppo --env CartPole-v1 --gamma 2", ["gamma must be a number in [0.0, 1.0]"]),
        ("ppo --env CartPole-v1 --gamma 2 3", ["got 2.0", "got 3.0"]),
        ("ppo --env CartPole-v1 --hid __import__('os')", ["expected an integer"]),
        ("ppo --env CartPole-v1 --hid 64,64 --l 2", ["--l repeats one width"]),
        ("ppo --env CartPole-v1 --exp_name a b", ["expected one value for all runs, got 2"]),
        ("ppo --env CartPole-v1 --num_cpu 1 2", ["expected one value for all runs"]),
        ("ppo --env CartPole-v1 --save_freq 10", ["counts epochs in Spinning Up"]),
        ("ppo --env CartPole-v1 --logger_kwargs:output_dir x", ["give exp_name and data_dir"]),
        ("ppo --env CartPole-v1 --actor_critic x", ["in Python"]),
        ("ppo --env CartPole-v1 --hid 8 --ac_kwargs:hidden_sizes 9", ["hidden is given twice"]),
        (
            "ppo --env CartPole-v1 --gamma 1 --spec:gamma 1 0.9",
            ["gamma is given twice"],
        ),
        (
            "ppo CartPole-v1 --gamma 1",
            ["'CartPole-v1': expected a flag before the value, for example --env CartPole-v1"],
        ),
        ("ppo --env CartPole-v1 --steps 3 --jobs x", ["--jobs: expected an integer"]),
        ("ppo --env CartPole-v1 --exp_name ../x --seed 0 1", ["name must consist of letters"]),
    ],
)
def test_mistakes_in_spinning_ups_command_lines_have_exit_code_2(line, messages, capsys):
    try:
        code = spinningup.main(line.split())
    except SystemExit as stop:
        code = stop.code
    assert code == 2
    error = capsys.readouterr().err
    assert all(message in error for message in messages), error


def test_equal_values_are_dropped_with_a_note(start_nothing, capsys):
    words = "ppo --env CartPole-v1 --hid 64 64 --seed 0 0 1 --exp_name x"
    spinningup.main(words.split())
    out = capsys.readouterr().out
    assert "ac_kwargs:hidden_sizes: dropped duplicate values, using [64]" in out
    assert "seed: dropped duplicate values, using 0, 1" in out
    assert {("x", 0), ("x", 1)} < set(start_nothing)


def test_one_run_trains_in_the_foreground_unless_jobs_or_timeout_is_given(monkeypatch):
    trained, launched = [], []
    monkeypatch.setattr(train_and_resume, "train", lambda words, prog: trained.append(words) or 0)
    line = "ppo --env CartPole-v1 --exp_name x"
    start, preset = "ppo --env CartPole-v1 --exp-name x", "--preset spinningup"
    assert spinningup.main([*line.split(), "--dry-run"]) == 0
    assert " ".join(trained.pop()) == f"{start} --dry-run {preset}"
    assert spinningup.main([*line.split(), "--dry_run", "False", "--dt", "False"]) == 0
    assert " ".join(trained.pop()) == f"{start} --no-datestamp {preset}"
    assert spinningup.main([*line.split(), "--dt", "maybe"]) == 2
    monkeypatch.setattr(
        sweep, "run_grid", lambda algo, axes, args, base: launched.append(args) or 0
    )
    for words, expected in (("--timeout 2", (2.0, None)), ("--jobs 3", (None, 3))):
        assert spinningup.main([*line.split(), *words.split()]) == 0
        assert [(args.timeout, args.jobs) for args in launched] == [expected]
        launched.clear()
    assert not trained


def test_a_dry_run_of_a_grid_lists_its_runs_and_their_errors(start_nothing, capsys):
    words = "ppo --env CartPole-v1 CartPole-v9 --exp_name x --seed 0 1 --dry-run"
    assert spinningup.main(words.split()) == 0
    assert not start_nothing
    *_, first, _, third, _ = capsys.readouterr().out.splitlines()
    assert first == "x_envcartpole-v1  seed 0  env_name=CartPole-v1"
    assert third.startswith("x_envcartpole-v9  seed 0  environment CartPole-v9: ")
    assert third.endswith("Did you mean CartPole-v1?")


def test_the_command_is_printed_before_settings_are_parsed(monkeypatch, capsys):
    def run_line(algo, words):
        assert capsys.readouterr().out.startswith("purerl ")
        raise errors.ConfigError("read")

    monkeypatch.setattr(spinningup, "run_line", run_line)
    assert spinningup.main(["ppo", "--env", "CartPole-v1"]) == 2
    assert "read" in capsys.readouterr().err


def test_plot_and_test_policy_call_the_commands_of_purerl(monkeypatch):
    asked = []
    monkeypatch.setattr(program, "main", lambda words: asked.append(words) or 5)
    assert spinningup.main(["plot", "data/x", "-s", "5"]) == 5
    assert spinningup.main(["test_policy", "data/x", "-l", "200", "-nr", "-d"]) == 5
    assert (
        spinningup.main(["ppo", "--hid", "3", "--help"])
        == spinningup.main(["ppo", "--help-all"])
        == 5
    )
    assert asked == [
        ["plot", "data/x", "-s", "5"], ["watch", "data/x", "-l", "200", "-nr", "-d"],
        ["train", "ppo", "--help"], ["train", "ppo", "--help-all"],
    ]  # fmt: skip


def test_help_needs_no_jax():
    probe = "import sys; from purerl import __main__, run; import purerl.runs.sweeps.grid;"
    probe += "from purerl.cli.commands import sweep;"
    probe += "code = run.main(['help']) or sweep.main(['--help']);"
    probe += "assert not {'jax', 'gymnasium', 'flax'} & set(sys.modules); sys.exit(code)"
    done = python("-c", probe)
    assert done.code == 0, done.err
    assert "test_policy" in done.out
    assert "--grid KEY=V,V" in done.out


def test_an_epoch_of_spinning_up_is_one_rollout_of_the_length_given(start_nothing):
    words = "ppo --env CartPole-v1 --exp_name x --steps_per_epoch 500"
    assert spinningup.main(words.split()) == 0
    (made,) = (one for key, one in start_nothing.items() if key != "where")
    assert made.schedule.settle(1).rollout_steps == 500
    assert made.schedule.continue_episodes is False
