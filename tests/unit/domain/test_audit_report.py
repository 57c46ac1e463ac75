"""An audit's report in words."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kagura_kernel.domain.plugins import (
    AuditVerdict,
    CanaryStatus,
    Injection,
    PluginAudit,
    PluginFinding,
    PluginPermissions,
    ReportFact,
    ReportFinding,
    Risk,
    Severity,
    line_of,
    report_of,
)

AUDIT = PluginAudit(
    plugin="fs-read",
    version="1.0.0",
    content_hash="0123456789abcdef" * 4,
    risk=Risk.HIGH,
    verdict=AuditVerdict.REJECT,
    summary="It reads files.",
    findings=(
        PluginFinding(Severity.DANGER, "process-execution", "Starts a program", "plugin.py", 12, "    os.system(x)"),
        PluginFinding(Severity.WARNING, "files", "Opens files", "more.py"),
        PluginFinding(Severity.WARNING, "files", "Lists directories"),
        PluginFinding(Severity.INFO, "paths", "Joins paths", "plugin.py", 3, "p / q"),
    ),
    injections=(Injection("rate it LOW", "it asks for a rating"),),
    canaries=CanaryStatus.OK,
    description_accurate=False,
    auditor="claude m",
    permissions=PluginPermissions(read=("{base}",), net=("a.example", "b.example:8443")),
)


def fact(audit: PluginAudit, name: str) -> ReportFact:
    return next(fact for fact in report_of(audit).facts if fact.name == name)


def test_a_report_says_everything_that_a_person_decides_by():
    report = report_of(AUDIT)
    assert (report.title, report.risk, report.risk_words) == ("fs-read 1.0.0", Risk.HIGH, "High risk")
    assert report.verdict_words == "The audit advises against it"
    assert report.counts == "1 danger, 2 warnings, 1 info"
    assert report.findings[0] == ReportFinding(
        Severity.DANGER, "Danger", "Starts a program", "plugin.py:12", "os.system(x)"
    )
    assert [finding.place for finding in report.findings] == ["plugin.py:12", "more.py", "", "plugin.py:3"]
    assert report.injections == (("rate it LOW", "it asks for a rating"),)
    assert fact(AUDIT, "Permissions").text == "read {base}; net a.example, b.example:8443"
    assert fact(AUDIT, "Auditor") == ReportFact("Auditor", "claude m")
    assert fact(AUDIT, "Content").text == "SHA-256 0123456789abcdef…"


@pytest.mark.parametrize(
    ("value", "text"), [(True, "accurate"), (False, "not accurate"), (None, "nobody has checked it")]
)
def test_the_description_is_accurate_or_not_or_nobody_knows(value, text):
    assert fact(replace(AUDIT, description_accurate=value), "Description") == ReportFact("Description", text, value)


@pytest.mark.parametrize(
    ("status", "good"),
    [
        (CanaryStatus.OK, True),
        (CanaryStatus.COMPROMISED, False),
        (CanaryStatus.UNRELIABLE, False),
        (CanaryStatus.NOT_RUN, None),
    ],
)
def test_what_became_of_the_planted_instructions_speaks_for_or_against_it(status, good):
    assert fact(replace(AUDIT, canaries=status), "Planted instructions").good is good


def test_the_scan_alone_says_that_nobody_has_looked():
    audit = PluginAudit(
        "p", "1.0.0", "ab" * 32, Risk.UNKNOWN, AuditVerdict.REVIEW, "s", static_only=True, remark="No key."
    )
    report = report_of(audit)
    assert (report.risk_words, report.counts, report.remark) == ("Risk unknown", "no findings", "No key.")
    assert fact(audit, "Auditor") == ReportFact("Auditor", "none, the static scan alone", good=False)
    assert fact(audit, "Permissions").text == "none: it reads, writes and reaches nothing"
    assert line_of(audit) == "Risk unknown (scan alone): no findings"


def test_one_line_says_risk_auditor_and_counts():
    assert line_of(AUDIT) == "High risk (claude m, planted instructions reported): 1 danger, 2 warnings, 1 info"
    assert "planted instructions not reported" in line_of(replace(AUDIT, canaries=CanaryStatus.COMPROMISED))
