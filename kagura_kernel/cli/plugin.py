"""`kagura-kernel plugin`, but for `enable` and `audit`: plugins looked at, approved, installed, trusted, published."""

from __future__ import annotations

import os
import shlex
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, fields, replace
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from kagura_kernel.assembly.places import redactor_of
from kagura_kernel.cli.output import (
    as_json,
    cut,
    for_terminal,
    moment,
    paragraph,
    table,
    tell,
    tell_rows,
    terminal_width,
    with_next,
)
from kagura_kernel.cockpit.next_commands import NO_AUTHORS, NO_PLUGINS, NO_REPOSITORIES, at_limit, of_plugin
from kagura_kernel.cockpit.run_names import LAST, here_of
from kagura_kernel.domain.errors import UsageError
from kagura_kernel.domain.plugins import PluginState
from kagura_kernel.journal import views
from kagura_kernel.journal.mailbox import plugin_words_wait, send_plugin_word
from kagura_kernel.journal.owner import owner_alive
from kagura_kernel.journal.place import data_home
from kagura_kernel.journal.plugins import plugin_views
from kagura_kernel.jupyter.surface import person
from kagura_kernel.membrane.names import shown

if TYPE_CHECKING:
    from kagura_kernel.cockpit.cockpit import Cockpit
    from kagura_kernel.cockpit.plugin_repositories import Hit, Update
    from kagura_kernel.domain.plugins import PluginFinding
    from kagura_kernel.journal.plugins import PluginLogLine, PluginView
    from kagura_kernel.journal.store import Journal
    from kagura_kernel.plugins.manager import PluginRow
    from kagura_kernel.plugins.repositories.trusted import TrustedRepository
    from kagura_kernel.plugins.scan import Scan


VIA = "terminal"

_OF_A_SESSION = frozenset(
    {"called", "changed", "configured", "disabled", "enabled", "failed", "printed", "quarantined", "rejected"}
)
"""What happens in one session; anything else is about the plugin's files, whoever's session it was done from."""

_LOG_INDENT = "     "
_ANSWERS = ("Enable", "Approve", "Reject")
"""What a person pressed, which the other cells say already."""


def in_cockpit(act: Callable[[Cockpit, SimpleNamespace], int]) -> Callable[[SimpleNamespace], int]:
    """A command that does this in a cockpit of its own, or in that of the conversation in which it was typed.

    Raises:
        UnknownName: there is no such plugin or session.
        UsageError: something that is needed was not said.
        PluginError: it cannot be done with this plugin.
        ConfigurationError: the settings are wrong.
        JournalError: the journal cannot be used.
    """

    def command(arguments: SimpleNamespace) -> int:
        from kagura_kernel.assembly import close_cockpit, get_cockpit
        from kagura_kernel.assembly.process import cockpit_here

        stays = cockpit_here() is not None
        try:
            return act(get_cockpit(), arguments)
        finally:
            # A conversation's holds what it has enabled.
            if not stays:
                close_cockpit()

    return command


@in_cockpit
def plugin_list(found: Cockpit, arguments: SimpleNamespace) -> int:
    """Print the plugins, as a session has them or as they lie here; 0."""
    session = named_session(found.journal, arguments.session, needed=False)
    rows = as_in(found.journal, session, found.plugins.rows())
    following = list(map(of_plugin, rows))
    if arguments.json:
        print(as_json(with_next([as_data(row) for row in rows], following)))
    elif rows:
        head = ("plugin", "version", "state", "risk", "approved", "place", "what it does")
        print(table(head, [_cells(row) for row in rows], whole=("plugin", "version", "state"), following=following))
        for row in rows:
            if why := row.why_out:
                print(f"{row.name}: {cut(why, 400)}")
            if row.update:
                print(f"{row.name}: {row.update} can be had: `kagura-kernel plugin update {row.name}`")
        for problem in found.plugins.manager.problems:
            print(for_terminal(problem))
        if not session and (several := live_sessions(found.journal)):
            names = ", ".join(several[:5])
            print(f"{len(several)} sessions go on; `--session NAME` tells what is enabled in one: {names}")
    else:
        print(for_terminal(NO_PLUGINS))
    return 0


def as_data(row: PluginRow) -> dict[str, Any]:
    """A row as JSON has it."""
    data = {one.name: getattr(row, one.name) for one in fields(row)}
    opened = {name: asdict(data[name]) for name in ("permissions", "opens")}
    return data | opened | {"path": str(row.path), "config": dict(row.config)}


def _cells(row: PluginRow) -> tuple[str, ...]:
    return (
        row.name,
        row.version or "-",
        "not usable" if row.problem else str(row.state),
        str(row.risk) if row.risk is not None else "not audited",
        "yes" if row.approved else "-",
        f"{row.place}, signed by {row.signed_by}" if row.signed_by else row.place,
        row.description or "-",
    )


@in_cockpit
def plugin_disable(found: Cockpit, arguments: SimpleNamespace) -> int:
    """Have a session do without a plugin; 0."""
    row, journal = found.plugins.row(arguments.name), found.journal
    session = named_session(journal, arguments.session)

    def state() -> PluginState:
        return as_in(journal, session, [row])[0].state

    enabled = state() is PluginState.ENABLED
    if enabled or plugin_words_wait(journal, [session]):
        send_plugin_word(journal, session, "disable", row.name, by=person(), via=VIA)
    gone = not enabled or bool(
        wait_for(journal, session, lambda: "" if state() is PluginState.ENABLED else "it is off there")
    )
    said = f"{row.name} is {'disabled' if enabled else 'not enabled'} in the session {session}"
    said += "." if gone else " as soon as that hears of it, at its next run at the latest."
    data = {"plugin": row.name, "session": session, "was_enabled": enabled, "disabled": gone}
    return tell(arguments, data, said)


@in_cockpit
def plugin_approve(found: Cockpit, arguments: SimpleNamespace) -> int:
    """Approve its files as they are; 0."""
    from kagura_kernel.cockpit.plugin_talk import approved_text

    row = found.plugins.approve(arguments.name, by=person(), via=VIA)
    said = approved_text(row)
    return tell(arguments, as_data(row), said)


@in_cockpit
def plugin_unapprove(found: Cockpit, arguments: SimpleNamespace) -> int:
    """Take that back; 0."""
    gone = found.plugins.unapprove(arguments.name, by=person(), via=VIA)
    said = f"{arguments.name} is approved no longer." if gone else f"{arguments.name} was not approved."
    return tell(arguments, {"plugin": arguments.name, "was_approved": gone}, said)


@in_cockpit
def plugin_config(found: Cockpit, arguments: SimpleNamespace) -> int:
    """Print what it can be told; 0."""
    schema = found.plugins.examine(arguments.name).schema
    session = named_session(found.journal, arguments.session, needed=False)
    told = as_in(found.journal, session, [found.plugins.row(arguments.name)])[0].config
    told_fields = [
        {
            "field": name,
            "type": field.type,
            "default": field.default,
            "asked_for": field.asked,
            "configured": told.get(name),
            "description": field.description,
        }
        for name, field in schema.items()
    ]
    head = ("field", "type", "default", "configured", "what it is")
    rows = [
        (one["field"], one["type"], _shown(one["default"]), _shown(one["configured"]), one["description"])
        for one in told_fields
    ]
    none = f"{arguments.name} has nothing to configure."
    return tell_rows(arguments, told_fields, head, rows, whole=("field", "type"), none=none)


def _shown(value: object) -> str:
    match value:
        case None:
            return "-"
        case bool():
            return "yes" if value else "no"
        case list() | tuple():
            return ", ".join(map(str, value)) or "none"
        case _:
            return str(value) or '""'


@in_cockpit
def plugin_logs(found: Cockpit, arguments: SimpleNamespace) -> int:
    """Print what happened to it; 0."""
    lines = found.plugins.logs(arguments.name, arguments.limit)
    text = _log_text(lines) if lines else f"Nothing has happened to {arguments.name} yet."
    if more := at_limit(len(lines), arguments.limit):
        text = f"{text}\n{more}"
    return tell(arguments, list(map(asdict, lines)), text)


def _log_text(lines: Sequence[PluginLogLine]) -> str:
    """A table whose last column goes on in further lines where a terminal is too narrow: why is what matters there."""
    cells = [(" " if one.ok else "!", moment(one.at), one.what, one.by or "-") for one in lines]
    head, *begun = table(("", "when", "what", "by"), cells, whole=("when", "what", "by")).splitlines()
    room = terminal_width() if sys.stdout.isatty() else 0
    longest = max(map(len, begun))
    told = [head]
    for line, start in zip(lines, begun, strict=True):
        words = _log_words(line)
        whole = f"{start.ljust(longest)}  {shown(words)}"
        is_long = room and len(whole) > room
        told.append(f"{start}\n{paragraph(words, _LOG_INDENT, _LOG_INDENT, room)}" if is_long else whole)
    return "\n".join(one.rstrip() for one in told)


def _log_words(line: PluginLogLine) -> str:
    said = "" if line.text in (line.what, *_ANSWERS) else line.text
    session = f"(session {line.session_id})" if line.session_id and line.what in _OF_A_SESSION else ""
    return f"{said} {session}".strip()


@in_cockpit
def plugin_install(found: Cockpit, arguments: SimpleNamespace) -> int:
    """Copy it to the person’s own plugins; 0."""
    from kagura_kernel.cockpit.plugins import installed_text

    shelf, of = found.plugins.shelf, arguments
    installed = shelf.install(of.source, of.sha256, repository=of.repository, replace=of.replace, by=person(), via=VIA)
    barred = shelf.barred(installed.name)
    said = installed_text(installed, barred, f"kagura-kernel plugin enable {installed.name}")
    return tell(arguments, as_data(found.plugins.row(installed.name)) | {"barred": barred}, said)


@in_cockpit
def plugin_remove(found: Cockpit, arguments: SimpleNamespace) -> int:
    """Remove its files; 0."""
    found.plugins.shelf.remove(arguments.name, by=person(), via=VIA)
    return tell(arguments, {"removed": arguments.name}, f"{arguments.name} is removed.")


@in_cockpit
def plugin_sign(found: Cockpit, arguments: SimpleNamespace) -> int:
    """Sign its files; 0."""
    if arguments.key is None or arguments.author is None:
        raise UsageError("Say with which key and as whom: `plugin sign PATH --key FILE --author NAME`.")
    made = "" if arguments.key.exists() else f" with a new key, which {arguments.key} holds from now on"
    signed = found.plugins.shelf.sign(arguments.path, arguments.key, arguments.author, by=person(), via=VIA)
    said = (
        f"{arguments.path} is signed by {signed.author}{made}: whoever trusts you needs your public key:\n"
        f"  kagura-kernel plugin trust {shlex.quote(signed.author)} {signed.key}"
    )
    return tell(arguments, asdict(signed), said)


@in_cockpit
def plugin_trust(found: Cockpit, arguments: SimpleNamespace) -> int:
    """Trust an author’s key, or no longer, or print whom they trust; 0."""
    author, key = arguments.author, arguments.key
    if author is None:
        authors = [asdict(one) for one in found.plugins.shelf.authors()]
        rows = [(one["name"], one["key"]) for one in authors]
        return tell(arguments, authors, table(("author", "key"), rows) if rows else for_terminal(NO_AUTHORS))
    if arguments.remove:
        gone = found.plugins.shelf.distrust(author, by=person(), via=VIA)
        said = f"{author} is trusted no longer." if gone else f"{author} was not trusted."
        return tell(arguments, {"author": author, "was_trusted": gone}, said)
    if key is None:
        raise UsageError(
            f"Say which key is {author}’s: `plugin trust {shlex.quote(author)} KEY`, as their `plugin sign` prints it."
        )
    found.plugins.shelf.trust(author, key, by=person(), via=VIA)
    return tell(arguments, {"author": author, "key": key}, f"{author} is trusted.")


_SHOWN = 5
_ANSWER_SECONDS = 6.0
_LOOK_SECONDS = 0.1


def named_session(journal: Journal, name: str | None, *, needed: bool = True) -> str:
    """The session that is named, `last` being that of the folder’s latest run; without a name the only one going on.

    Args:
        journal: Knows the sessions.
        name: As it was typed; None when it was not.
        needed: Whether there has to be one; else an empty text stands for none.

    Raises:
        UsageError: it cannot be told which one is meant.
    """
    from kagura_kernel.cockpit.orders import session_name

    if name is not None and name != LAST:
        return session_name(name, redactor_of(data_home(os.environ)))
    if name == LAST:
        here = here_of()
        rows = views.runs(journal, limit=200, here=here)
        latest = next((row.session_id for row in rows if row.flavour != "audit"), "")
        if latest:
            return latest
        raise UsageError(f"Nothing has run in {here} yet, so it has no last session. Name one: `--session NAME`.")
    going_on = live_sessions(journal)
    if len(going_on) == 1:
        return going_on[0]
    if not needed:
        return ""
    if not going_on:
        raise UsageError(
            "No session goes on that this could be about. Name one with `--session NAME`, and give a cell, or "
            "`kagura-kernel run`, the same `--session NAME`."
        )
    raise UsageError(f"Several sessions go on: {', '.join(going_on[:_SHOWN])}. Say which with `--session`.")


def live_sessions(journal: Journal) -> list[str]:
    """Sessions of processes that still run: those that have run something, and those that have a plugin."""
    rows = views.runs(journal, limit=200)
    found = [row.session_id for row in rows if row.flavour != "audit" and owner_alive(row.owner)]
    for view in plugin_views(journal):
        found += [use.session_id for use in view.uses if use.state is PluginState.ENABLED and owner_alive(use.owner)]
    return list(dict.fromkeys(found))


def as_in(journal: Journal, session: str, rows: Iterable[PluginRow]) -> list[PluginRow]:
    """The plugins as a session of another process has them; one that is gone has nothing enabled.

    An empty session is none.
    """
    views = plugin_views(journal) if session else []
    known = {(view.name, view.seen.place, view.seen.content_hash): view for view in views}
    return [_as_in(known.get((row.name, row.place, row.content_hash)), session, row) for row in rows]


def _as_in(view: PluginView | None, session: str, row: PluginRow) -> PluginRow:
    use = view.use(session) if view is not None else None
    if view is None or use is None or row.quarantine:
        return row
    return replace(row, state=view.state(session), config=dict(use.config), opens=use.permissions)


def wait_for(journal: Journal, session: str, done: Callable[[], str]) -> str:
    """What became of a word that was left for a session: what `done` says, as soon as it says something.

    Returns:
        It; empty when the session does not go on, and when it had said nothing in time.
    """
    if session not in live_sessions(journal):
        return ""
    end = time.monotonic() + _ANSWER_SECONDS
    while not (said := done()) and time.monotonic() < end:
        time.sleep(_LOOK_SECONDS)
    return said


CLEAR, DANGEROUS = 0, 1


def plugin_scan(arguments: SimpleNamespace) -> int:
    """Print what was found in `path`, one or several, the gravest first; 1 when anything is a danger, else 0.

    Raises:
        UsageError: there is no such file or directory, or it cannot be read.
    """
    from kagura_kernel.plugins.scan.scanner import is_dangerous, scan_path

    given = arguments.path
    scans = [scan_path(path) for path in ([given] if isinstance(given, str) else given)]
    scans.sort(key=lambda scan: (scan.severity.rank if scan.severity else 9, scan.path))
    if arguments.json:
        for scan in scans:
            print(as_json(_record(scan)))
    else:
        print(_laid_out(scans, terminal_width()))
    return DANGEROUS if is_dangerous(scans) else CLEAR


def _record(scan: Scan) -> dict[str, object]:
    """One line of JSON: `severity` is null where nothing was found."""
    keys = ("severity", "rule", "message", "file", "line")
    findings = [{key: asdict(finding)[key] for key in keys} for finding in scan.findings]
    return {"path": scan.path, "severity": scan.severity, "findings": findings}


def _laid_out(scans: Sequence[Scan], width: int) -> str:
    blocks = []
    for scan in scans:
        lines = [f"{shown(scan.path)}: {scan.severity.value if scan.severity else 'nothing found'}"]
        lines += [_line(finding, width) for finding in scan.findings]
        blocks.append("\n".join(lines))
    dangerous = sum(scan.dangerous for scan in scans)
    end = f"{dangerous} of {len(scans)} must not be enabled." if dangerous else "Nothing keeps it out."
    return "\n\n".join([*blocks, end])


def _line(finding: PluginFinding, width: int) -> str:
    place = f"{finding.file}:{finding.line}" if finding.line else finding.file
    start = f"  {finding.severity.value:<7}  "
    text = f"{f'{place}: ' if place else ''}{finding.message} ({finding.rule})"
    source = [paragraph(finding.source, " " * 13, " " * 13, width)] if finding.source else []
    return "\n".join([paragraph(text, start, " " * len(start), width), *source])


NEWER = 1


@in_cockpit
def plugin_search(found: Cockpit, arguments: SimpleNamespace) -> int:
    """Print what the repositories have; 0."""
    hits = found.plugins.shelf.repositories.search(arguments.words)
    head = ("plugin", "version", "installed", "repository", "author", "risk", "asks for", "what it does")
    cells = [_hit_cells(hit) for hit in hits]
    return tell_rows(
        arguments, list(map(_hit, hits)), head, cells, whole=("plugin", "version"), none="Nothing like that can be had."
    )


def _hit_cells(hit: Hit) -> tuple[str, ...]:
    entry = hit.offer.entry
    asked = (("reads", entry.permissions.read), ("writes", entry.permissions.write), ("reaches", entry.permissions.net))
    asks = "; ".join(f"{word} {', '.join(entries)}" for word, entries in asked if entries)
    return (
        entry.name,
        entry.version,
        hit.installed or "-",
        hit.offer.repository,
        entry.author or "-",
        str(entry.risk),
        asks or "nothing",
        entry.description,
    )


def _hit(hit: Hit) -> dict[str, Any]:
    entry = hit.offer.entry
    return {
        "plugin": entry.name,
        "version": entry.version,
        "installed": hit.installed,
        "repository": hit.offer.repository,
        "author": entry.author,
        "risk": entry.risk,
        "permissions": asdict(entry.permissions),
        "description": entry.description,
        "content_hash": entry.content_hash,
    }


@in_cockpit
def plugin_update(found: Cockpit, arguments: SimpleNamespace) -> int:
    """Print what is newer, and install it where somebody says so; 1 when anything newer was left, else 0."""
    from kagura_kernel.cockpit.plugin_repositories import split_source
    from kagura_kernel.cockpit.plugins import installed_text

    shelf = found.plugins.shelf
    updates = shelf.repositories.updates(*split_source(arguments.source))
    # What a program reads is data alone.
    out = sys.stderr if arguments.json else sys.stdout
    done = []
    for update in updates:
        print(update.text, file=out)
        if arguments.yes or _said_yes(update, arguments):
            installed = shelf.repositories.update(update, by=person(), via=VIA)
            how = f"kagura-kernel plugin enable {installed.name}"
            print(installed_text(installed, shelf.barred(installed.name), how), file=out)
            done.append(installed.name)
        else:
            wanted = f"{update.offer.name}@{update.offer.version}"
            print(f"Nothing is changed: `kagura-kernel plugin update {wanted} --yes` does it.", file=out)
    if arguments.json or not updates:
        tell(arguments, [_update(one, done) for one in updates], "Nothing newer can be had.")
    return NEWER if len(done) < len(updates) else 0


def _said_yes(update: Update, arguments: SimpleNamespace) -> bool:
    if arguments.json or not (sys.stdin.isatty() and sys.stdout.isatty()):
        return False
    try:
        said = input(f"Put it in the place of {update.difference.versions[0]}? (y)es, (n)o [n]: ")
    except EOFError:
        return False
    return said.strip().casefold() in ("y", "yes")


def _update(update: Update, done: list[str]) -> dict[str, Any]:
    what = asdict(update.difference)
    before, now = what.pop("versions")
    about = {"plugin": update.offer.name, "repository": update.offer.repository}
    return about | {"installed": before, "version": now, "updated": update.offer.name in done} | what


@in_cockpit
def plugin_repository_list(found: Cockpit, arguments: SimpleNamespace) -> int:
    """Print the repositories that are trusted; 0."""
    trusted = found.plugins.shelf.repositories.trusted()
    head = ("repository", "where", "root", "since")
    cells = [(one.name, one.url, f"{one.root_sha256[:16]}…", moment(one.since)) for one in trusted]
    return tell_rows(arguments, list(map(_trusted, trusted)), head, cells, none=NO_REPOSITORIES)


def _trusted(one: TrustedRepository) -> dict[str, Any]:
    return {"repository": one.name, "url": one.url, "root_sha256": one.root_sha256, "since": one.since}


@in_cockpit
def plugin_repository_add(found: Cockpit, arguments: SimpleNamespace) -> int:
    """Trust a repository; 0."""
    from kagura_kernel.cockpit.plugin_repositories import trusted_text

    options = {name: getattr(arguments, name) for name in ("root", "sha256", "name")}
    trusted, count = found.plugins.shelf.repositories.add(arguments.source, **options, by=person(), via=VIA)
    return tell(arguments, _trusted(trusted) | {"plugins": count}, trusted_text(trusted, count))


@in_cockpit
def plugin_repository_remove(found: Cockpit, arguments: SimpleNamespace) -> int:
    """Trust a repository no longer; 0."""
    found.plugins.shelf.repositories.remove(arguments.name, by=person(), via=VIA)
    said = f"{arguments.name} is trusted no longer. What was installed from it stays."
    return tell(arguments, {"removed": arguments.name}, said)


@in_cockpit
def plugin_publish(found: Cockpit, arguments: SimpleNamespace) -> int:
    """Add to a repository, and sign it; 0."""
    if arguments.key is None:
        raise UsageError("Say with which key: `plugin publish FOLDER PLUGIN … --key FILE`.")
    published = found.plugins.shelf.repositories.publish(
        Path(arguments.folder), [Path(one) for one in arguments.plugins], arguments.key, days=arguments.days
    )
    added = f"{', '.join(published.added)} added" if published.added else "nothing new"
    said = (
        f"{published.folder}: {added}, {published.plugins} in all, signed until {moment(published.expires)}. Serve the "
        "folder as it is. Whoever is to trust it needs its address and the hash of its first root:\n"
        f"  kagura-kernel plugin repository add {shlex.quote(str(published.folder))} --sha256 {published.root_sha256}"
    )
    return tell(arguments, asdict(published) | {"folder": str(published.folder)}, said)
