"""Memories in a notebook: tables to work with, which as the end of a cell are cards to act on."""
