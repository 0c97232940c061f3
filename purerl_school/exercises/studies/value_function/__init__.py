"""Exercise 2.1: what a well-trained value function does to a policy gradient."""
