"""Train in a run folder: save, report, stop, fail, resume."""
