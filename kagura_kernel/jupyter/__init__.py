"""The notebook: magics, displays and tables."""
