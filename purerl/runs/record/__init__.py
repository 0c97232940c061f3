"""The folder of a run: files, status, checkpoints, logs."""
