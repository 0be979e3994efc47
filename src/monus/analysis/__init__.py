"""Facts about a query, derived from its leaves up: keys, columns read, and by which rule it is incremental, if any."""
