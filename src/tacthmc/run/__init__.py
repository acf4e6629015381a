"""The driver and what it returns."""
