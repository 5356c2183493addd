"""The parts of ``make demo``: its story, the processes it runs, what it shows, and the proof that it computes."""
