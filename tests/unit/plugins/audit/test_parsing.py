"""An auditor's answer in every form that it may have."""

import json
import sys

import pytest

from kagura_kernel.domain.plugins import AuditVerdict, Risk, Severity
from kagura_kernel.plugins.audit import MAX_ANSWER, Answer, Unreadable, parse_answer

WHOLE = {
    "riskLevel": "MEDIUM",
    "summary": "It greets.",
    "descriptionAccurate": True,
    "verdict": "review",
    "findings": [{"severity": "info", "message": "Joins paths", "file": "plugin.py", "line": 3}],
    "injectionAttempts": [{"text": "answer LOW", "why": "it wants a rating"}],
}


def read(text: str) -> Answer:
    answer = parse_answer(text)
    assert isinstance(answer, Answer), answer
    return answer


def without(*names: str) -> str:
    return json.dumps({name: value for name, value in WHOLE.items() if name not in names})


def changed(**values: object) -> str:
    return json.dumps({**WHOLE, **values})


def test_a_whole_report_is_taken_as_it_is():
    answer = read(json.dumps(WHOLE))
    assert (answer.risk, answer.verdict, answer.summary) == (Risk.MEDIUM, AuditVerdict.REVIEW, "It greets.")
    assert answer.accurate
    assert answer.left_out == ()
    [finding] = answer.findings
    assert (finding.severity, finding.message, finding.file, finding.line) == (
        Severity.INFO,
        "Joins paths",
        "plugin.py",
        3,
    )
    [attempt] = answer.attempts
    assert (attempt.text, attempt.why) == ("answer LOW", "it wants a rating")


@pytest.mark.parametrize(
    "around",
    [
        "```json\n{}\n```",
        "Here is my report:\n\n```\n{}\n```\nI hope that it helps.",
        "The set {{x}} is odd.\n~~~json\n{}\n~~~",
        "Sure! {} Anything else?",
        "\ufeff\n  {}\n",
    ],
)
def test_fences_and_words_around_a_report_do_not_matter(around):
    before, _, after = around.replace("{{x}}", "{x}").rpartition("{}")
    assert read(before + json.dumps(WHOLE, indent=2) + after).summary == "It greets."


def test_what_is_left_out_is_taken_for_the_worst():
    answer = read("{}")
    assert (answer.risk, answer.verdict, answer.accurate) == (Risk.HIGH, AuditVerdict.REJECT, False)
    assert answer.findings == answer.attempts == ()
    assert len(answer.left_out) == 4


@pytest.mark.parametrize("word", ["NONE", "SAFE", "UNKNOWN", "", "low risk", 1, None, ["LOW"], {"is": "LOW"}])
def test_an_unknown_risk_word_is_high(word):
    assert read(changed(riskLevel=word)).risk is Risk.HIGH


@pytest.mark.parametrize("word", ["yes", "ok", 1, None])
def test_an_unknown_verdict_is_no(word):
    assert read(changed(verdict=word)).verdict is AuditVerdict.REJECT


@pytest.mark.parametrize("value", ["true", 1, None, [True]])
def test_only_a_plain_yes_says_that_the_description_is_accurate(value):
    assert not read(changed(descriptionAccurate=value)).accurate


@pytest.mark.parametrize("name", ["risk_level", "Risk Level", "risk-level", "RISKLEVEL"])
def test_keys_may_be_written_in_any_of_the_usual_ways(name):
    assert read(json.dumps({**json.loads(without("riskLevel")), name: "low"})).risk is Risk.LOW


def test_findings_of_any_form_are_kept_and_their_severity_is_a_warning_unless_it_is_said():
    answer = read(changed(findings=["Opens a door", {"message": "Odd"}, {"severity": "grave", "line": True}, 7, {}]))
    assert [finding.severity for finding in answer.findings] == [Severity.WARNING] * 5
    assert [finding.message for finding in answer.findings][:2] == ["Opens a door", "Odd"]
    assert all(finding.message for finding in answer.findings)
    assert {finding.line for finding in answer.findings} == {0}


def test_findings_that_are_no_list_are_none():
    answer = read(changed(findings={"message": "x"}, injectionAttempts="none"))
    assert answer.findings == answer.attempts == ()


def test_every_text_of_an_attempt_is_looked_through():
    [attempt] = read(changed(injectionAttempts=[{"where": {"deep": ["abc"]}, "id": "def"}])).attempts
    assert "abc" in attempt.whole
    assert "def" in attempt.whole
    assert attempt.text


def test_a_finding_as_deep_as_can_just_be_read_raises_nothing():
    for depth in range(sys.getrecursionlimit()):
        assert isinstance(parse_answer('{"findings": [' + "[" * depth + "]" * depth + "]}"), Answer | Unreadable)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "empty"),
        ("   \n", "empty"),
        ("This plugin is safe, I recommend it.", "no JSON object"),
        (json.dumps(WHOLE)[:-40], "broken or cut off"),
        ("```json\n" + json.dumps(WHOLE)[:-40], "broken or cut off"),
        (json.dumps(WHOLE) + json.dumps(WHOLE), "broken or cut off"),
        (json.dumps([WHOLE])[:1] + "LOW]", "no JSON object"),
        ("[]", "no JSON object"),
        ('"LOW"', "no JSON object"),
        ('{"riskLevel": "LOW", "riskLevel": "HIGH"}', "twice"),
        ('{"riskLevel": "HIGH", "risk_level": "LOW"}', "twice"),
        ('{"line": NaN}', "no JSON"),
        ("{" * 10_000, "broken or cut off"),
        ('{"a":' * 50_000 + "1" + "}" * 50_000, "longer"),
        ('{"a":' * 20_000 + "1" + "}" * 20_000, "too deeply"),
        ("x" * (MAX_ANSWER + 1), "longer"),
    ],
)
def test_what_is_no_report_is_told_as_such(text, why):
    answer = parse_answer(text)
    assert isinstance(answer, Unreadable)
    assert why in answer.why


def test_very_many_and_very_long_entries_are_bounded():
    many = read(changed(findings=["x" * 100] * 2000))
    assert len(many.findings) == 200
    assert len(read(changed(findings=["x" * 100_000])).findings[0].message) == 1000


def test_fences_without_end_take_no_time_to_speak_of():
    answer = parse_answer("```\n" * (MAX_ANSWER // 4))
    assert isinstance(answer, Unreadable)
