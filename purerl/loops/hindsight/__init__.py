"""Hindsight experience replay: goals that an episode reached, and the rewards for them."""
