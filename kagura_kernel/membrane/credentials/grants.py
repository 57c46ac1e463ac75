"""Which credentials a run may have. Nothing by default; what is granted is granted exactly, without patterns."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NewType

from kagura_kernel.domain.errors import GrantMissing, UsageError

Scope = NewType("Scope", str)
"""What a credential is good for: a name that the provider's configuration explains."""

_FORM = "A grant is written PROVIDER:SCOPE, as in `--grant github:read`"
_PROVIDER = re.compile(r"[a-z][a-z0-9_-]{0,62}")
_SCOPE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@+-]{0,199}")


@dataclass(frozen=True, slots=True, order=True)
class Grant:
    """One thing that one run may have."""

    provider: str  # Name of a provider in the registry
    scope: Scope  # One of its scopes, exactly

    def __str__(self) -> str:
        return f"{self.provider}:{self.scope}"


def parse_grant(text: str) -> Grant:
    """The grant behind `PROVIDER:SCOPE`; a scope may hold further colons.

    Raises:
        UsageError: it is not of this form; patterns are not.
    """
    provider, colon, scope = text.partition(":")
    # What was written is not repeated: somebody may have pasted a secret here.
    if not colon:
        raise UsageError(f"{_FORM}.")
    if "*" in text or "?" in text:
        raise UsageError(f"{_FORM}; patterns are not allowed: grant each scope by its name.")
    if not _PROVIDER.fullmatch(provider):
        raise UsageError(f"{_FORM}; a provider's name begins with a small letter and is made of a-z, 0-9, - and _.")
    if not _SCOPE.fullmatch(scope):
        raise UsageError(
            f"{_FORM}; a scope's name begins with a letter or digit and is made of letters (A-Z, a-z), digits and "
            ". _ : / @ + -."
        )
    return Grant(provider, Scope(scope))


def is_provider_name(text: str) -> bool:
    """Whether a provider may bear this name."""
    return _PROVIDER.fullmatch(text) is not None


def is_scope_name(text: str) -> bool:
    """Whether a scope may bear this name."""
    return _SCOPE.fullmatch(text) is not None


class Grants:
    """What one run may have; frozen."""

    __slots__ = ("_granted",)

    def __init__(self, granted: Iterable[Grant] = ()) -> None:
        self._granted = frozenset(granted)

    def __contains__(self, grant: object) -> bool:
        return grant in self._granted

    def __iter__(self) -> Iterator[Grant]:
        return iter(sorted(self._granted))

    def __len__(self) -> int:
        return len(self._granted)

    def check(self, provider: str, scope: str) -> Grant:
        """The grant that allows this.

        Raises:
            GrantMissing: there is none.
        """
        wanted = Grant(provider, Scope(scope))
        if wanted not in self._granted:
            raise GrantMissing(provider, scope)
        return wanted
