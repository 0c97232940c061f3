"""Grids of runs, several at a time."""
