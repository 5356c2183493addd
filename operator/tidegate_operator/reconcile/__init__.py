"""Pure decisions, (desired, observed) -> plan: no cluster, no database, no event loop and no clock of their own."""
