"""Exercise 3.1: rewards-to-go of several episodes in one array."""
