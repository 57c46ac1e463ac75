"""With whom a journal is shared, and how it comes to that: see `rights`.

The owner of its tables shares it, and may do so again at any time; whoever only has a journal open never does.
"""

from __future__ import annotations

from sqlalchemy import Connection

from kagura_kernel.domain.errors import UsageError
from kagura_kernel.domain.late_dataclass import dataclass
from kagura_kernel.journal.rights import SHARING, SharedTables
from kagura_kernel.journal.schema import become, owner_of
from kagura_kernel.journal.statements import run_text

USERS, AUDITORS = "kagura_users", "kagura_auditors"
"""What the two roles are called where nobody says."""

_EVERYBODY = frozenset({"public", "none"})
"""What PostgreSQL takes for something else, quoted or not."""
_HAS_ROLE = "SELECT FROM pg_roles WHERE rolname = %(role)s"
_MAY_MAKE = "SELECT FROM pg_roles WHERE rolname = current_user AND (rolcreaterole OR rolsuper)"
_MAY_SEE = "SELECT WHERE has_schema_privilege(%(role)s, %(namespace)s, 'USAGE')"
_MAY_MAKE_IN = "SELECT WHERE has_schema_privilege(%(role)s, %(namespace)s, 'CREATE')"
_IS_KEPT = "SELECT WHERE row_security_active('journal_events')"


@dataclass(frozen=True, slots=True)
class Sharing:
    """With whom a journal is shared."""

    users: str  # The role whose members keep their runs in it, each seeing her own
    auditors: str  # The role whose members see everything


def sharing(connection: Connection) -> Sharing | None:
    """With whom a journal is shared; None where it is not."""
    if connection.dialect.name != "postgresql" or not _is(connection, f"SELECT WHERE to_regclass('{SHARING}') <> 0"):
        return None
    found = run_text(connection, f"SELECT users, auditors FROM {SHARING}").fetchone()  # noqa: S608 - a constant
    return Sharing(*found) if found else None


def share(connection: Connection, where: str, users: str | None = None, auditors: str | None = None) -> Sharing:
    """Share a journal, or bring the rights of one that is shared up to date.

    Args:
        connection: One that writes to it, in a transaction.
        where: The journal, for messages.
        users: The role whose members keep their runs in it; made if it is missing. None for the one that it has been
            shared with, or `USERS`.
        auditors: Likewise the role whose members see everything; or `AUDITORS`.

    Raises:
        UsageError: it is a file, or somebody has to do something first; the text says who and what.
    """
    if connection.dialect.name != "postgresql":
        raise UsageError("A journal in a file is one person's. One on a PostgreSQL server can be shared: `--url`.")
    before = sharing(connection) or Sharing(USERS, AUDITORS)
    now = Sharing(users or before.users, auditors or before.auditors)
    _share(connection, where, now, before)
    return now


def renew(connection: Connection, where: str) -> None:
    """Give the tables of a journal that is shared the rights that this version of the package wants.

    Raises:
        UsageError: as `share` does.
    """
    if (found := sharing(connection)) is not None:
        _share(connection, where, found, found)


def _share(connection: Connection, where: str, now: Sharing, before: Sharing) -> None:
    found = owner_of(connection)
    if not found.ours:
        raise UsageError(f"The tables of {where} belong to {found.owner}: only that role can share them.")
    roles = [now.users, now.auditors, found.owner]
    if len({*roles} - _EVERYBODY) < len(roles):
        raise UsageError("Users and auditors are two roles of their own, and neither is the owner of the tables.")
    quote = connection.dialect.identifier_preparer.quote_identifier
    for role in (now.users, now.auditors):
        _see_to_role(connection, role)
        _see_to_schema(connection, role, found.namespace)
    # Whoever shares it as a superuser leaves no function behind that has a superuser's rights.
    become(connection, found.owner)
    tables = SharedTables(found.namespace, now.users, now.auditors, quote)
    for statement in tables.statements():
        run_text(connection, statement)
    for role in {before.users, before.auditors} - {now.users, now.auditors}:
        if _is(connection, _HAS_ROLE, role=role):
            for statement in tables.withdrawn(role):
                run_text(connection, statement)


def _see_to_role(connection: Connection, role: str) -> None:
    quoted = connection.dialect.identifier_preparer.quote_identifier(role)
    if _is(connection, _HAS_ROLE, role=role):
        return
    if not _is(connection, _MAY_MAKE):
        raise UsageError(f"There is no role {role}, and this one may make none. First: CREATE ROLE {quoted} NOLOGIN")
    run_text(connection, f"CREATE ROLE {quoted} NOLOGIN")


def _see_to_schema(connection: Connection, role: str, namespace: str) -> None:
    """See to it that a role finds the tables, and puts nothing beside them that others would take for ours."""
    quote = connection.dialect.identifier_preparer.quote_identifier
    names = {"role": role, "namespace": namespace}
    if not _is(connection, _MAY_SEE, **names) or _is(connection, _MAY_MAKE_IN, **names):
        raise UsageError(
            f"The role {role} must see the schema {namespace} of the tables and make nothing in it. First, as the "
            f"schema's owner: REVOKE CREATE ON SCHEMA {quote(namespace)} FROM PUBLIC; GRANT USAGE ON SCHEMA "
            f"{quote(namespace)} TO {quote(role)}"
        )


def sees_all(connection: Connection) -> bool:
    """Whether it is a reader from whom nothing is kept: everybody but the users of a journal that is shared."""
    return sharing(connection) is None or not _is(connection, _IS_KEPT) or audits(connection)


def audits(connection: Connection) -> bool:
    """Whether it is an auditor of a journal that is shared: sees everything, and writes nothing."""
    if (found := sharing(connection)) is None or not _is(connection, _IS_KEPT):
        return False
    return _is(connection, "SELECT WHERE pg_has_role(%(role)s, 'USAGE')", role=found.auditors)


def _is(connection: Connection, query: str, **values: str) -> bool:
    """Whether a query gives a row."""
    return run_text(connection, query, values).fetchone() is not None
