"""Which leases a person names: by the end of their id too, by `PROVIDER:SCOPE`, or by a provider's kind.

A name that fits nothing is an error: whoever mistypes one in an emergency must not read that all is well.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from kagura_kernel.cockpit.naming import only
from kagura_kernel.domain.errors import UnknownName

if TYPE_CHECKING:
    from kagura_kernel.journal.leases import LeaseLedger, LeaseRow
    from kagura_kernel.membrane.credentials.provider import CredentialProvider

_REMEMBERED = 1000


class LeaseNames:
    """Which leases a person means, by the ledger and by the providers that are configured."""

    def __init__(self, ledger: LeaseLedger, providers: Mapping[str, CredentialProvider]) -> None:
        out = ledger.open_rows()
        self.rows: Mapping[str, LeaseRow] = {row.id: row for row in (*ledger.rows(limit=_REMEMBERED), *out)}
        """The latest rows, and all that are not gone."""
        self._ledger = ledger
        self._out = {row.lease_id: None for row in out}
        self._providers = providers

    def lease(self, word: str) -> str:
        """A lease's id: as given (that of one of its credentials will do), or the one that ends like this.

        Raises:
            UnknownName: no lease bears that id, nor ever did.
            UsageError: it is the end of several ids.
        """
        if self._ledger.row(word) is not None or word in self._out:
            return word
        fitting = [row.lease_id for row in self.rows.values() if row.lease_id.endswith(word) or row.id.endswith(word)]
        found = list(dict.fromkeys(fitting)) if word else []
        if not found:
            raise UnknownName("lease", word, [*self._out, *sorted(self._scopes())])
        return only(word, found, "leases", "%kagura leases")

    def scope(self, word: str) -> str:
        """`PROVIDER:SCOPE` as given.

        Raises:
            UnknownName: no provider has that scope, nor is a lease of it remembered.
        """
        known = self._scopes()
        if word not in known:
            raise UnknownName("lease", word, sorted(known))
        return word

    def providers(self, word: str) -> frozenset[str]:
        """The names of providers behind a name, or behind the kind of some that are configured: a name comes first.

        Raises:
            UnknownName: no provider bears that name or is of that kind, nor is a lease of such a one remembered.
        """
        names = {*self._providers, *(row.provider for row in self.rows.values())}
        if word in names:
            return frozenset({word})
        of_kind = frozenset(name for name, provider in self._providers.items() if provider.kind == word)
        if not of_kind:
            raise UnknownName("credential provider", word, sorted(names))
        return of_kind

    def _scopes(self) -> set[str]:
        configured: Iterable[str] = (
            f"{name}:{scope}" for name, provider in self._providers.items() for scope in provider.scopes
        )
        return {*configured, *map(_scope, self.rows.values())}


def _scope(row: LeaseRow) -> str:
    return f"{row.provider}:{row.scope}"
