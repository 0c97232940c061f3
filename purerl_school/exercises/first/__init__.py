"""First exercises: distributions and losses."""
