"""One environment and one update after each of its steps: the loop with the least work per step."""
