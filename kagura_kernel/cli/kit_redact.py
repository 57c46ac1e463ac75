"""`kagura-kernel kit redact`: a file, or what comes in, without its secrets."""

from __future__ import annotations

import os
import sys
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

from kagura_kernel.cli.printing import as_json
from kagura_kernel.domain.errors import UsageError
from kagura_kernel.membrane.names import shown

if TYPE_CHECKING:
    from kagura_kernel.kit.redaction.findings import RedactedFile

MAX_BYTES = 256 * 2**20
INPUT = "-"


def run(arguments: SimpleNamespace) -> int:
    """Print `file` as a kit would hold it, byte for byte where nothing is redacted; with `--json` what was found.

    Raises:
        UsageError: it cannot be read, or a kit would leave it out.
        RedactionUnavailable: secrets cannot be looked for.
    """
    from kagura_kernel.assembly.places import redactor_of
    from kagura_kernel.journal.place import data_home

    name = str(arguments.file)
    data = _read(name)
    redacted = redactor_of(data_home(os.environ)).redact_file(data, "" if name == INPUT else Path(name).name)
    if arguments.json:
        print(as_json(_record(redacted)))
        return 0
    if redacted.data is None:
        raise UsageError(f"A kit leaves {shown(_called(name))} out: {redacted.reason}. Nothing of it is shown.")
    _write(redacted)
    return 0


def _record(redacted: RedactedFile) -> dict[str, object]:
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
