"""Exercise 2.2: a bug that raises no error."""
