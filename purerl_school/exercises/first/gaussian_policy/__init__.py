"""Exercise 1.2: a diagonal Gaussian policy."""
