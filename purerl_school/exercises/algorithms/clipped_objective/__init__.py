"""Exercise 3.3: PPO's clipped objective."""
