"""The bag algebra: relations, scalars and aggregates as immutable values."""
