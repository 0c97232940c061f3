"""The promises of docs/reference/design.md, tested on each algorithm."""
