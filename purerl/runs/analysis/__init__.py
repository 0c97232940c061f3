"""Curves and comparisons from the tables of runs."""
