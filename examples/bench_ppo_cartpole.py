"""Compare sizes and activations of PPO's networks on CartPole: a grid of experiments.

    python examples/bench_ppo_cartpole.py
    python examples/bench_ppo_cartpole.py --num-runs 5 --epochs 25 --data-dir data

By default: two sizes and two activations with two seeds each, 40 000 steps per run, several runs at
a time. This takes about a minute on two cores. At the end, the script prints a table of all runs
and the mean return of each variant. The larger networks reach 250 to 400, the smaller ones about
100.

Run the same command again to complete a grid that was stopped. Every run is like one of `purerl
train`, so `purerl list runs` and `purerl resume` work as well.
"""

import statistics
import sys

from purerl.cli import options, values
from purerl.runs.sweeps.grid import ExperimentGrid
from purerl.runs.sweeps.results import Sweep, format_results


def make_grid(num_runs: int, epochs: int) -> ExperimentGrid:
    """Return the grid; `add` takes a setting, its values, and a shorthand for names of runs."""
    made = ExperimentGrid("ppo-bench")
    made.add("env_name", "CartPole-v1")
    made.add("seed", [10 * i for i in range(num_runs)])
    made.add("epochs", epochs)
    made.add("steps_per_epoch", 4000)
    made.add("ac_kwargs:hidden_sizes", [(32,), (64, 64)], "hid")
    made.add("ac_kwargs:activation", ["tanh", "relu"], "")
    return made


def format_means(sweep: Sweep) -> list[str]:
    """Return a line for each variant, best first: its mean return of the last epoch over seeds."""
    scores: dict[str, list[float]] = {}
    for row in sweep.rows:
        if row.score is not None:
            scores.setdefault(row.name, []).append(row.score)
    return [
        f"{name:<24} {statistics.fmean(each):6.1f}  over {len(each)} seeds"
        for name, each in sorted(scores.items(), key=lambda one: -statistics.fmean(one[1]))
    ]


if __name__ == "__main__":
    parser = options.Parser("", __doc__, prog="bench_ppo_cartpole.py")
    add, integer = parser.add_argument, values.parse_integer
    add("--num-cpu", "--cpu", type=values.parse_ranks, default=1, help="MPI ranks of each run (1)")
    add("--num-runs", type=integer, default=2, help="number of seeds (2)")
    add("--epochs", type=integer, default=10, help="epochs of 4000 steps (10)")
    add("--jobs", type=integer, help="number of runs at a time (as cores allow)")
    add("--data-dir", help="folder of all runs (runs)")
    args = parser.parse_args()
    bench = make_grid(args.num_runs, args.epochs)
    bench.print()
    sweep = bench.run("ppo", num_cpu=args.num_cpu, data_dir=args.data_dir, jobs=args.jobs)
    print(format_results(sweep))
    print("\n".join(format_means(sweep)))
    sys.exit(sweep.code)
