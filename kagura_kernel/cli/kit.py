"""`kagura-kernel kit agents`, `plan`, `build`, `show` and `redact`."""

from __future__ import annotations

import os
import sys
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from kagura_kernel.assembly.places import redactor_of
from kagura_kernel.cli.output import as_json, paragraph, size, table, tell, terminal_width
from kagura_kernel.cockpit.kits import one_of, plan_lines, plan_record
from kagura_kernel.cockpit.run_names import here_of, named_run
from kagura_kernel.domain.errors import UsageError
from kagura_kernel.journal.place import data_home
from kagura_kernel.membrane.names import shown

if TYPE_CHECKING:
    from kagura_kernel.cockpit.kits import KitDesk, StagedKit
    from kagura_kernel.kit.redaction.spans import RedactedFile


_OK, _FOUND = 0, 1
_NO_FILE = "There is no file in this kit: a box sees what it needs in its workspace."


def _kits() -> KitDesk:
    from kagura_kernel.assembly.kits import make_kits

    return make_kits(os.environ)


def kit_agents(arguments: SimpleNamespace) -> int:
    """Print the agents that have a name; 0."""
    agents = _kits().named()
    if arguments.json:
        print(as_json([asdict(one) for one in agents]))
        return _OK
    rows = [(one.name, one.origin, "cannot be used" if one.problem else one.description or "-") for one in agents]
    print(table(("agent", "from", "what it does"), rows, whole=("agent",)))
    for one in agents:
        if one.problem:
            print(paragraph(one.problem, f"{one.name}: ", "  ", terminal_width()))
    return _OK


def kit_add(arguments: SimpleNamespace) -> int:
    """Write an agent for a cloud among the person's own, and say what it needs; 0."""
    added = _kits().add(arguments.name)
    record = {"name": added.name, "path": str(added.path), "grants": added.definition.grants.model_dump()}
    return tell(arguments, record, "\n".join(added.lines))


def kit_plan(arguments: SimpleNamespace) -> int:
    """Print what a run would be given; 1 when something stands against its kit, else 0."""
    plan = _kits().plan(arguments.agent, arguments.project)
    tell(arguments, plan_record(plan), "\n".join(map(shown, plan_lines(plan))))
    return _FOUND if plan.kit.problems else _OK


def kit_build(arguments: SimpleNamespace) -> int:
    """Stage a kit; 0. Raises `KitError` where that cannot be done with this agent, here."""
    from kagura_kernel.views.kit import built_lines

    kit = _kits().build(arguments.agent, arguments.project)
    if arguments.json:
        print(as_json(_record(kit)))
        return _OK
    print("\n".join(built_lines(kit, unchanged=kit.unchanged)))
    if kit.digest and kit.link is not None:
        print(shown(str(kit.link)))
    return _OK


def kit_show(arguments: SimpleNamespace) -> int:
    """Print what is staged, or a file of it; 0. Raises `KitError`, and `RunUnknown` where there is no such run."""
    kits = _kits()
    one_of(arguments.agent, arguments.run)
    kit = _of_run(kits, arguments.run) if arguments.run is not None else kits.build(arguments.agent, arguments.project)
    if arguments.file is not None:
        return _show_file(kit, arguments)
    files = kit.files()
    rows = [(one.target, size(one.size), f"{one.redactions:,}", ", ".join(one.kinds) or "-") for one in files]
    text = table(("file", "size", "redactions", "of what"), rows, whole=("file",)) if files else _NO_FILE
    return tell(arguments, _record(kit) | {"files": [asdict(one) for one in files]}, text)


def _show_file(kit: StagedKit, arguments: SimpleNamespace) -> int:
    found = kit.read(arguments.file)
    if arguments.json:
        print(as_json(asdict(found)))
    elif found.is_text:
        # Its own line ends stay; what a terminal would obey is told.
        print("\n".join("\t".join(map(shown, line.split("\t"))) for line in found.text.splitlines()))
    else:
        print(f"{shown(found.target)} is no text ({size(found.size)}).")
    return _OK


def _of_run(kits: KitDesk, word: str) -> StagedKit:
    from kagura_kernel.cli.journal_access import open_journal
    from kagura_kernel.journal.place import place_in_use

    with open_journal(place_in_use(os.environ)) as journal:
        return kits.of_run(journal, named_run(journal, word, here_of()))


def _record(kit: StagedKit) -> dict[str, Any]:
    told = {name: getattr(kit, name) for name in ("agent", "reference", "digest", "unchanged", "agents", "omitted")}
    listed = {name: [asdict(one) for one in getattr(kit, name)] for name in ("skills", "prompt_files", "left_out")}
    return told | listed | {"path": str(kit.link) if kit.link is not None and kit.digest else None}


MAX_BYTES = 256 * 2**20
INPUT = "-"


def kit_redact(arguments: SimpleNamespace) -> int:
    """Print `file` as a kit would hold it, byte for byte where nothing is redacted; with `--json` what was found.

    Raises:
        UsageError: it cannot be read, or a kit would leave it out.
        RedactionUnavailable: secrets cannot be looked for.
    """
    name = str(arguments.file)
    data = _read(name)
    redacted = redactor_of(data_home(os.environ)).redact_file(data, "" if name == INPUT else Path(name).name)
    if arguments.json:
        print(as_json(_redacted_record(redacted)))
        return 0
    if redacted.data is None:
        raise UsageError(f"A kit leaves {shown(_called(name))} out: {redacted.reason}. Nothing of it is shown.")
    _write(redacted)
    return 0


def _redacted_record(redacted: RedactedFile) -> dict[str, object]:
    """One line of JSON; `left_out` says why a kit would not hold it, and is empty where it would."""
    return {
        "findings": [asdict(finding) for finding in redacted.findings],
        "encoding": redacted.encoding,
        "left_out": redacted.reason,
    }


def _read(name: str) -> bytes:
    try:
        if name == INPUT:
            data = sys.stdin.buffer.read(MAX_BYTES + 1)
        else:
            with Path(name).open("rb") as file:
                data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise UsageError(f"{shown(_called(name))} cannot be read: {(error.strerror or str(error)).lower()}.") from error
    if len(data) > MAX_BYTES:
        raise UsageError(f"{shown(_called(name))} is larger than {MAX_BYTES >> 20} MiB; redact it in parts.")
    return data


def _write(redacted: RedactedFile) -> None:
    """To a pipe the bytes; to a terminal the text, in which nothing moves the cursor."""
    data = redacted.data or b""
    if not sys.stdout.isatty():
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
    elif redacted.encoding:
        text = data.decode(redacted.encoding, "replace")
        print("\n".join("\t".join(map(shown, line.split("\t"))) for line in text.splitlines()))
    else:
        raise UsageError("This is no text, so a terminal cannot show it. Redirect the output into a file.")


def _called(name: str) -> str:
    return "the input" if name == INPUT else name
