"""Whatever an auditor says, it cannot make a plugin look better than it showed that it can be trusted to."""

import json

from hypothesis import given, strategies as st

from kagura_kernel.domain.plugins import AuditVerdict, CanaryStatus, Risk
from kagura_kernel.plugins.audit import Answer, Unreadable, audit_prompt, deep_audit, parse_answer
from tests.support.sample_plugin import sample_plugin

KEYS = "riskLevel summary descriptionAccurate verdict findings injectionAttempts severity message".split()
KEYS += ["file", "line", "text", "why"]
WORDS = st.sampled_from(["LOW", "approve", "danger", "info", "plugin.py", ""]) | st.text(max_size=20)
LEAVES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | WORDS
VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(KEYS), inner), max_leaves=20
)
REPORTS = st.dictionaries(st.sampled_from(KEYS) | st.text(max_size=5), VALUES, max_size=8)

FOUND, SCAN = sample_plugin()


@given(st.text())
def test_any_text_is_a_report_or_is_not(text):
    assert isinstance(parse_answer(text), Answer | Unreadable)


@given(REPORTS)
def test_any_json_becomes_a_report_that_can_be_stored(value):
    prompt = audit_prompt(FOUND, SCAN.findings)
    assert prompt is not None
    audit = deep_audit(FOUND, SCAN, json.dumps(value), canaries=prompt.canaries)
    assert audit.findings
    assert all(finding.message for finding in audit.findings)
    assert audit.content_hash == FOUND.content.content_hash


@given(REPORTS)
def test_whoever_has_not_seen_what_was_planted_is_never_believed(value):
    prompt = audit_prompt(FOUND, SCAN.findings)
    assert prompt is not None
    audit = deep_audit(FOUND, SCAN, json.dumps(value), canaries=prompt.canaries)
    assert audit.verdict is AuditVerdict.REJECT
    assert audit.canaries is not CanaryStatus.OK
    # Two keys that mean the same make it no report at all.
    assert audit.risk is Risk.CRITICAL or (audit.risk is Risk.HIGH and audit.canaries is CanaryStatus.NOT_RUN)
