"""Boxes on another Linux machine, by bubblewrap there and OpenSSH's own client here."""
