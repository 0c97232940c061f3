"""Reward of exercise 2.1: VPG on CartPole with values that are trained for 0 and 80 steps."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from purerl.algos import vpg
from purerl.envs import episodes
from purerl.envs.classic.cartpole import CartPole
from purerl.nets import categorical
from purerl.types import Rollout

EPOCHS, STEPS, ENVS, SEEDS = 25, 200, 10, 3
ITERS = (0, 80)
ENV = CartPole()


def reward(answer: Callable[..., Any], report: Callable[[str], None]) -> dict[int, float]:
    """Run the study, report its table, and return the last returns by number of value steps."""
    report(f"Study: VPG on CartPole, {SEEDS} seeds, {STEPS * ENVS:,} steps per epoch.")
    report("The value function does 0 or 80 gradient steps per epoch. Mean over the seeds:")
    report("")
    curves = {iters: run_study(answer, iters) for iters in ITERS}
    report("        return           explained var.   variance left")
    report(
        "epoch        0      80        0      80        0      80   return: 0 (+), more with 80 (#)"
    )
    for epoch in range(0, EPOCHS, 3):
        rows = [curves[iters][epoch].tolist() for iters in ITERS]
        returns, explained, left = zip(*rows, strict=True)
        bars = "".join("+" if 20 * i < returns[0] else "#" for i in range(int(returns[1] / 20)))
        numbers = [f"{x:8.1f}" for x in returns] + [f"{x:8.2f}" for x in (*explained, *left)]
        report(f"{epoch + 1:5}{''.join(numbers)}   {bars}")
    report("")
    report("Variance left: variance of the estimates, as a share of that without values.")
    report("Was your guess right? `purerl exercise solution 2.1` explains the study.")
    return {iters: float(curves[iters][-5:, 0].mean()) for iters in ITERS}


def run_study(answer: Callable[..., Any], iters: int) -> jax.Array:
    """Return mean return, explained variance and variance left of each epoch, `[EPOCHS, 3]`."""
    spec = vpg.Spec(ENV.spec, hidden=(32,), pi_lr=0.02, vf_lr=5e-3, train_v_iters=iters)
    states = jax.vmap(lambda seed: vpg.init(jax.random.key(seed), spec))(jnp.arange(SEEDS))
    starts = [episodes.reset(ENV, ENV.params, seed, 0, ENVS) for seed in range(SEEDS)]
    now = jax.tree.map(lambda *x: jnp.stack(x), *starts)

    def run_epoch(state: vpg.State, now: Any, seed: jax.Array, epoch: jax.Array) -> Any:
        def step(now: Any, number: jax.Array) -> tuple[Any, Any]:
            key = jax.random.fold_in(jax.random.key(seed), epoch * STEPS + number)
            act = vpg.act(state.params, now.obs, key)
            now, result = episodes.step(ENV, ENV.params, seed, 0, ENV.max_steps, now, act)
            return now, (result.transition, result.ended, result.ret)

        now, (rows, ended, rets) = jax.lax.scan(step, now, jnp.arange(STEPS))
        batch = vpg.prepare(state.params, Rollout(*rows))
        score = compute_scores(state.params, batch.obs, batch.act)
        explained, _, variance = answer(score, batch.ret, batch.val)
        without = answer(score, batch.ret, 0.0 * batch.val)[2]
        mean = (rets * ended).sum() / jnp.maximum(ended.sum(), 1)
        state, _ = vpg.update(state, batch)
        return state, now, jnp.stack([mean, explained, variance / without])

    program = jax.jit(jax.vmap(run_epoch, (0, 0, 0, None)))
    rows = []
    for epoch in range(EPOCHS):
        states, now, row = program(states, now, jnp.arange(SEEDS, dtype=jnp.uint32), epoch)
        rows.append(row.mean(axis=0))
    return jnp.stack(rows)


def compute_scores(params: Any, obs: jax.Array, act: jax.Array) -> jax.Array:
    """Return the gradients of the log-probabilities in all parameters of the policy, `[N, P]`."""

    def log_prob(actor: Any, obs: jax.Array, act: jax.Array) -> jax.Array:
        return categorical.log_prob(vpg.distribution(params.replace(actor=actor), obs), act)

    grads = jax.vmap(jax.grad(log_prob), (None, 0, 0))(params.actor, obs, act)
    return jnp.concatenate([x.reshape(len(obs), -1) for x in jax.tree.leaves(grads)], axis=1)
