"""Exercise 3.5: the loss of SAC's temperature."""
