"""Immutable buffers: a state over any pytree of arrays, and pure functions on it."""
