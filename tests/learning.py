"""Training runs for the learning tests and the page of results, with settings chosen once.

    python tests/learning.py                      # all presets, about an hour on one core
    python tests/learning.py td3-halfcheetah --seed 1
    python tests/learning.py --plot               # draw results/curves.svg from the files
    python tests/learning.py --values sac-pendulum --seed 0   # compare mean Q with returns

Write results/NAME.csv in docs/measurements, with every evaluation of every seed. An evaluation
plays the deterministic policy in environments with separate seeds, but with ACER the policy that
samples its actions. Pendulum gets 20 episodes, because its start states alone spread the return by
90.
"""

import argparse
import csv
import dataclasses
import itertools
import statistics
import time
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import gymnasium
import jax
import numpy as np
from gymnasium import spaces, wrappers

import purerl
from purerl.algos import (
    acer,
    crossq,
    ddpg,
    dqn,
    ppo,
    pqn,
    redq,
    reinforce,
    sac,
    sac_discrete,
    td3,
    tqc,
    trpo,
    vpg,
    xqc,
)
from purerl.envs import names
from purerl.loops import choose_loop
from purerl.loops import gym as loop
from purerl.spaces import EnvSpec
from purerl.types import Batch

RESULTS = Path(__file__).parents[1] / "docs" / "measurements" / "results"


METRICS = (
    "q1",
    "q",
    "logp",
    "alpha",
    "epsilon",
    "val",
    "kl",
    "entropy",
    "stop_iter",
)  # written to the file if the algorithm reports them


class Preset(NamedTuple):
    algo: ModuleType
    env: str
    seeds: tuple[int, ...]
    bar: float  # score to reach
    spec: dict[str, Any]
    schedule: dict[str, Any]
    every: int = 1  # epochs between two evaluations
    raw: bool = False  # whether the policy acts in the environment's units, as in Spinning Up
    sampled: bool = False  # whether the evaluated policy samples its actions


PENDULUM = {
    "steps": 15_000,
    "steps_per_epoch": 1_000,
    "start_steps": 1_000,
    "num_test_episodes": 20,
}
HALFCHEETAH = {"steps": 100_000, "steps_per_epoch": 5_000}  # other settings: Spinning Up's

OFTEN = {"steps": 3_000, "steps_per_epoch": 500, "start_steps": 500, "update_after": 500}
OFTEN |= {"num_test_episodes": 20}
PAPER = {"steps": 125_000, "steps_per_epoch": 5_000, "start_steps": 5_000, "update_after": 5_000}
DROQ = {"ensemble": 2, "dropout": 0.01, "layer_norm": True}

CARTPOLE = {"steps": 200_000, "steps_per_epoch": 4_000, "num_test_episodes": 10}
EVERY_20K = {"steps_per_epoch": 20_000, "num_test_episodes": 20}
FIVE = (0, 1, 2, 3, 4)
MINIBATCHES = {"train_pi_iters": 10, "train_v_iters": 10, "target_kl": None, "lam": 0.95}

PRESETS = {
    "td3-pendulum": Preset(
        td3,
        "Pendulum-v1",
        (0, 1, 2, 3, 4),
        -200.0,
        {},
        PENDULUM,
    ),
    "td3-invertedpendulum": Preset(
        td3,
        "InvertedPendulum-v5",
        (0, 1, 2),
        950.0,
        {"pi_lr": 3e-4, "q_lr": 3e-4},
        {"steps": 40_000, "steps_per_epoch": 5_000, "start_steps": 1_000, "batch_size": 256},
    ),
    "td3-halfcheetah": Preset(td3, "HalfCheetah-v5", (0, 1, 2), 5200.0, {}, HALFCHEETAH),
    "ddpg-pendulum": Preset(ddpg, "Pendulum-v1", (0, 1, 2, 3, 4), -200.0, {}, PENDULUM),
    "sac-pendulum": Preset(
        sac, "Pendulum-v1", (0, 1, 2, 3, 4), -200.0, {"alpha": "auto"}, PENDULUM
    ),
    "crossq-pendulum": Preset(
        crossq, "Pendulum-v1", (0, 1, 2, 3, 4), -250.0, {}, PENDULUM | {"steps": 5_000}
    ),
    "tqc-pendulum": Preset(tqc, "Pendulum-v1", FIVE, -200.0, {"lr": 1e-3}, PENDULUM),
    "xqc-pendulum": Preset(
        xqc,
        "jax:Pendulum-v1",
        (0, 1, 2),
        -400.0,
        {"hidden": (64, 64, 64, 64), "gamma": 0.975},
        PENDULUM | {"steps": 6_000, "steps_per_epoch": 600},
    ),
    "dqn-cartpole": Preset(
        dqn, "CartPole-v1", (0, 1, 2, 3, 4), 475.0, {}, {"steps": 50_000, "steps_per_epoch": 2_500}
    ),
    "sac_discrete-cartpole": Preset(
        sac_discrete, "CartPole-v1", FIVE, 475.0, {}, {"steps": 30_000, "steps_per_epoch": 1_500}
    ),
    "pqn-cartpole": Preset(
        pqn,
        "jax:CartPole-v1",
        FIVE,
        475.0,
        {"lr": 5e-4, "lr_decay_updates": 110, "reward_scale": 0.1, "eps_end": 0.2, "eps_decay": 20},
        {"steps": 245_760, "steps_per_epoch": 20_480, "num_test_episodes": 20},
    ),
    "acer-cartpole": Preset(
        acer, "CartPole-v1", FIVE, 475.0, {}, EVERY_20K | {"steps": 300_000}, sampled=True
    ),
    "acer-acrobot": Preset(
        acer,
        "Acrobot-v1",
        FIVE,
        -95.0,
        {},
        {"num_envs": 16, "replay_size": 80_000, "replay_start": 16_000, "num_test_episodes": 20}
        | {"steps": 499_200, "steps_per_epoch": 49_920},
        sampled=True,
    ),
    "ddpg-halfcheetah": Preset(ddpg, "HalfCheetah-v5", (0, 1, 2), 3000.0, {}, HALFCHEETAH),
    "sac-halfcheetah": Preset(sac, "HalfCheetah-v5", (0, 1, 2), 5000.0, {}, HALFCHEETAH),
    "crossq-halfcheetah": Preset(
        crossq, "HalfCheetah-v5", FIVE, 6900.0, {}, HALFCHEETAH | {"start_steps": 5_000}
    ),
    "xqc-halfcheetah": Preset(
        xqc,
        "HalfCheetah-v5",
        (0, 1, 2),
        6900.0,
        {"gamma": 0.995},
        HALFCHEETAH | {"start_steps": 5_000},
    ),
    "redq-pendulum": Preset(
        redq, "jax:Pendulum-v1", (0, 1, 2), -200.0, {"hidden": (64, 64)}, OFTEN
    ),
    "droq-pendulum": Preset(
        redq, "jax:Pendulum-v1", (0, 1, 2), -200.0, {"hidden": (64, 64)} | DROQ, OFTEN
    ),
    "redq-hopper": Preset(redq, "Hopper-v5", FIVE, 3000.0, {}, PAPER),
    "droq-hopper": Preset(redq, "Hopper-v5", FIVE, 3000.0, DROQ, PAPER),
    "reinforce-cartpole": Preset(reinforce, "CartPole-v1", FIVE, 400.0, {}, CARTPOLE),
    "vpg-cartpole": Preset(vpg, "CartPole-v1", FIVE, 475.0, {"pi_lr": 1e-2}, CARTPOLE),
    "trpo-cartpole": Preset(trpo, "CartPole-v1", FIVE, 475.0, {}, CARTPOLE),
    "ppo-cartpole": Preset(ppo, "CartPole-v1", FIVE, 475.0, {}, CARTPOLE | {"steps": 100_000}),
    "trpo-pendulum": Preset(
        trpo,
        "Pendulum-v1",
        FIVE,
        -250.0,
        {"gamma": 0.9},
        {"steps": 100_000, "steps_per_epoch": 1_000, "num_test_episodes": 20},
        every=5,
    ),
    "ppo-pendulum": Preset(
        ppo,
        "Pendulum-v1",
        FIVE,
        -250.0,
        MINIBATCHES
        | {"gamma": 0.9, "pi_lr": 1e-3, "vf_lr": 1e-3, "minibatch_size": 100}
        | {"lr_decay_updates": 50},
        {"steps": 100_000, "steps_per_epoch": 2_000, "num_envs": 4, "num_test_episodes": 20},
        every=5,
    ),
    "ppo-invertedpendulum": Preset(
        ppo,
        "InvertedPendulum-v5",
        FIVE,
        1000.0,
        {},
        {"steps": 80_000, "steps_per_epoch": 4_000, "num_test_episodes": 10},
        raw=True,
    ),
    "ppo-halfcheetah": Preset(
        ppo,
        "HalfCheetah-v5",
        (0, 1, 2),
        5000.0,
        MINIBATCHES
        | {"value_target": "lambda", "vf_lr": 3e-4, "minibatch_size": 64, "max_grad_norm": 0.5}
        | {"initializer": "orthogonal", "head_scale": 0.01, "lr_decay_updates": 488}
        | {"normalise_obs": True, "scale_rewards": True, "recompute_advantages": True},
        {"steps": 488 * 2_048, "steps_per_epoch": 2_048, "num_test_episodes": 10},
        every=61,
    ),
}


def train(preset: Preset, seed: int) -> list[dict[str, Any]]:
    """Train one seed, and return one row for each evaluation."""

    def make() -> Any:
        env = gymnasium.make(preset.env)
        if not preset.raw:
            return env
        units = spaces.Box(-1.0, 1.0, env.action_space.shape)
        return wrappers.TransformAction(env, lambda act: act, units)

    in_jax = preset.env.startswith("jax:")
    env_fn = names.make(preset.env) if in_jax else make
    loop = choose_loop(env_fn)
    spec = preset.algo.Spec(env_fn.spec if in_jax else EnvSpec.of(make()), **preset.spec)
    schedule = dataclasses.replace(preset.algo.SCHEDULE, **preset.schedule)
    rows, began = [], time.monotonic()
    carry = loop.start(preset.algo, spec, env_fn, schedule, seed)
    while carry.steps < schedule.steps:
        carry, record = loop.advance(carry)
        if record is None or record["epoch"] % preset.every:
            continue
        params, episodes = carry.learner.params, schedule.num_test_episodes
        played = (seed, record["epoch"], episodes, None, not preset.sampled)
        record |= loop.evaluate(preset.algo, params, env_fn, *played)
        rows.append(
            {
                "seed": seed,
                "step": record["steps"],
                "test_return": round(statistics.fmean(record["test_returns"]), 3),
                "seconds": round(time.monotonic() - began, 1),
            }
            | {name: round(record[name], 4) if name in record else "" for name in METRICS}
        )
    carry.envs.close()
    return rows


def values(preset: Preset, seed: int, episodes: int = 5, steps: int = 1_000) -> dict[str, float]:
    """Train a seed, and compare mean Q with the discounted return that the policy obtains.

    Both are means over the first `steps` steps of some episodes of the policy that the critic
    values. This is the deterministic policy, except for SAC. SAC samples its actions, and every
    later step adds alpha times the entropy to the return. Critics ignore time limits, so episodes
    continue beyond them until the rest weighs less than 0.1 %. Use it for tasks that never
    terminate.

    Returns:
        `q` (of the first critic, if there are two), `q2`, `obtained`, `error` (root mean square
        difference of `q` and `obtained` over states), and `correlation`.
    """
    algo = preset.algo

    def env_fn() -> Any:
        return gymnasium.make(preset.env)

    spec = algo.Spec(EnvSpec.of(env_fn()), **preset.spec)
    schedule = dataclasses.replace(algo.SCHEDULE, **preset.schedule)
    carry = loop.start(algo, spec, env_fn, schedule, seed)
    while carry.steps < schedule.steps:
        carry, _ = loop.advance(carry)
    params = carry.learner.params
    rest = int(np.log(1e-3) / np.log(spec.gamma))
    env = gymnasium.make(preset.env, max_episode_steps=steps + rest)
    rows: list[tuple[Any, ...]] = []
    for episode in range(episodes):
        obs, _ = env.reset(seed=2_000_000 + episode)
        for _ in range(steps + rest):
            key = jax.random.key(len(rows))
            act = algo.act(params, obs, key) if algo is sac else algo.policy(params, obs)
            next_obs, rew, terminated, _, _ = env.step(np.asarray(act))
            assert not terminated
            rows.append((obs, act, rew, next_obs, False, False))
            obs = next_obs
    columns = [np.stack(x) for x in zip(*rows, strict=True)]
    batch = Batch(*(x.astype(np.float32) if x.dtype == np.float64 else x for x in columns))
    per_row = jax.tree.map(lambda x: x[:, None], batch)._replace(
        key=jax.random.split(jax.random.key(seed), len(rows))
    )
    critic = jax.lax.map(lambda b: algo.critic_loss(params, b)[1], per_row, batch_size=1_000)
    bonus = np.zeros(len(rows))
    if algo is sac:
        found = jax.lax.map(lambda b: algo.actor_loss(params, b)[1], per_row, batch_size=1_000)
        bonus = -float(sac.temperature(params)) * np.asarray(found["logp"], np.float64)
    shape = (episodes, steps + rest)
    paid, bonus = np.reshape(batch.rew, shape).astype(np.float64), bonus.reshape(shape)
    obtained, ahead = np.zeros(shape), np.zeros(episodes)
    for t in reversed(range(steps + rest)):
        obtained[:, t] = paid[:, t] + spec.gamma * ahead
        ahead = obtained[:, t] + bonus[:, t]  # value of the state before its action is sampled
    name = "q1" if "q1" in critic else "q"
    q, q2 = (
        np.asarray(critic[n]).reshape(shape)[:, :steps] for n in (name, name.replace("1", "2"))
    )
    obtained = obtained[:, :steps]
    return {
        "q": q.mean(),
        "q2": q2.mean(),
        "obtained": obtained.mean(),
        "error": np.sqrt(np.square(q - obtained).mean()),
        "correlation": np.corrcoef(q.ravel(), obtained.ravel())[0, 1],
    }


def score(rows: list[dict[str, Any]]) -> float:
    """Return the score of a seed: the mean of its last two evaluations, never its best one."""
    return statistics.fmean(row["test_return"] for row in rows[-2:])


def reaches_bar(rows: list[dict[str, Any]], bar: float) -> bool:
    """Return whether two evaluations in a row reach the bar, because one may be luck."""
    above = [row["test_return"] >= bar for row in rows]
    return any(a and b for a, b in itertools.pairwise(above))


def plot() -> None:
    """Draw one figure from the files, with every seed of every preset and the mean."""
    import matplotlib.pyplot as plt

    names = [name for name in PRESETS if (RESULTS / f"{name}.csv").exists()]
    figure, axes = plt.subplots(-(-len(names) // 4), 4, figsize=(13, 2.5 * -(-len(names) // 4)))
    for name, ax in itertools.zip_longest(names, axes.flat):
        if name is None:
            ax.axis("off")
            continue
        with (RESULTS / f"{name}.csv").open() as file:
            rows = list(csv.DictReader(file))
        steps = sorted({int(row["step"]) for row in rows})
        curves = [
            [float(row["test_return"]) for row in rows if row["seed"] == seed]
            for seed in sorted({row["seed"] for row in rows})
        ]
        for curve in curves:
            ax.plot(steps, curve, color="C0", alpha=0.35, linewidth=1)
        ax.plot(steps, np.mean(curves, axis=0), color="C0", linewidth=2)
        ax.axhline(PRESETS[name].bar, color="C3", linestyle=":", linewidth=1)
        ax.set_title(name, fontsize=10)
        ax.xaxis.set_major_formatter(lambda x, _: f"{x / 1000:g}k")
        ax.tick_params(labelsize=8)
        ax.spines[["top", "right"]].set_visible(False)
    figure.supxlabel("environment steps")
    figure.supylabel("return of the deterministic policy (ACER: sampled actions)")
    figure.tight_layout()
    figure.savefig(RESULTS / "curves.svg", metadata={"Date": None})


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(PRESETS))
    parser.add_argument("--seed", type=int, nargs="*", help="seeds (default: those of the preset)")
    parser.add_argument("--values", action="store_true", help="compare mean Q with returns")
    parser.add_argument("--plot", action="store_true", help="draw the figure, do not train")
    args = parser.parse_args()
    if args.plot:
        return plot()
    if args.values:
        for name in args.names or ("sac-pendulum",):
            for seed in args.seed or [0]:
                found = values(PRESETS[name], seed)
                numbers = ", ".join(f"{key} {value:.3f}" for key, value in found.items())
                print(f"{name} seed {seed}: {numbers}", flush=True)
        return
    RESULTS.mkdir(exist_ok=True)
    for name in args.names or PRESETS:
        preset, scores = PRESETS[name], []
        rows: list[dict[str, Any]] = []
        for seed in args.seed or preset.seeds:
            rows += train(preset, seed)
            scores.append(score([row for row in rows if row["seed"] == seed]))
            print(f"{name} seed {seed}: {scores[-1]:.1f} in {rows[-1]['seconds']} s", flush=True)
        spread = statistics.stdev(scores) if len(scores) > 1 else 0.0
        print(
            f"{name}: {statistics.fmean(scores):.1f} ± {spread:.1f}, bar {preset.bar}", flush=True
        )
        with (RESULTS / f"{name}.csv").open("w", newline="") as file:
            writer = csv.DictWriter(file, rows[0])
            writer.writeheader()
            writer.writerows(rows)


if __name__ == "__main__":
    purerl.setup()
    main()
