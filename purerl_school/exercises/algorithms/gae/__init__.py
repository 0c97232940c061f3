"""Exercise 3.2: generalised advantage estimation."""
