"""Brains: what thinks. A brain sees only the words in `domain`; its hands are the tools it is given."""
