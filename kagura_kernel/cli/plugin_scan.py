"""`kagura-kernel plugin scan`: what the static scan finds in files and directories, which need not be installed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from types import SimpleNamespace
from typing import TYPE_CHECKING

from kagura_kernel.cli.printing import as_json, paragraph, terminal_width
from kagura_kernel.membrane.names import shown

if TYPE_CHECKING:
    from kagura_kernel.domain.plugins import PluginFinding
    from kagura_kernel.plugins.scan import Scan

CLEAR, DANGEROUS = 0, 1


def run(arguments: SimpleNamespace) -> int:
    """Print what was found in `path`, one or several, the gravest first; 1 when anything is a danger, else 0.

    Raises:
        UsageError: there is no such file or directory, or it cannot be read.
    """
    from kagura_kernel.plugins.scan.scanning import is_dangerous, scan_path

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
