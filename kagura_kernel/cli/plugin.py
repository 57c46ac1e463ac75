"""`kagura-kernel plugin list`, `disable`, `approve`, `config`, `logs`, `install`, `trust` and their like."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, fields
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from kagura_kernel.cli.plugin_session import as_in, live_sessions, named_session, wait_for
from kagura_kernel.cli.printing import as_json, cut, moment, paragraph, table, terminal_width
from kagura_kernel.domain.errors import UsageError
from kagura_kernel.jupyter.surface import person
from kagura_kernel.membrane.names import shown

if TYPE_CHECKING:
    from kagura_kernel.cockpit.cockpit import Cockpit
    from kagura_kernel.domain.plugins import PluginFinding
    from kagura_kernel.journal.plugin_views import PluginLogLine
    from kagura_kernel.plugins.manager import PluginRow
    from kagura_kernel.plugins.scan import Scan

VIA = "terminal"

_OF_A_SESSION = frozenset(
    {"called", "changed", "configured", "disabled", "enabled", "failed", "printed", "quarantined", "rejected"}
)
"""What happens in one session; anything else is about the plugin's files, whoever's session it was done from."""

_LOG_INDENT = "     "
_ANSWERS = ("Enable", "Approve", "Reject")
"""What a person pressed, which the other cells say already."""


def run(arguments: SimpleNamespace) -> int:
    """Do it; 0 unless it cannot be done, and 1 where a scan found a danger.

    Raises:
        UsageError: something that is needed was not said.
        UnknownName: there is no such plugin or session.
        PluginError: it cannot be done with this plugin.
        JournalError: the journal cannot be used.
    """
    if arguments.action == "scan":
        return _scan(arguments)
    with cockpit() as found:
        return _ACTIONS[arguments.action](found, arguments)


@contextmanager
def cockpit() -> Iterator[Cockpit]:
    """A cockpit for one command.

    Raises:
        ConfigurationError: the settings are wrong.
        JournalError: the journal cannot be used.
    """
    from kagura_kernel.assembly import close_cockpit, get_cockpit

    try:
        yield get_cockpit()
    finally:
        close_cockpit()


def _list(found: Cockpit, arguments: SimpleNamespace) -> int:
    session = named_session(found.journal, arguments.session, needed=False)
    rows = as_in(found.journal, session, found.plugins.rows())
    if arguments.json:
        print(as_json([as_data(row) for row in rows]))
    elif rows:
        head = ("plugin", "version", "state", "risk", "approved", "place", "what it does")
        print(table(head, [_cells(row) for row in rows], whole=("plugin", "version", "state")))
        for row in rows:
            if why := row.why_out:
                print(f"{row.name}: {cut(why, 400)}")
        if not session and (several := live_sessions(found.journal)):
            names = ", ".join(several[:5])
            print(f"{len(several)} sessions go on; `--session NAME` tells what is enabled in one: {names}")
    else:
        print("There are no plugins.")
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


def _disable(found: Cockpit, arguments: SimpleNamespace) -> int:
    from kagura_kernel.domain.plugins import PluginState
    from kagura_kernel.journal.plugin_words import plugin_words_wait, send_plugin_word

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
    return _tell(arguments, data, said)


def _approve(found: Cockpit, arguments: SimpleNamespace) -> int:
    from kagura_kernel.cockpit.plugin_prompting import approved_text

    row = found.plugins.approve(arguments.name, by=person(), via=VIA)
    said = approved_text(row)
    return _tell(arguments, as_data(row), said)


def _unapprove(found: Cockpit, arguments: SimpleNamespace) -> int:
    gone = found.plugins.unapprove(arguments.name, by=person(), via=VIA)
    said = f"{arguments.name} is approved no longer." if gone else f"{arguments.name} was not approved."
    return _tell(arguments, {"plugin": arguments.name, "was_approved": gone}, said)


def _config(found: Cockpit, arguments: SimpleNamespace) -> int:
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
    if arguments.json:
        print(as_json(told_fields))
    elif told_fields:
        head = ("field", "type", "default", "configured", "what it is")
        rows = [
            (one["field"], one["type"], _shown(one["default"]), _shown(one["configured"]), one["description"])
            for one in told_fields
        ]
        print(table(head, rows, whole=("field", "type")))
    else:
        print(f"{arguments.name} has nothing to configure.")
    return 0


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


def _logs(found: Cockpit, arguments: SimpleNamespace) -> int:
    lines = found.plugins.logs(arguments.name, arguments.limit)
    if arguments.json:
        print(as_json([asdict(line) for line in lines]))
    elif lines:
        print(_log_text(lines))
    else:
        print(f"Nothing has happened to {arguments.name} yet.")
    return 0


def _log_text(lines: Sequence[PluginLogLine]) -> str:
    """A table whose last column goes on in further lines where a terminal is too narrow: why is what matters there."""
    cells = [(" " if one.ok else "!", moment(one.at), one.what, one.by or "-") for one in lines]
    head, *begun = table(("", "when", "what", "by"), cells, whole=("when", "what", "by")).splitlines()
    room = terminal_width() if sys.stdout.isatty() else 0
    longest = max(map(len, begun))
    told = [head]
    for line, start in zip(lines, begun, strict=True):
        whole = f"{start.ljust(longest)}  {shown(_log_words(line))}"
        told.append(whole if not room or len(whole) <= room else f"{start}\n{_beneath(line, room)}")
    return "\n".join(one.rstrip() for one in told)


def _beneath(line: PluginLogLine, room: int) -> str:
    return paragraph(_log_words(line), _LOG_INDENT, _LOG_INDENT, room)


def _log_words(line: PluginLogLine) -> str:
    said = "" if line.text in (line.what, *_ANSWERS) else line.text
    session = f"(session {line.session_id})" if line.session_id and line.what in _OF_A_SESSION else ""
    return f"{said} {session}".strip()


def _install(found: Cockpit, arguments: SimpleNamespace) -> int:
    from kagura_kernel.cockpit.plugin_shelf import installed_text

    shelf, replace = found.plugins.shelf, arguments.replace
    installed = shelf.install(arguments.source, arguments.sha256, replace=replace, by=person(), via=VIA)
    barred = shelf.barred(installed.name)
    said = installed_text(installed, barred, f"kagura-kernel plugin enable {installed.name}")
    return _tell(arguments, as_data(found.plugins.row(installed.name)) | {"barred": barred}, said)


def _remove(found: Cockpit, arguments: SimpleNamespace) -> int:
    found.plugins.shelf.remove(arguments.name, by=person(), via=VIA)
    return _tell(arguments, {"removed": arguments.name}, f"{arguments.name} is removed.")


def _sign(found: Cockpit, arguments: SimpleNamespace) -> int:
    if arguments.key is None or arguments.author is None:
        raise UsageError("Say with which key and as whom: `plugin sign PATH --key FILE --author NAME`.")
    signed = found.plugins.shelf.sign(arguments.path, arguments.key, arguments.author, by=person(), via=VIA)
    said = (
        f"{arguments.path} is signed by {signed.author}: whoever trusts you needs your public key:\n"
        f"  kagura-kernel plugin trust {shlex.quote(signed.author)} {signed.key}"
    )
    return _tell(arguments, asdict(signed), said)


def _trust(found: Cockpit, arguments: SimpleNamespace) -> int:
    author, key = arguments.author, arguments.key
    if author is None:
        authors = [asdict(one) for one in found.plugins.shelf.authors()]
        rows = [(one["name"], one["key"]) for one in authors]
        return _tell(arguments, authors, table(("author", "key"), rows) if rows else "You trust no author yet.")
    if arguments.remove:
        gone = found.plugins.shelf.distrust(author, by=person(), via=VIA)
        said = f"{author} is trusted no longer." if gone else f"{author} was not trusted."
        return _tell(arguments, {"author": author, "was_trusted": gone}, said)
    if key is None:
        raise UsageError(
            f"Say which key is {author}’s: `plugin trust {shlex.quote(author)} KEY`, as their `plugin sign` prints it."
        )
    found.plugins.shelf.trust(author, key, by=person(), via=VIA)
    return _tell(arguments, {"author": author, "key": key}, f"{author} is trusted.")


def _scan(arguments: SimpleNamespace) -> int:
    """Print what was found in `path`, one or several, the gravest first; 1 when anything is a danger, else 0."""
    from kagura_kernel.plugins.scan.scanning import is_dangerous, scan_path

    given = arguments.path
    scans = [scan_path(path) for path in ([given] if isinstance(given, str) else given)]
    scans.sort(key=lambda scan: (scan.severity.rank if scan.severity else 9, scan.path))
    if arguments.json:
        for scan in scans:
            print(as_json(_scan_data(scan)))
    else:
        print(_scan_text(scans, terminal_width()))
    return int(is_dangerous(scans))


def _scan_data(scan: Scan) -> dict[str, object]:
    """One line of JSON: `severity` is null where nothing was found."""
    keys = ("severity", "rule", "message", "file", "line")
    findings = [{key: asdict(finding)[key] for key in keys} for finding in scan.findings]
    return {"path": scan.path, "severity": scan.severity, "findings": findings}


def _scan_text(scans: Sequence[Scan], width: int) -> str:
    blocks = []
    for scan in scans:
        lines = [f"{shown(scan.path)}: {scan.severity.value if scan.severity else 'nothing found'}"]
        lines += [_finding_text(finding, width) for finding in scan.findings]
        blocks.append("\n".join(lines))
    dangerous = sum(scan.dangerous for scan in scans)
    end = f"{dangerous} of {len(scans)} must not be enabled." if dangerous else "Nothing keeps it out."
    return "\n\n".join([*blocks, end])


def _finding_text(finding: PluginFinding, width: int) -> str:
    place = f"{finding.file}:{finding.line}" if finding.line else finding.file
    start = f"  {finding.severity.value:<7}  "
    text = f"{f'{place}: ' if place else ''}{finding.message} ({finding.rule})"
    source = [paragraph(finding.source, " " * 13, " " * 13, width)] if finding.source else []
    return "\n".join([paragraph(text, start, " " * len(start), width), *source])


def _tell(arguments: SimpleNamespace, data: object, text: str) -> int:
    print(as_json(data) if arguments.json else text)
    return 0


_ACTIONS: Mapping[str, Callable[[Cockpit, SimpleNamespace], int]] = {
    "list": _list,
    "disable": _disable,
    "approve": _approve,
    "unapprove": _unapprove,
    "config": _config,
    "logs": _logs,
    "install": _install,
    "remove": _remove,
    "sign": _sign,
    "trust": _trust,
}
