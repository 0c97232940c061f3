"""Learning curves and comparisons from the tables of runs; nothing here imports JAX."""
