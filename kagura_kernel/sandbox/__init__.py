"""Boxes: places where a command can do no harm."""
