"""A real cluster to test on: kind where Docker runs, elsewhere one node built from Go modules."""
