"""The settings of a run: names, configuration, environments."""
