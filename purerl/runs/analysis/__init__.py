"""Draw learning curves and compare runs from their tables, without importing JAX."""
