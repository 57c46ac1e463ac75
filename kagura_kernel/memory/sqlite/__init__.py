"""The memory in a file, with everything that it needs to find again what is in it."""
