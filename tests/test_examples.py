"""Every example runs as typed, prints what it does, and refuses wrong arguments in one line.

They run inside the process of the tests. `make run` in tests/test_readme.py starts one as users do.
"""

import dataclasses
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.scripts import ROOT, run_script

EXAMPLES = sorted(p for p in (ROOT / "examples").glob("*.py") if p.name != "common.py")


def run(*words: str, code: int = 0) -> str:
    """Run a script; return its output, or its error stream if it is expected to fail."""
    done = run_script(*words)
    assert done.code == code, done.err
    return done.err if code else done.out


SHORT = (
    "--steps",
    "600",
    "--steps-per-epoch",
    "300",
    "--start-steps",
    "100",
    "--update-after",
    "100",
)


def test_run_td3_prints_progress_and_the_return_reached():
    words = ("examples/run_td3.py", *SHORT, "--num-test-episodes", "2", "--hidden", "32,32")
    out = run(*words)
    assert out.startswith("td3 on Pendulum-v1, seed 0: 600 steps\n")
    lines = out.splitlines()
    assert len(lines) == 5
    assert lines[1].startswith("preset Pendulum-v1 (")
    assert re.match(
        r"step +600 .*steps/s  return +-\d+\.\d  test return +-\d+\.\d  loss_q", lines[3]
    )
    assert re.match(r"return -\d+\.\d after \d+ s", lines[4])


def test_run_td3_takes_other_environments_and_every_field():
    out = run(
        "examples/run_td3.py", *SHORT, "--env", "MountainCarContinuous-v0", "--seed", "3",
        "--num-envs", "2", "--max-ep-len", "50", "--num-test-episodes", "0", "--gamma", "0.9",
        "--hidden", "8", "--batch-size", "100",
    )  # fmt: skip
    assert "td3 on MountainCarContinuous-v0, seed 3" in out
    helped = run("examples/run_td3.py", "--help")
    for flag in ("--policy-delay", "--replay-size", "--act-noise", "--env", "--seed", "--steps"):
        assert flag in helped


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--env", "CartPole-v1"), "td3 needs a Box action space"),
        (("--env", "Nothing-v0"), "Environment `Nothing` doesn't exist"),
        (("--seed", "-1"), "seed must be an integer in 0 .. 2**32 - 1, got -1"),
        (("--gamma", "2"), "gamma must be a number in [0.0, 1.0], got 2.0"),
        (("--batch-size", "5000", "--update-after", "9"), "update_after must be at least batch"),
        (("--polyack", "0.9"), "unknown flag --polyack. Did you mean --polyak?"),
    ],
)
def test_run_td3_refuses_bad_arguments_in_one_line(words, message):
    error = run("examples/run_td3.py", *words, code=2)
    assert message in error
    assert "Traceback" not in error


@pytest.mark.parametrize(
    ("name", "env", "words"),
    [
        pytest.param("ddpg", "Pendulum-v1", (), marks=pytest.mark.complete),
        pytest.param("sac", "Pendulum-v1", ("--alpha", "auto"), marks=pytest.mark.complete),
        pytest.param("crossq", "Pendulum-v1", ("--batch-size", "64"), marks=pytest.mark.complete),
        pytest.param(
            "dqn",
            "CartPole-v1",
            ("--no-double", "--eps-decay", "100"),
            marks=pytest.mark.complete,
        ),
    ],
)
def test_the_other_off_policy_scripts_run(name, env, words):
    out = run(
        f"examples/run_{name}.py", *SHORT, "--num-test-episodes", "1", "--hidden", "8", *words
    )
    assert out.startswith(f"{name} on {env}, seed 0: 600 steps\n")
    assert re.search(r"step +600 .*test return .* loss_q", out)
    assert re.search(r"\nreturn -?\d+\.\d after \d+ s\n", out)


@pytest.mark.complete
def test_run_acer_replays_sequences():
    words = ("--steps", "400", "--steps-per-epoch", "200", "--rollout-steps", "40")
    words += ("--num-envs", "2", "--replay-start", "80", "--num-test-episodes", "1")
    out = run("examples/run_acer.py", *words, "--hidden", "8")
    assert out.startswith("acer on CartPole-v1, seed 0: 400 steps\n")
    assert re.search(r"step +400 .*test return .* loss_q", out)
    assert re.search(r"\nreturn \d+\.\d after \d+ s\n", out)


@pytest.mark.parametrize(
    ("name", "env"),
    [
        pytest.param("reinforce", "CartPole-v1", marks=pytest.mark.complete),
        pytest.param("vpg", "Pendulum-v1", marks=pytest.mark.complete),
        pytest.param("trpo", "Pendulum-v1", marks=pytest.mark.complete),
        ("ppo", "CartPole-v1"),
        pytest.param("reinforce", "Pendulum-v1", marks=pytest.mark.complete),
        pytest.param("vpg", "CartPole-v1", marks=pytest.mark.complete),
        pytest.param("trpo", "CartPole-v1", marks=pytest.mark.complete),
        pytest.param("ppo", "Pendulum-v1", marks=pytest.mark.complete),
    ],
)
def test_policy_gradients_run_on_both_kinds_of_action_space(name, env):
    words = ("--env", env, "--steps", "400", "--steps-per-epoch", "200", "--preset", "none")
    out = run(f"examples/run_{name}.py", *words, "--num-test-episodes", "1", "--hidden", "8")
    assert out.startswith(f"{name} on {env}, seed 0: 400 steps\n")
    assert re.search(r"step +400 .*test return .* kl \d", out)
    assert re.search(r"\nreturn -?\d+\.\d after \d+ s\n", out)


def test_the_examples_use_the_preset_of_the_environment_and_say_so():
    words = ("--steps", "100", "--num-test-episodes", "0", "--hidden", "8")
    out = run("examples/run_vpg.py", *words)
    assert re.search(r"^preset CartPole-v1 \(return .*pi_lr=0\.01.*--preset none", out, re.M)
    out = run("examples/run_vpg.py", *words, "--preset", "none")
    assert "preset" not in out


@pytest.mark.parametrize("name", ["pg_simple", "pg_reward_to_go"])
def test_the_two_short_policy_gradients_run(name):
    short = ("--epochs", "3", "--steps", "300")
    out = run(f"examples/{name}.py", *short, "--env", "Acrobot-v1", "--lr", "1e-3")
    assert re.match(r"epoch +0  loss +-?\d+\.\d+  return +-\d+\.\d+  ep_len +\d+\.\d", out)
    assert len(out.splitlines()) == 3
    text = (ROOT / "examples" / f"{name}.py").read_text()
    assert len(text.splitlines()) <= 70
    imports = re.findall(r"^(?:import|from) (\w+)", text, re.MULTILINE)
    assert set(imports) == {"argparse", "gymnasium", "jax", "optax"}


@pytest.mark.parametrize("env", ["Pendulum-v1", "FrozenLake-v1"])
def test_the_two_short_scripts_refuse_other_spaces(env):
    error = run("examples/pg_simple.py", "--env", env, code=2)
    assert f"{env}: needs Discrete actions and vectors as observations" in error


def test_the_two_short_scripts_differ_only_in_their_weights():
    texts = [
        (ROOT / "examples" / f"pg_{name}.py").read_text().split('"""')[2].splitlines()
        for name in ("simple", "reward_to_go")
    ]
    assert sum(a != b for a, b in zip(*texts, strict=True)) == 1


@pytest.mark.parametrize(
    ("name", "env", "message"),
    [
        ("trpo --preset spinningupp", "CartPole-v1", "no preset 'spinningupp'. Did you mean sp"),
        ("ppo --minibatch-size 7", "CartPole-v1", "minibatch_size must divide the"),
        ("dqn", "Pendulum-v1", "dqn needs a Discrete action space"),
        ("sac", "CartPole-v1", "sac needs a Box action space"),
        ("ddpg", "CartPole-v1", "ddpg needs a Box action space"),
    ],
)
def test_the_wrong_algorithm_for_an_environment_is_refused(name, env, message):
    name, *words = name.split()
    error = run(f"examples/run_{name}.py", "--env", env, *words, code=2)
    assert message in error
    assert "Traceback" not in error


def test_ddpg_explores_with_noise_of_its_own():
    assert "return without noise: -" in run("examples/custom_ddpg_ou.py", "--steps", "800")


def test_ornstein_uhlenbeck_noise_is_correlated_in_time_and_starts_anew_with_each_episode(
    monkeypatch, env
):
    monkeypatch.syspath_prepend(ROOT / "examples")
    import custom_ddpg_ou as example

    params = example.ddpg.init(jax.random.key(0), example.ddpg.Spec(env, hidden=(8,))).params
    params = dataclasses.replace(params, actor=jax.tree.map(jnp.zeros_like, params.actor))
    obs, seen = jnp.zeros((1000, 3)), [jnp.zeros((1000, 2))]
    for key in jax.random.split(jax.random.key(1), 40):
        act, drift = example.explore(params, obs, seen[-1], key)
        np.testing.assert_allclose(env.normalise(act), drift.clip(-1, 1), atol=1e-6)
        seen.append(drift)
    before, last = np.asarray(seen[-2]).ravel(), np.asarray(seen[-1]).ravel()
    assert last.std() == pytest.approx(0.3 / np.sqrt(1 - 0.85**2), rel=0.05)
    assert np.corrcoef(before, last)[0, 1] == pytest.approx(0.85, abs=0.03)

    given = []

    def noted(params, obs, drift, key):
        given.append(float(drift[0]))
        return jnp.zeros(1), drift + 1.0

    monkeypatch.setattr(example, "explore", noted)
    monkeypatch.setattr(example, "learn", lambda *args: (*args[:2], {"loss_q": 0.0}))
    example.main(steps=203)
    assert given == [*range(200), 0.0, 1.0, 2.0]  # an episode of Pendulum has 200 steps


def test_custom_loop_runs_and_is_short():
    assert "return of the last episodes: -" in run("examples/custom_td3_loop.py", "--steps", "1200")
    assert len((ROOT / "examples" / "custom_td3_loop.py").read_text().splitlines()) <= 62


@pytest.mark.complete
def test_a_whole_epoch_is_one_program():
    out = run("examples/custom_ppo_jax.py", "--steps", "40960")
    assert re.search(r"^step +40,960  return +\d+\.\d  kl \d", out, re.MULTILINE)
    assert float(out.split()[-1]) > 50  # a random policy stands for 22 steps


@pytest.mark.complete
def test_many_seeds_learn_in_one_program_and_are_drawn(tmp_path):
    words = ("--seeds", "2", "--steps", "5120", "--save", str(tmp_path / "curve.png"))
    out = run("examples/run_scan_ppo.py", *words)
    assert re.search(r"^step +5,120  return +\d+\.\d$", out, re.MULTILINE)
    assert (tmp_path / "curve.png").stat().st_size > 10_000


@pytest.mark.complete
def test_a_custom_environment_in_jax_is_trained_in():
    out = run("examples/custom_jax_env.py", "--steps", "1600")
    assert re.search(r"^step +1,600  test return +-\d+\.\d  distance left \d", out, re.MULTILINE)


@pytest.mark.complete
def test_both_loops_learn_the_same():
    out = run("examples/compare_loops.py", "--steps", "400")
    assert re.search(r"^(\d+) and \1 episodes with equal returns$", out, re.MULTILINE)
    assert float(out.split()[-1]) < 1e-3


@pytest.mark.complete
def test_a_custom_critic_trains():
    out = run("examples/layernorm_critic.py", "--steps", "1000")
    assert re.search(r"^step +1,000  test return +-\d+\.\d  q1 +-?\d", out, re.MULTILINE)
    assert re.search(r"\nreturn: -\d+\.\d\n$", out)


@pytest.mark.complete
def test_eight_seeds_learn_in_one_update():
    out = run("examples/vmap_seeds.py", "--steps", "1300")
    assert len(re.findall(r"-\d+\.?\d*", out.splitlines()[-1])) == 8


@pytest.mark.complete
def test_the_bench_of_networks_ends_with_its_table_and_is_not_done_twice(tmp_path):
    words = ("examples/bench_ppo_cartpole.py", "--num_runs", "1", "--epochs", "1")
    out = run(*words, "--data_dir", str(tmp_path))
    names = ["hid32_tanh", "hid32_relu", "hid64-64_tanh", "hid64-64_relu"]
    for name in names:
        assert re.search(rf"^ppo-bench_{name} +0 +done +0 +4,000 +\d+\.\d ", out, re.MULTILINE)
        assert re.search(rf"^ppo-bench_{name} +\d+\.\d  over 1 seeds$", out, re.MULTILINE)
    again = run(*words, "--data_dir", str(tmp_path))
    assert again.count("was done before") == 2 * len(names)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda p: p.name)
def test_docstrings_give_the_command(path):
    text = path.read_text()
    assert f"examples/{path.name}" in text.split('"""')[1]


def test_run_her_chooses_the_algorithm_that_fits_and_prints_the_success():
    words = (
        "--steps",
        "120",
        "--steps-per-epoch",
        "60",
        "--num-test-episodes",
        "1",
        "--update-after",
    )
    words += ("100", "--batch-size", "8", "--hidden", "8", "--replay-size", "1000")
    out = run("examples/run_her.py", *words)
    assert out.startswith("dqn on BitFlipping-v0, seed 0: 120 steps\n")
    assert re.search(r"step +120 .* test return +-\d+\.\d  success [01]\.00  loss_q", out)
    assert run("examples/run_her.py", *words, "--env", "Pendulum-v1").startswith("ddpg on Pendulum")
    assert "Nothing-v0" in run("examples/run_her.py", "--env", "Nothing-v0", code=2)
