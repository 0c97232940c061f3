"""Several seeds in one program, of both loops."""
