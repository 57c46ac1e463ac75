"""`kagura-kernel leases`, `leases sweep`, `leases log` and `revoke`: which credentials are out, and for what.

A person names leases by the end of their id too, by `PROVIDER:SCOPE`, or by a provider's kind. A name that fits nothing
is an error: whoever mistypes one in an emergency must not read that all is well.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from kagura_kernel.cli.journal_access import open_journal, place_of, read_journal, read_log
from kagura_kernel.cli.output import moment, size, span, tell, tell_rows
from kagura_kernel.cockpit.next_commands import NO_LEASES, at_limit, of_lease
from kagura_kernel.cockpit.run_names import only
from kagura_kernel.domain.errors import ConfigurationError, RunUnknown, UnknownName, UsageError
from kagura_kernel.domain.late_dataclass import asdict, dataclass
from kagura_kernel.journal import views
from kagura_kernel.journal.leases import LeaseLedger
from kagura_kernel.journal.mailbox import Mailbox
from kagura_kernel.journal.owner import owner_alive, process_owner
from kagura_kernel.jupyter.surface import person
from kagura_kernel.membrane.credentials.revoke import Settler

if TYPE_CHECKING:
    from kagura_kernel.journal.leases import LeaseRow
    from kagura_kernel.journal.rows import LeaseUseRow
    from kagura_kernel.journal.store import Journal
    from kagura_kernel.membrane.credentials.provider import CredentialProvider
    from kagura_kernel.membrane.credentials.revoke import Revoked, Settled


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
        return {*configured, *(f"{row.provider}:{row.scope}" for row in self.rows.values())}


ALL_WELL, SOME_LEFT = 0, 1


def leases(arguments: SimpleNamespace) -> int:
    """Print which are out, or with `--all` the latest of all; 0. Raises as `read_journal`."""
    with read_journal(arguments) as journal:
        ledger = LeaseLedger(journal)
        rows = ledger.rows(limit=arguments.limit) if arguments.all else ledger.open_rows()
    head = ("lease", "provider", "scope", "run", "state", "ends", "budget left", "renewals", "holder", "why")
    whole = ("lease", "run", "state", "ends", "budget left", "renewals", "holder")
    records, cells = list(map(_fields, rows)), list(map(_cells, rows))
    following = [of_lease(row.lease_id) if row.state != "gone" else [] for row in rows]
    more = at_limit(len(rows), arguments.limit) if arguments.all else ""
    return tell_rows(arguments, records, head, cells, whole=whole, following=following, none=NO_LEASES, further=more)


def revoke(arguments: SimpleNamespace) -> int:
    """Take credentials back; 1 when one that should be dead may not be, otherwise 0.

    Raises:
        UsageError: no lease is named, or there is no journal.
        UnknownName: there is no such lease, scope or provider; then nothing was revoked.
        ConfigurationError: the providers' configuration is wrong; runs are cut off from what was to be revoked all the
            same.
        JournalError: the journal cannot be used.
    """
    with open_journal(place_of(arguments)) as journal:
        return _revoke(arguments, journal, LeaseLedger(journal))


def _revoke(arguments: SimpleNamespace, journal: Journal, ledger: LeaseLedger) -> int:
    if sum((bool(arguments.lease), arguments.every, arguments.provider is not None)) != 1:
        raise UsageError("Say which leases to revoke: ids or PROVIDER:SCOPE, or --provider NAME, or --all.")
    try:
        providers, trouble = _providers(), None
    except ConfigurationError as error:
        # Nobody can be asked to revoke anything. That the runs get no more of it must not wait for that.
        providers, trouble = {}, error
    wanted = _wanted(arguments, LeaseNames(ledger, providers), trouble)
    settler = Settler(ledger, providers, process_owner(), owner_alive)
    revoked = asyncio.run(settler.revoke_now(wanted.holds, person()))
    _tell_holders(journal, revoked)
    if trouble is not None:
        raise trouble
    records = [
        asdict(one.settled) | {"lease_id": one.row.lease_id, "run_id": one.row.run_id, "dead": one.dead}
        for one in revoked
    ]
    lines = [*wanted.not_out([one.row for one in revoked]), *map(_said, revoked)]
    tell(arguments, records, "\n".join(lines) or "No credential is out.")
    return ALL_WELL if all(one.dead for one in revoked) else SOME_LEFT


@dataclass(frozen=True, slots=True)
class _Wanted:
    """Which leases to revoke, those that are minted meanwhile included."""

    every: bool = False
    ids: frozenset[str] = frozenset()
    scopes: frozenset[str] = frozenset()
    providers: frozenset[str] = frozenset()

    def holds(self, row: LeaseRow) -> bool:
        """Whether it is one of them."""
        named = {row.id, row.lease_id} & self.ids or row.provider in self.providers
        return self.every or bool(named) or f"{row.provider}:{row.scope}" in self.scopes

    def not_out(self, rows: Sequence[LeaseRow]) -> list[str]:
        """A line for each name that none of these rows bears."""
        ids = {key for row in rows for key in (row.id, row.lease_id)}
        names = {name for row in rows for name in (row.provider, f"{row.provider}:{row.scope}")}
        gone = [f"{key}: it was gone already." for key in sorted(self.ids - ids)]
        return gone + [f"{name}: no credential is out." for name in sorted((self.scopes | self.providers) - names)]


def _wanted(arguments: SimpleNamespace, names: LeaseNames, trouble: ConfigurationError | None) -> _Wanted:
    try:
        return _Wanted(
            every=arguments.every,
            ids=frozenset(names.lease(word) for word in arguments.lease if ":" not in word),
            scopes=frozenset(names.scope(word) for word in arguments.lease if ":" in word),
            providers=names.providers(arguments.provider) if arguments.provider is not None else frozenset(),
        )
    except UnknownName:
        # It may well be configured where nothing can be read.
        if trouble is not None:
            raise trouble from None
        raise


def _tell_holders(journal: Journal, revoked: list[Revoked]) -> None:
    """Their brokers read the ledger before they give anything out; the word lets them say so before that."""
    for run_id in dict.fromkeys(one.row.run_id for one in revoked):
        with suppress(RunUnknown):
            Mailbox(journal).send(run_id, "leases", by=person())


def leases_sweep(arguments: SimpleNamespace) -> int:
    """Revoke what processes that are gone have left; 1 when something stays owed, otherwise 0.

    Raises as `open_journal`, and `ConfigurationError` where the providers' configuration is wrong.
    """
    with open_journal(place_of(arguments)) as journal:
        settler = Settler(LeaseLedger(journal), _providers(), process_owner(), owner_alive)
        report = asyncio.run(settler.sweep())
    lines = [f"{one.id}: {one.provider}:{one.scope}: {_how(one)}" for one in report.settled]
    tell(arguments, list(map(asdict, report.settled)), "\n".join(lines) or "Nothing to sweep.")
    return SOME_LEFT if report.kept else ALL_WELL


def _providers() -> Mapping[str, CredentialProvider]:
    from kagura_kernel.assembly import load_providers

    return load_providers(os.environ)


def _said(one: Revoked) -> str:
    row, settled = one.row, one.settled
    how = _how(settled)
    if settled.how == "left to expire":
        how = f"it cannot be revoked and may live until {moment(row.dies_at)}; rotate the key behind {row.provider}"
    return f"{row.lease_id}: {row.provider}:{row.scope} of {row.run_id}: {how}"


def _how(settled: Settled) -> str:
    if settled.done:
        return settled.how
    return f"still owed: {settled.why}; `kagura-kernel leases sweep` tries again from {span(settled.retry_in)} on"


def _fields(row: LeaseRow) -> dict[str, Any]:
    # What revokes a credential is nobody's business, sealed or not.
    shown = {name: value for name, value in asdict(row).items() if name not in {"handle", "claimed_by"}}
    return shown | {"owner_alive": owner_alive(row.owner)}


def _cells(row: LeaseRow) -> tuple[object, ...]:
    return (
        row.lease_id,
        row.provider,
        row.scope,
        row.run_id,
        row.state,
        moment(row.expires_at),
        span(max(0.0, row.total_seconds - row.spent_seconds)),
        row.renewals_left,
        "alive" if owner_alive(row.owner) else "gone",
        row.why or "-",
    )


def leases_log(arguments: SimpleNamespace) -> int:
    """Print them; 0 whatever they are like. Raises as `read_log`."""
    rows = read_log(
        arguments,
        lambda journal, run_id, since, limit: views.lease_uses(journal, run_id=run_id, since=since, limit=limit),
    )
    head = ("at", "run", "lease", "for", "request", "answer", "out", "in", "took", "why")
    whole = ("at", "run", "lease", "answer", "out", "in", "took")
    none = "No request was made with a leased credential."
    records, cells, more = list(map(asdict, rows)), list(map(_use_cells, rows)), at_limit(len(rows), arguments.limit)
    return tell_rows(arguments, records, head, cells, whole=whole, none=none, further=more)


def _use_cells(row: LeaseUseRow) -> tuple[object, ...]:
    return (
        moment(row.at),
        row.run_id,
        row.lease_id,
        f"{row.provider}:{row.scope}",
        f"{row.method} {row.host}{row.path}",
        row.status or "none",
        size(row.bytes_out),
        size(row.bytes_in),
        span(row.duration),
        row.why or "-",
    )
