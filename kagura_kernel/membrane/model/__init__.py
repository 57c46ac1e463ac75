"""A model's API reached from a box: only its own paths, the key added outside, each answer counted."""
