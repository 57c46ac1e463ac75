"""Kits in a notebook: what is staged as a value to look into, file by file."""
