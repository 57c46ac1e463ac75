"""Boxes in Docker containers."""
