"""A stateful test of the claim: a pure model decides order and permission, a machine compares it with the database."""
