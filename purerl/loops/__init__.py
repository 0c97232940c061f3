"""Drivers: the only place that steps environments."""
