"""What docs/design.md promises of every algorithm, tested on each of them."""
