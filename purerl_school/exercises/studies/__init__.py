"""Studies: change one thing, measure what it does, and explain it."""
