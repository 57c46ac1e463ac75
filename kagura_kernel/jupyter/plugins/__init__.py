"""Plugins in a notebook: tables, and the card of an audit with its buttons and its form."""
