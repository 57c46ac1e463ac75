"""Boxes made of Linux namespaces by bubblewrap."""

from kagura_kernel.sandbox.bubblewrap.backend import BubblewrapBackend

__all__ = ["BubblewrapBackend"]
