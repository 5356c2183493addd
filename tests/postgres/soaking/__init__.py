"""Workers under a changing load, killed again and again: the long test of the limits."""
