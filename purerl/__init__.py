"""purerl: reinforcement learning as pure functions, in JAX.

Importing the package imports nothing heavy and changes no global setting:

    from purerl.algos import td3            # init, act, policy, loss, update
    from purerl.loops import gym as loop    # start, advance, run, evaluate
"""

from purerl._setup import setup

__version__ = "0.1.0"
__all__ = ["__version__", "setup"]
