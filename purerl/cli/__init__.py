"""The command line: `purerl`, `python -m purerl` and `python -m purerl.run`."""
