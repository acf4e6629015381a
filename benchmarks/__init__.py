"""Measurements of the library: ``python -m benchmarks`` lists and runs them."""
