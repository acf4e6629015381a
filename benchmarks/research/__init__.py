"""Experiments that answered one question each; the answers are in ``research/`` of the checkout."""
