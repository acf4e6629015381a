"""Choosing a sampler's numbers: short runs, what they showed, and what follows from it."""
