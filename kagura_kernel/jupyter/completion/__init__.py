"""Completion and inspection of our own words, and the names that they find."""
