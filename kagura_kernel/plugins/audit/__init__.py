"""The examination of a plugin by a brain that cannot be talked round unnoticed, and what becomes of its answer."""
