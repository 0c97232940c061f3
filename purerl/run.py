"""Spinning Up's command line: `python -m purerl.run ppo --env CartPole-v1 --seed 0 10 20`."""

import sys

from purerl.cli.spinningup import main

if __name__ == "__main__":
    sys.exit(main())
