"""Equivalences of the algebra: each file holds one rule that gives an equal relation that is cheaper to maintain."""
