"""Benchmarks of purerl and its peers, which are not part of the test suite."""
