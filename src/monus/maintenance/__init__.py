"""Scenarios, planning, execution and recovery: everything that moves a view from one state to the next."""
