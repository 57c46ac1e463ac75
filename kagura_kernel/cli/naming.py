"""What a person names, as ids: runs and leases by the end of their id too, `last`, `PROVIDER:SCOPE`, a provider's kind.

A name that fits nothing is an error: whoever mistypes one in an emergency must not read that all is well.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from kagura_kernel.domain.errors import RunUnknown, UnknownName, UsageError

if TYPE_CHECKING:
    from kagura_kernel.journal.leases import LeaseLedger, LeaseRow
    from kagura_kernel.journal.store import Journal
    from kagura_kernel.membrane.credentials.provider import CredentialProvider

LAST = "last"
_REMEMBERED = 1000
_SHOWN = 3


def named_run(journal: Journal, word: str) -> str:
    """A run's id: as given, the one that ends like this, or the newest for `last`.

    Raises:
        RunUnknown: no run fits.
        UsageError: several do.
        JournalError: the journal cannot be read.
    """
    from kagura_kernel.journal import views

    if word == LAST:
        newest = views.runs(journal, limit=1)
        if not newest:
            raise RunUnknown(LAST)
        return newest[0].run_id
    if journal.events(run_id=word, limit=1):
        return word
    return _one(word, views.runs_ending(journal, word), "runs", "kagura-kernel runs")


def run_to_stop(journal: Journal, word: str) -> str:
    """As `named_run`, but `last` is the newest run that goes on.

    Raises:
        RunUnknown: no run fits.
        UsageError: several do, or `last` was said and none goes on.
        JournalError: the journal cannot be read.
    """
    from kagura_kernel.journal import views
    from kagura_kernel.journal.owner import owner_alive

    if word != LAST:
        return named_run(journal, word)
    going = views.unfinished(journal)
    if not going:
        raise UsageError("There is nothing to stop: no run is going on. `kagura-kernel runs` lists those that ended.")
    return next((row.run_id for row in going if owner_alive(row.owner)), going[0].run_id)


def _one(word: str, found: list[str], what: str, command: str) -> str:
    if len(found) > 1:
        more = ", …" if len(found) > _SHOWN else ""
        fits = f"{', '.join(found[:_SHOWN])}{more}"
        raise UsageError(f"{word!r} fits {len(found)} {what} ({fits}); give the whole id, as `{command}` prints it.")
    if not found:
        raise RunUnknown(word)
    return found[0]


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
        return _one(word, found, "leases", "kagura-kernel leases")

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
