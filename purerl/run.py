"""Entry point of `python -m purerl.run`, which accepts Spinning Up's command lines."""

import sys

from purerl.cli.spinningup import main

if __name__ == "__main__":
    sys.exit(main())
