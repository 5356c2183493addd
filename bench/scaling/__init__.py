"""Autoscalers beside each other over the same jobs, with a fake clock: who ends busy pods, and who starts idle ones."""
