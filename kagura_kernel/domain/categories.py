"""The sorts of deeds that trust is earned for. Values alone, and light: the list of commands names them."""

from __future__ import annotations

from typing import NamedTuple


class Category(NamedTuple):
    """A sort of deed that trust is earned for."""

    name: str  # What it is called in commands and rows
    about: str  # What belongs to it, one clause
    # Whether agents do it from the start: asked as usual, and an answer for the session holds. What is not included is
    # locked: asked every single time.
    included: bool
    graduates: bool = True  # Whether a person can ever stop being asked


CATEGORIES: tuple[Category, ...] = (
    Category("git", "git clone, add, commit and push, without rewriting anything", included=True),
    Category("config-files", "`.env` files of the project", included=True),
    Category("dns-read", "looking DNS records up", included=True),
    Category("dns-write", "credentials that change DNS records", included=False),
    Category("packages", "packages on the host, and a box whose whole system may be changed", included=False),
    Category("cloud-credentials", "credentials that no run has held before", included=False),
    Category("force-push", "rewriting or deleting published history", included=False, graduates=False),
)
"""The default policy, in the order in which it is shown."""
