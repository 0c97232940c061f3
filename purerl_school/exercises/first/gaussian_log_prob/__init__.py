"""Exercise 1.1: the log-probability of a diagonal Gaussian."""
