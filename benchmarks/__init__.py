"""Speed beside peers; never part of the test suite."""
