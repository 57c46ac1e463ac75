"""Which hosts a person has listed. Pure.

`name` admits that name and every name below it, `*.x.y` exactly one label before `x.y` and not `x.y` itself. Anything
wider is refused, and so is whatever is no name of two labels or more: an address is never a host here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from .arguments import shown
from .faults import ConfigRefused

MAX_HOST = 253
LEAST_LABELS = 2
ONE_LEVEL = "*."

_LABEL = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?", re.ASCII)
# What a C library would read as (a part of) an IPv4 address.
_NUMBER = re.compile(r"0x[0-9a-f]*|[0-9]+", re.ASCII)


def is_host(host: str) -> bool:
    """Whether it is a name of two labels or more in its one spelling: lower case, ASCII, no dot at its end."""
    labels = host.split(".")
    return (
        len(host) <= MAX_HOST
        and len(labels) >= LEAST_LABELS
        and all(_LABEL.fullmatch(label) for label in labels)
        and not _NUMBER.fullmatch(labels[-1])
    )


class AllowList:
    """The hosts that a person has listed.

    Args:
        entries: As they were configured.

    Raises:
        ConfigRefused: an entry is no name, or is wider than one level.
    """

    def __init__(self, entries: Iterable[str]) -> None:
        names: list[str] = []
        parents: set[str] = set()
        for entry in entries:
            host = entry.strip().lower()
            one_level = host.startswith(ONE_LEVEL)
            host = host.removeprefix(ONE_LEVEL)
            if not is_host(host):
                raise ConfigRefused(
                    f"{shown(entry)} is no host to allow. Write example.com for it and everything below it, or "
                    "*.example.com for one level; no address, port, path or wider wildcard."
                )
            if one_level:
                parents.add(host)
            else:
                names.append(host)
        self._names = frozenset(names)
        self._parents = frozenset(parents)

    def admits(self, host: str) -> bool:
        """Whether a host is listed; whatever is no host in its one spelling is not."""
        if not is_host(host):
            return False
        if host.partition(".")[2] in self._parents:
            return True
        labels = host.split(".")
        return any(".".join(labels[start:]) in self._names for start in range(len(labels)))
