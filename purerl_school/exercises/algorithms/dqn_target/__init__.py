"""Exercise 3.4: the targets of DQN and of double DQN."""
