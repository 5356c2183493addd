"""The worker process: one file a loop, and what the loops share."""
