"""Scans a plugin's bytes, or a file or directory on the disk: findings, and nothing is ever run or enabled."""

from __future__ import annotations

import ast
import base64
import json
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, cast

from kagura_kernel.domain.errors import PluginInvalid, UsageError
from kagura_kernel.domain.late_dataclass import dataclass
from kagura_kernel.domain.plugins import PluginFinding, PluginPermissions, Severity
from kagura_kernel.plugins.configuration import read_schema
from kagura_kernel.plugins.content import MANIFEST, SOURCE, PluginContent, read_content
from kagura_kernel.plugins.manifest import Manifest, parse_manifest
from kagura_kernel.plugins.permissions import check_declared
from kagura_kernel.plugins.text import reason

Use = Literal["read", "write", "net"]
"""What a permission can open."""

RULES = {
    **dict.fromkeys(
        "process-execution dynamic-code dynamic-import native-code-use interpreter-escape hidden-attribute "
        "module-through-module module-as-value computed-attribute format-attribute outside-package star-import "
        "host-path computed-schema missing-entry replaced-entry undeclared-net not-utf-8 too-large long-line "
        "control-character invisible-character coding-cookie changing-name confusable-name no-python scan-failed "
        "manifest schema native-code compiled-code packed-code path-file link hard-link special-file odd-name "
        "unreadable foreign-directory too-much".split(),
        Severity.DANGER,
    ),
    **dict.fromkeys(
        "file-system network environment global-mutation background-work unfollowed-attribute unknown-name "
        "unknown-base unknown-hook private-attribute dynamic-class payload-blob prompt-injection undeclared-files "
        "unused-permission byte-order-mark missing-schema no-functions unread-network".split(),
        Severity.WARNING,
    ),
    **dict.fromkeys(("path-handling", "mitigation", "foreign-name", "star-names"), Severity.INFO),
}
"""How grave each rule's findings are; docs/plugin-rules.md says what each finds, and why that matters."""


@dataclass(frozen=True, slots=True)
class ScanResult:
    """One scan of a plugin's bytes."""

    findings: tuple[PluginFinding, ...]  # The gravest first, then by place
    # The value of `SCHEMA`, read without running anything; None when it has none that can be read so
    schema: Any | None = None
    uses: frozenset[Use] = frozenset()  # What the source reaches for, whether it is declared or not

    @property
    def severity(self) -> Severity | None:
        """The gravest of the findings; None when there are none."""
        return self.findings[0].severity if self.findings else None

    @property
    def dangerous(self) -> bool:
        """Whether a finding keeps the plugin out, whatever anybody decides."""
        return self.severity is Severity.DANGER


@dataclass(frozen=True, slots=True)
class Scan(ScanResult):
    """One path that was scanned."""

    path: str = ""  # As it was given


_FOLDER = str(Path(__file__).resolve().parent)
_PROGRAM = "import sys; sys.path.insert(0, sys.argv[1]); from reader.main import main; main()"
_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Read:
    """What the process answered."""

    findings: Sequence[tuple[str, str, str, int]] = ()  # Rule, message, file and line of each
    uses: frozenset[str] = frozenset()  # What the sources reach for themselves
    library: frozenset[str] = frozenset()  # What they reach for through `kagura_plugin`
    schema: Any | None = None  # The value of `SCHEMA`
    failed: str = ""  # Why there is no answer; empty when there is one


def read_sources(files: Mapping[str, bytes], source: str, *, seconds: float = _SECONDS) -> Read:
    """Scan sources; blocks until the process has answered, or is ended."""
    request = {"source": source, "files": {path: base64.b64encode(data).decode() for path, data in files.items()}}
    try:
        answer = subprocess.run(  # noqa: S603 - our own program; what is scanned goes in as data
            [sys.executable, "-I", "-S", "-E", "-X", "utf8", "-c", _PROGRAM, _FOLDER],
            input=json.dumps(request).encode(),
            capture_output=True,
            check=False,
            timeout=seconds,
            cwd="/",
            env={},
            start_new_session=True,
        )
    except subprocess.TimeoutExpired:
        return Read(failed=f"It took longer than {seconds:g} s and was ended.")
    if answer.returncode != 0:
        return Read(failed=_why(answer.returncode, answer.stderr))
    told = json.loads(answer.stdout)
    try:
        schema = None if told["schema"] is None else ast.literal_eval(told["schema"])
    except ValueError:
        # Python reads a number such as 1e999 and cannot read back how it shows it.
        return Read(failed="Its SCHEMA holds what is no plain value, such as a number without end.")
    return Read(
        [(rule, message, file, line) for rule, message, file, line in told["findings"]],
        frozenset(told["uses"]),
        frozenset(told["library"]),
        schema,
    )


def _why(status: int, words: bytes) -> str:
    if b"MemoryError" in words:
        return "It needed more memory than a scan may have."
    if b"RecursionError" in words:
        return "It is nested deeper than a scan follows."
    return f"Its process ended with status {status}."


_SHOWN = 160
_MAX_BYTES = 4 << 20
_WORDS = (".md", ".txt", ".rst", ".json")


def scan_content(content: PluginContent, permissions: PluginPermissions | None) -> ScanResult:
    """Everything that the rules find in a plugin's bytes, the whole directory's oddities included.

    The permissions are those that its manifest declares, to be compared with what its source uses; None compares
    nothing.
    """
    if SOURCE not in content.files:
        missing = _finding("missing-entry", f"There is no {SOURCE}.", "", 0, {})
        return ScanResult(_sorted([*content.oddities, missing]))
    return _scan(content, content.python, SOURCE, permissions)


def scan_path(path: str | Path) -> Scan:
    """Scan a plugin's directory, or one Python file.

    Raises `UsageError`: there is no such file or directory, it cannot be read, or the file is no Python.
    """
    place = Path(path)
    # A path's own methods raise for a name that is too long, and opening it says so.
    is_directory = os.path.isdir(place) or os.path.islink(place)  # noqa: PTH112, PTH114
    result = _of_directory(place) if is_directory else _of_file(place)
    return Scan(result.findings, result.schema, result.uses, str(path))


def _of_directory(place: Path) -> ScanResult:
    root = place if place.is_symlink() else place.resolve()
    try:
        content = read_content(root)
    except PluginInvalid as error:
        if not place.is_symlink():
            raise UsageError(f"{place} cannot be scanned: {'; '.join(error.problems)}.") from error
        return ScanResult((_finding("link", f"{place.name} is a link.", "", 0, {}),))
    result = scan_content(content, _declared(content))
    unusable = list(_unusable(content, result))
    told = "missing-schema" if any(one.rule == "schema" for one in unusable) else ""
    findings = [*unusable, *(one for one in result.findings if one.rule != told)]
    return ScanResult(_sorted(findings), result.schema, result.uses)


def _unusable(content: PluginContent, result: ScanResult) -> Iterator[PluginFinding]:
    """Why a directory is no plugin that could be loaded, whatever its source does.

    Its name need not be the manifest's: a plugin is scanned wherever it lies, and installed under its own name.
    """
    manifest: Manifest | None = None
    if MANIFEST in content.files:
        try:
            manifest = parse_manifest(content.files[MANIFEST], None)
        except PluginInvalid as error:
            for why in error.problems:
                yield _finding("manifest", _sentence(why.removeprefix(f"{MANIFEST}: ")), MANIFEST, 0, {})
    elif not any(finding.file == MANIFEST for finding in content.oddities):
        yield _finding("manifest", f"There is no {MANIFEST}.", "", 0, {})
    if result.schema is None and result.dangerous:
        return  # what keeps it from being read is told
    try:
        schema = read_schema(result.schema, content.name)
    except PluginInvalid as error:
        problems: Sequence[str] = error.problems
    else:
        problems = check_declared(manifest.permissions, schema) if manifest else ()
    for why in problems:
        yield _finding("schema", _sentence(why), SOURCE, 0, {})


def _sentence(why: str) -> str:
    """The words as a sentence; a key or a file that they begin with stays as it is spelt."""
    first = f"{why[:1].upper()}{why[1:]}" if why.partition(" ")[0].isalpha() else why
    return first if first.endswith("?") else f"{first}."


def _of_file(place: Path) -> ScanResult:
    try:
        with place.open("rb") as file:
            data = file.read(_MAX_BYTES)
    except (OSError, ValueError) as error:
        why = reason(error) if isinstance(error, OSError) else "no path has such a letter"
        raise UsageError(f"{place} cannot be scanned: {why}.") from error
    if place.suffix != ".py":
        # As Python a manifest is an expression that does nothing, and would be told to be harmless.
        raise UsageError(f"{place} cannot be scanned: it is no .py file. Name a plugin's directory to have all of it.")
    alone = PluginContent(place.parent, place.name, {place.name: data})
    result = _scan(alone, alone.files, place.name, None)
    # A file by itself may be a part of a plugin, whose entry is in another one.
    findings = [
        _finding("no-functions", one.message, one.file, one.line, {}) if one.rule == "missing-entry" else one
        for one in result.findings
        if one.rule != "missing-schema"
    ]
    return ScanResult(_sorted(findings), result.schema, result.uses)


def _scan(
    content: PluginContent, files: Mapping[str, bytes], source: str, permissions: PluginPermissions | None
) -> ScanResult:
    read = read_sources(files, source)
    lines = {path: data.decode("utf-8", "replace").split("\n") for path, data in files.items()}
    findings = [_finding(rule, message, file, line, lines) for rule, message, file, line in read.findings]
    if read.failed:
        findings.append(_finding("scan-failed", f"The scan did not end. {read.failed}", "", 0, lines))
    findings += _in_words(content.files)
    if permissions is not None:
        findings += _compared(permissions, read.uses, read.library)
    uses = cast("frozenset[Use]", read.uses | read.library)
    return ScanResult(_sorted([*content.oddities, *findings]), read.schema, uses)


def _sorted(findings: Iterable[PluginFinding]) -> tuple[PluginFinding, ...]:
    return tuple(sorted(dict.fromkeys(findings), key=lambda finding: finding.order))


def _finding(rule: str, message: str, file: str, line: int, lines: Mapping[str, list[str]]) -> PluginFinding:
    text = lines.get(file, [])
    source = text[line - 1].strip()[:_SHOWN] if 0 < line <= len(text) else ""
    shown = "".join(letter if letter.isprintable() else f"\\u{ord(letter):04x}" for letter in source)
    return PluginFinding(RULES[rule], rule, message, file, line, shown)


def _in_words(files: Mapping[str, bytes]) -> Iterator[PluginFinding]:
    """Words that speak to an auditor stand in what is read beside the source, too."""
    from kagura_kernel.plugins.scan.reader.source import injections

    for path, data in files.items():
        if path.lower().endswith(_WORDS):
            text = data.decode("utf-8", "replace")
            for number, words in injections(text):
                shown = words.encode("ascii", "replace").decode()[:80]
                message = f"The words {shown!r} speak to whoever audits the plugin."
                yield _finding("prompt-injection", message, path, number, {path: text.split("\n")})


def _compared(permissions: PluginPermissions, uses: frozenset[str], library: frozenset[str]) -> Iterator[PluginFinding]:
    """What is declared, against what the source uses; what our own library reaches for is only ever unused."""
    if "net" in uses and permissions.nothing:
        message = "The network is used, and no permission is declared: the jail has none."
        yield _finding("unread-network", message, MANIFEST, 0, {})
    elif "net" in uses and not permissions.net:
        message = "The network is used, and the declared permissions leave it out."
        yield _finding("undeclared-net", message, MANIFEST, 0, {})
    if "write" in uses and not permissions.write:
        message = "Files are written, and no permission to write is declared: only the jail's scratch space is there."
        yield _finding("undeclared-files", message, MANIFEST, 0, {})
    elif "read" in uses and not (permissions.read or permissions.write):
        message = "Files are read, and no permission to read is declared: only the jail's own files are there."
        yield _finding("undeclared-files", message, MANIFEST, 0, {})
    both = uses | library
    unused = [
        kind
        for kind, declared in (("read", permissions.read), ("write", permissions.write), ("net", permissions.net))
        if declared and not (kind in both or (kind == "read" and "write" in both))
    ]
    if unused:
        message = f"The source does not seem to need the permission {' and '.join(unused)}."
        yield _finding("unused-permission", message, MANIFEST, 0, {})


def _declared(content: PluginContent) -> PluginPermissions | None:
    """The permissions in a manifest that need not be right in everything else; None when there are none."""
    try:
        document = json.loads(content.files.get(MANIFEST, b"{}"))
    except (ValueError, RecursionError):
        return None
    declared = document.get("permissions") if isinstance(document, dict) else None
    if not isinstance(declared, dict):
        return None
    entries = (declared.get(kind, []) for kind in ("read", "write", "net"))
    return PluginPermissions(
        *(tuple(one for one in many if isinstance(one, str)) if isinstance(many, list) else () for many in entries)
    )


def is_dangerous(scans: Iterable[Scan]) -> bool:
    """Whether any of them must be kept out."""
    return any(scan.severity is Severity.DANGER for scan in scans)
