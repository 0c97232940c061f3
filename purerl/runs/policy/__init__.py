"""Use a trained policy: evaluate, film, export."""
