"""Measurements that are kept up to date with the library."""
