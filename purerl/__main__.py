"""The command line: `purerl`, or `python -m purerl`."""

import importlib
import sys

from purerl import __version__, algos

OVERVIEW = f"""purerl {__version__}: reinforcement learning as pure functions, in JAX

  purerl train ALGO --env ID     train; --help after it lists every setting
  purerl resume RUN              go on with a run that was stopped or killed, bit for bit
  purerl list [algos|runs]       what there is, and how runs stand
  purerl inspect RUN             what a run and its checkpoints hold

ALGO is one of {", ".join(algos.NAMES)}.

Try:
  purerl train ppo --env CartPole-v1
  purerl train sac --env Pendulum-v1 --steps 20000 --hidden 64,64 --seed 0 1 2
  purerl train td3 --env HalfCheetah-v5 --num-cpu 2 --name cheetah
  purerl list runs
  purerl resume runs/cartpole-v1-ppo/cartpole-v1-ppo_s0
"""
# Each in the module that does it, imported when it is asked for: most need no JAX.
COMMANDS = {
    "train": "purerl.commands:train",
    "resume": "purerl.commands:resume",
    "list": "purerl.runs.looking:listing",
    "inspect": "purerl.runs.looking:inspect",
    "eval": "purerl.runs.evaluate:command",
    "watch": "purerl.runs.video:command",
    "export": "purerl.runs.export:command",
}


def main(argv: list[str] | None = None) -> int:
    """Run a command; return its exit code."""
    words = sys.argv[1:] if argv is None else argv
    if not words or words[0] in ("-h", "--help", "help"):
        sys.stdout.write(OVERVIEW)
        return 0
    if words[0] == "--version":
        sys.stdout.write(f"purerl {__version__}\n")
        return 0
    name, *rest = words
    if name not in COMMANDS:
        import difflib

        near = difflib.get_close_matches(name, COMMANDS, 1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        sys.stderr.write(f"purerl: unknown command {name!r}.{hint} `purerl` shows all.\n")
        return 2
    module, _, function = COMMANDS[name].partition(":")
    return int(getattr(importlib.import_module(module), function)(rest))


if __name__ == "__main__":
    sys.exit(main())
