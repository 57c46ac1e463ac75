import json
from datetime import UTC, datetime

import pytest

from kagura_kernel.domain.approvals import ApprovalKind, ApprovalRequest
from kagura_kernel.domain.commands import Command, Output, shell_command
from kagura_kernel.domain.cost import Cost, Usage
from kagura_kernel.domain.errors import UnknownName
from kagura_kernel.domain.events import RunFinished, RunStarted, TextStreamed, parse_event
from kagura_kernel.domain.policy import IsolationClass


def request(detail: str = "ls", **fields: object) -> ApprovalRequest:
    return ApprovalRequest(
        "app-1", "run-1", "ses-1", ApprovalKind.HOST_COMMAND, "t", detail, datetime.now(UTC), **fields
    )  # type: ignore[arg-type]


def test_the_hash_of_an_approval_covers_what_would_be_done_and_nothing_else():
    assert request("ls").content_hash == request("ls", reason="because").content_hash
    assert request("ls").content_hash != request("ls -a").content_hash
    assert request("ls").content_hash != request("ls", arguments={"cwd": "/"}).content_hash


def test_a_shell_line_is_shown_as_typed_and_other_commands_quoted():
    assert shell_command("echo 'a b' | wc").line == "echo 'a b' | wc"
    assert Command(("printf", "a b")).line == "printf 'a b'"


def test_a_gap_in_an_output_is_marked_with_its_size():
    output = Output(b"start", b"end", total=108)
    assert output.truncated
    assert "100 bytes left out" in output.text
    assert Output(b"\xffx", total=2).text == "\N{REPLACEMENT CHARACTER}x"


def test_money_that_is_not_known_is_none_and_reported_beats_computed():
    assert Cost().usd is None
    assert Cost(reported_usd=0.2, computed_usd=0.1).usd == 0.2
    assert Cost(computed_usd=0.1).usd == 0.1


def test_usage_adds_up_field_by_field():
    assert Usage(1, 2, 3, 4) + Usage(10, 20, 30, 40) == Usage(11, 22, 33, 44)


def test_isolation_classes_are_ordered_by_strength():
    assert IsolationClass.NAMESPACE < IsolationClass.CONTAINER < IsolationClass.GVISOR < IsolationClass.MICROVM
    assert IsolationClass.GVISOR.label == "gvisor"


def test_a_near_miss_is_named():
    assert "Did you mean 'docker'?" in str(UnknownName("box", "dokcer", ["docker", "bubblewrap"]))
    assert "Did you mean" not in str(UnknownName("box", "zzz", ["docker"]))


def test_words_that_all_names_share_make_none_of_them_near():
    charts = ["chart cost", "chart timeline"]
    assert "Did you mean 'chart timeline'?" in str(UnknownName("command", "chart timelin", charts))
    assert "Did you mean" not in str(UnknownName("command", "chart pie", charts))
    assert "Did you mean" not in str(UnknownName("command", "memory", ["export", "cost"]))


def test_an_event_survives_the_way_through_json():
    event = RunFinished(run_id="run-1", session_id="ses-1", at=datetime.now(UTC), status="done", computed_usd=None)
    assert parse_event(event.model_dump_json()) == event


def test_a_field_of_a_later_version_is_ignored_and_an_unknown_kind_refused():
    event = RunStarted(run_id="run-1", session_id="ses-1", at=datetime.now(UTC), task="t")
    assert parse_event(json.dumps(event.model_dump(mode="json") | {"later": 1})) == event
    with pytest.raises(ValueError, match="kind"):
        parse_event(json.dumps(event.model_dump(mode="json") | {"kind": "no.such"}))


def test_streamed_events_are_not_durable():
    assert not TextStreamed.durable
    assert RunStarted.durable
