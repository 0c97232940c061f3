"""Runs: folders, logs, checkpoints; the only place that touches disk."""
