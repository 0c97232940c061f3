"""Parts of algorithms: returns, advantages, losses and targets."""
