"""The promises of docs/design.md, tested on each algorithm."""
