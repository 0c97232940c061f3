"""Exercise 3.7: one step of a custom loop."""
