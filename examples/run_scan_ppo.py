"""PPO on CartPole with 64 seeds in one compiled program, and a picture of all of them.

    python examples/run_scan_ppo.py
    python examples/run_scan_ppo.py --seeds 8 --steps 50000 --save curve.png

Environments, rollouts and updates of all seeds are one program. The curve shows the interquartile
mean of the returns and the range of the middle 90 % of the seeds. It needs the extra plot.

By default: 100 000 steps for each of 64 seeds in 40 seconds on one core. In the last epochs the
interquartile mean is 500, the maximum.
"""

import sys
from pathlib import Path

import numpy as np

import purerl
from purerl import mpi
from purerl.algos import ppo
from purerl.cli import options, values
from purerl.envs.classic.cartpole import CartPole
from purerl.errors import USAGE
from purerl.loops import scan
from purerl.schedules import OnPolicySchedule


def train(seeds: range, steps: int) -> tuple[list[int], np.ndarray]:
    """Train all seeds; return the steps of the epochs, and the mean returns [epochs, seeds]."""
    env = CartPole()
    spec = ppo.Spec(env.spec, train_pi_iters=4, train_v_iters=4, minibatch_size=128)
    schedule = OnPolicySchedule(steps=steps, num_envs=4, rollout_steps=512, steps_per_epoch=5_120)
    done: list[int] = []
    rows: list[list[float]] = []
    together = scan.start(ppo, spec, env, schedule, seeds=seeds)
    while together.carries[0].steps < together.carries[0].schedule.steps:
        together, records = scan.advance(together)
        if records:  # one for each seed
            rows.append([float(np.mean(one["ep_returns"] or [np.nan])) for one in records])
            done.append(records[0]["steps"])
            print(f"step {done[-1]:>8,}  return {average(rows[-1]):>6.1f}", flush=True)
    return done, np.array(rows)


def average(returns: list[float] | np.ndarray) -> float:
    """Return the interquartile mean over seeds."""
    ranked = np.sort(np.asarray(returns)[np.isfinite(returns)])
    cut = len(ranked) // 4
    return float(ranked[cut : len(ranked) - cut].mean())


def draw(steps: list[int], returns: np.ndarray, path: Path) -> None:
    """Draw the interquartile mean and the middle 90 % of the seeds."""
    from matplotlib.figure import Figure  # the extra plot

    figure = Figure(figsize=(6.4, 4), layout="constrained")
    axes = figure.subplots()
    low, high = np.nanquantile(returns, [0.05, 0.95], axis=1)
    axes.fill_between(steps, low, high, alpha=0.25, linewidth=0, label="middle 90 % of the seeds")
    axes.plot(steps, [average(row) for row in returns], label="interquartile mean")
    axes.set(xlabel="environment steps of each seed", ylabel="return of training episodes")
    axes.set(title=f"PPO on CartPole, {returns.shape[1]} seeds", ylim=(0, None))
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.grid(alpha=0.3)
    axes.legend(loc="lower right", frameon=False)
    figure.savefig(path, dpi=120)


if __name__ == "__main__":
    parser = options.Parser("", __doc__, prog=Path(sys.argv[0]).name)
    integer = values.parse_integer
    parser.add_argument("--seeds", type=integer, default=64, help="number of seeds (64)")
    parser.add_argument("--steps", type=integer, default=100_000, help="steps per seed (100000)")
    parser.add_argument("--save", type=Path, help="file of the picture, for example curve.png")
    args = parser.parse_args()
    if mpi.num_procs() > 1:
        if mpi.is_root():
            parser.error("this script runs in one process. Start it without mpiexec.")
        sys.exit(USAGE)
    purerl.setup()
    steps, returns = train(range(args.seeds), args.steps)
    print(f"return of the last episodes: {average(returns[-1]):.1f}")
    if args.save:
        draw(steps, returns, args.save)
        print(f"picture: {args.save}")
