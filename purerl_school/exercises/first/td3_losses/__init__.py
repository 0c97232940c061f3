"""Exercise 1.3: the target and the losses of TD3."""
