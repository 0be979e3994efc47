"""Durable metadata in SQL: tables, views and their vectors, leases, intents, batches and the history of refreshes."""
