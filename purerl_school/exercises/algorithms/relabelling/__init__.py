"""Exercise 3.6: relabelling with goals in hindsight."""
