"""Entry point of `purerl` and `python -m purerl`."""

import sys

from purerl.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
