"""Training in a run folder: saving, reporting, stopping, failing and resuming."""
