"""Blocks, the few kinds of things that displays are made of, and what draws them; it knows nothing of runs."""
