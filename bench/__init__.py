"""Benchmarks: what the limits, the fair order and the worker cost beside bare SQL. Start: ``make bench``."""
