"""Runs that are wrong or right by construction, and what their summaries say."""
