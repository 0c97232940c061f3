"""Names of settings, hints for unknown names, and names of activations."""

import pytest

from purerl.errors import ConfigError
from purerl.runs.settings import aliases


@pytest.mark.parametrize(
    ("algo", "key", "place"),
    [
        ("ppo", "gamma", ("spec", "gamma")),
        ("ppo", "spec.gamma", ("spec", "gamma")),
        ("ppo", "spec:gamma", ("spec", "gamma")),
        ("ppo", "ac_kwargs:hidden_sizes", ("spec", "hidden")),
        ("ppo", "ac_kwargs:activation", ("spec", "activation")),
        ("ppo", "hid", ("spec", "hidden")),
        ("ppo", "act", ("spec", "activation")),
        ("ppo", "pi-lr", ("spec", "pi_lr")),
        ("trpo", "algo", ("spec", "method")),
        ("sac", "total_timesteps", ("schedule", "steps")),
        ("sac", "schedule:replay_size", ("schedule", "replay_size")),
        ("sac", "options.save_freq", ("options", "save_freq")),
        ("sac", "env_name", ("run", "env")),
        ("sac", "exp_name", ("run", "name")),
        ("sac", "dt", ("run", "datestamp")),
        ("sac", "l", ("run", "layers")),
        ("ppo", "gae_lambda", ("spec", "lam")),
        ("ppo", "clip-range", ("spec", "clip_ratio")),
        ("td3", "buffer_size", ("schedule", "replay_size")),
        ("tqc", "n_critics", ("spec", "num_critics")),
        ("tqc", "n_quantiles", ("spec", "num_quantiles")),
        ("tqc", "top_quantiles_to_drop_per_net", ("spec", "drop_quantiles")),
    ],
)
def test_a_setting_is_found_under_its_names(algo, key, place):
    assert aliases.resolve_name(algo, key)[:2] == place


@pytest.mark.parametrize(
    ("algo", "key", "message"),
    [
        ("ppo", "clip", "Did you mean 'clip_ratio' or 'vf_clip'?"),
        ("ppo", "n_epochs", "In purerl this is train_pi_iters and train_v_iters."),
        ("sac", "tau", "In purerl this is polyak = 1 - tau."),
        ("dqn", "target_update_interval", "this is target_every, counted in updates"),
        ("ppo", "tau", "ppo has no setting 'tau'."),
        ("ppo", "n", "In purerl this is steps."),
        ("dqn", "exploration_fraction", "In purerl this is eps_decay, counted in updates."),
        ("sac", "policy_kwargs", "In purerl this is hidden and activation."),
        ("ppo", "vf_coef", "In purerl this is vf_lr"),
        ("ppo", "clip_range_vf", "In purerl this is vf_clip."),
        ("sac", "ent_coef", "In purerl this is alpha; auto learns it."),
        ("ppo", "normalize_advantage", "In purerl this is always done, once per rollout."),
        ("acer", "correction_term", "In purerl this is max_ratio."),
        ("acer", "n_step", "a setting of algorithms that replay transitions, such as dqn and sac."),
        ("vpg", "scale_rewards", "this is a setting of ppo, and of algorithms that replay"),
        ("acer", "n_steps", "In purerl this is rollout_steps = n_steps * num_envs."),
        ("vpg", "device", "this is the environment variable JAX_PLATFORMS"),
        ("ppo", "learning-rate", "no setting 'learning-rate'. Did you mean 'pi_lr' or 'vf_lr'?"),
        ("dqn", "learning_rate", "Did you mean 'lr'?"),
        ("ppo", "Gamma", "Did you mean 'gamma'?"),
        ("trpo", "Algo", "Did you mean 'algo'?"),
        ("ppo", "gama", "no setting 'gama'. Did you mean 'gamma'?"),
        ("ppo", "lr", "Did you mean 'pi_lr' or 'vf_lr'?"),
        ("ppo", "spec:steps", "steps belongs to schedule, not to spec"),
        ("ppo", "other:gamma", "no setting 'other:gamma'"),
        ("ppo", "gam", "Did you mean 'gamma'?"),
        ("ppo", "actor_critic", "in Python"),
        ("ppo", "actor", "in Python"),
        ("ppo", "logger_kwargs:output_dir", "give exp_name and data_dir"),
        ("ppo", "replay_size", "no setting 'replay_size'"),
        ("dqn", "pi_lr", "Did you mean"),
    ],
)
def test_unknown_names_are_refused_with_hints(algo, key, message):
    with pytest.raises(ConfigError) as error:
        aliases.resolve_name(algo, key)
    assert message in str(error.value)


def test_hints_name_only_settings_of_the_algorithm():
    with pytest.raises(ConfigError, match=r"^ppo has no setting 'algo'\.$"):
        aliases.resolve_name("ppo", "algo")


def test_a_configuration_accepts_settings_under_any_name():
    given = {"env_name": "CartPole-v1", "hid": 64, "l": 2, "ac_kwargs:activation": "torch.nn.ReLU"}
    made = aliases.build_configuration(
        "ppo", given | {"epochs": 3, "steps_per_epoch": 500, "seed": 7}
    )
    assert made["spec"] == {"hidden": (64, 64), "activation": "relu"}
    assert made["schedule"] == {"steps_per_epoch": 500, "steps": 1500}
    assert (made["env"], made["seed"], made["algo"]) == ("CartPole-v1", 7, "ppo")
    made = aliases.build_configuration("ppo", {"epochs": 2})["schedule"]
    assert made == {"steps": 8_000, "steps_per_epoch": 4_000, "rollout_steps": 1_000}
    made = aliases.build_configuration("acer", {"epochs": 2})["schedule"]
    assert made == {"steps": 8_000, "steps_per_epoch": 4_000}  # and sequences of 20 steps
    made = aliases.build_configuration("pqn", {"epochs": 2})["schedule"]
    assert made == {"steps": 8_000, "steps_per_epoch": 4_000}  # and rollouts of 2,048 steps
    made = aliases.build_configuration("sac", {"epochs": 2})["schedule"]
    assert made == {"steps": 8_000, "steps_per_epoch": 4_000}
    assert aliases.build_configuration("ppo", {"hid": 32})["spec"] == {"hidden": (32,)}
    assert aliases.build_configuration("sac", {"l": 3})["spec"] == {"hidden": (256, 256, 256)}
    base = {"env": "A-v0", "spec": {"gamma": 0.9, "lam": 0.5}}
    made = aliases.build_configuration("ppo", {"gamma": 0.8}, base)
    assert made["spec"] == {"gamma": 0.8, "lam": 0.5}
    assert base["spec"]["gamma"] == 0.9


@pytest.mark.parametrize(
    ("given", "messages"),
    [
        ({"gamma": 1, "spec.gamma": 1}, ["gamma and spec.gamma are the same setting"]),
        ({"steps": 1, "epochs": 1}, ["steps and epochs both set the run's length"]),
        ({"hid": (64, 32), "l": 2}, ["l = 2 needs one width to repeat, got hid = [64, 32]"]),
        ({"gama": 1, "lr": 2}, ["'gama'", "'lr'"]),
    ],
)
def test_contradicting_settings_are_reported_all_at_once(given, messages):
    with pytest.raises(ConfigError) as error:
        aliases.build_configuration("ppo", given)
    assert all(message in str(error.value) for message in messages)


def test_a_part_that_is_not_an_object_is_refused():
    with pytest.raises(ConfigError, match=r"spec must be an object, got \[1\]"):
        aliases.build_configuration("ppo", {}, {"spec": [1]})


@pytest.mark.parametrize(
    ("word", "name"),
    [
        ("torch.nn.Tanh", "tanh"),
        ("torch.nn.LeakyReLU", "leaky_relu"),
        ("nn.ELU", "elu"),
        ("tf.nn.relu", "relu"),
        ("Tanh", "tanh"),
        ("swish", "silu"),
        ("gelu", "gelu"),
    ],
)
def test_activation_names_of_other_libraries_are_accepted(word, name):
    assert aliases.normalise_activation(word) == name


def test_a_function_means_the_activation_of_its_name():
    from flax import linen as nn

    assert aliases.normalise_activation(nn.tanh) == "tanh"
    assert aliases.normalise_activation(3) == 3
