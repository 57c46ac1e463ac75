"""The severity of a few lines, by the scan's reader alone and in this process."""

from __future__ import annotations

from kagura_kernel.domain.plugins import Severity
from kagura_kernel.plugins.scan.reader.main import Plugin
from kagura_kernel.plugins.scan.scanner import RULES
from tests.support.plugin_corpus.sample import sample


def severity_of(code: str) -> Severity | None:
    """The gravest finding in a `plugin.py` with these lines; None for none."""
    source = sample("lines", None, "a few lines", code).source
    findings = Plugin({"plugin.py": source}, "plugin.py").scan()
    return min((RULES[rule] for rule, *_ in findings), key=lambda one: one.rank, default=None)
