"""Run grids of experiments, several at a time."""
