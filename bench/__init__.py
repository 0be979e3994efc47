"""Benchmarks: incremental maintenance against full recomputation, in one run, on the same data.

`python -m bench --list` names the cases; docs/benchmarks.md says what is measured and how to add a case.
"""
