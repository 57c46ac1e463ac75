"""One list of findings from two: what the scan is certain of comes before what an auditor thinks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kagura_kernel.domain.plugins import PluginFinding
from kagura_kernel.plugins.audit.canary import Canaries, ids_in
from kagura_kernel.plugins.audit.parsing import AuditorFinding
from kagura_kernel.plugins.content import SOURCE, PluginContent

_WIDEST = 200


def merge(scanned: Iterable[PluginFinding], audited: Iterable[PluginFinding]) -> tuple[PluginFinding, ...]:
    """Both, the gravest first and the scan's before the auditor's of one severity.

    What says the same as an earlier one, but for upper and lower case, is left out; of the scan's own findings none is,
    since they tell of different places.
    """
    kept = sorted(scanned, key=lambda finding: finding.order)
    said = {finding.message.lower() for finding in kept}
    for finding in audited:
        if finding.message.lower() not in said:
            said.add(finding.message.lower())
            kept.append(finding)
    return tuple(sorted(kept, key=lambda finding: finding.severity.rank))


def placed(findings: Sequence[AuditorFinding], content: PluginContent, canaries: Canaries) -> list[PluginFinding]:
    """An auditor's findings in the plugin as it is; those about what was planted are left out."""
    return [_placed(finding, content, canaries) for finding in findings if not canaries.ids & ids_in(finding.message)]


def _placed(finding: AuditorFinding, content: PluginContent, canaries: Canaries) -> PluginFinding:
    file = finding.file if finding.file in content.files else ""
    line = canaries.original(finding.line) if file == SOURCE else finding.line
    source = source_line(content, file, line)
    return PluginFinding(
        finding.severity, "auditor", finding.message, file, line if source is not None else 0, source or ""
    )


def place_of(text: str, content: PluginContent) -> tuple[str, int]:
    """File and line in which a text begins; empty and 0 where it does not stand as it is."""
    sought = text.encode("utf-8", "surrogatepass")
    for path, data in content.files.items() if sought else ():
        if (at := data.find(sought)) >= 0:
            return path, data.count(b"\n", 0, at) + 1
    return "", 0


def source_line(content: PluginContent, file: str, line: int) -> str | None:
    """A line of a file, cut to what can be shown; None when there is none."""
    data = content.files.get(file)
    if data is None or line < 1:
        return None
    lines = data.split(b"\n")
    if line > len(lines):
        return None
    text = lines[line - 1].decode("utf-8", "backslashreplace").rstrip()
    return text if len(text) <= _WIDEST else f"{text[: _WIDEST - 1]}…"
