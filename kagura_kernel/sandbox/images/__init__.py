"""The images that container boxes start from: their recipes, how they are built, and what may not be in one."""
