"""Tools for whoever works on the library; not installed with it."""
