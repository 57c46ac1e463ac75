from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from kagura_kernel.domain.errors import UsageError
from kagura_kernel.domain.events import (
    AnyEvent,
    ApprovalDecided,
    ApprovalRequested,
    ChangesSettled,
    ChildStarted,
    EgressDecided,
    LeaseUsed,
    PluginCalled,
    ToolCalled,
    ToolFinished,
)
from kagura_kernel.domain.patterns import DelegationTerms, Handoff
from kagura_kernel.domain.policy import SandboxPolicy
from kagura_kernel.membrane.egress.hosts import ASK, HOST_SETS
from kagura_kernel.membrane.egress.policy import parse_grants
from kagura_kernel.membrane.grant import WRITE_THROUGH, RunGrant, compute_grant
from kagura_kernel.patterns.dispatch import (
    asked_words,
    below,
    capped,
    charged,
    even_share,
    share_of,
    tighter,
    why_not,
    why_not_again,
)

WORDS = (ASK, "github", "npm", "tool-install", "api.github.com", "example.org", "example.org:80", "10.0.0.7:5432")
CREDENTIALS = ("github:read", "github:write", "aws:logs", "cloud:mail:send")

words = st.lists(st.sampled_from(WORDS), unique=True, max_size=5).map(tuple)
scopes = st.lists(st.sampled_from(CREDENTIALS), unique=True, max_size=3).map(tuple)


def grant(net: tuple[str, ...] = (), credentials: tuple[str, ...] = (), **more: object) -> RunGrant:
    return compute_grant(project=Path("/p"), policy=SandboxPolicy(), net=net, credentials=credentials, **more)  # type: ignore[arg-type]


@given(words, scopes, words, scopes, st.booleans())
def test_a_child_never_gets_more_than_its_parent(net, credentials, wanted_net, wanted_credentials, root):
    parent = grant(net, credentials)
    own = grant(wanted_net, wanted_credentials, writable_root=root).asking(
        [*wanted_net, *(f"credential {one}" for one in wanted_credentials), WRITE_THROUGH]
    )
    child = capped(own, Handoff(lineage=("run-1",), net=parent.net, credentials=credentials))
    assert child.egress.granted.keys() <= parent.egress.granted.keys()
    assert not child.egress.ask or parent.egress.ask
    assert set(child.credentials) <= set(parent.credentials)
    assert not child.writable_root
    assert child.egress == parse_grants(child.net, HOST_SETS)
    wider = child.widened(["python-packages"], asked=False)
    assert wider.egress.granted.keys() <= parent.egress.granted.keys()
    asked = {word for word in child.asked if word != WRITE_THROUGH}
    assert asked <= {*child.net, *(f"credential {one}" for one in child.credentials)}


@given(words, scopes, words, scopes)
def test_what_is_handed_on_is_what_the_parent_has_or_an_error(net, credentials, wanted_net, wanted_credentials):
    parent = grant(net, credentials)
    try:
        handed = asked_words(parent, wanted_net, wanted_credentials)
    except UsageError:
        return
    opened = parse_grants(handed.net)
    assert opened.granted.keys() <= parent.egress.granted.keys()
    assert not opened.ask or parent.egress.ask
    assert set(handed.credentials) <= set(credentials)


def test_without_words_of_its_own_a_child_gets_its_parent_s_hosts_and_no_credential():
    handed = asked_words(grant(("github", ASK), ("github:read",)), None, ())
    assert (handed.net, handed.credentials) == (("github", ASK), ())
    assert asked_words(grant(("github",)), [], ()).net == ()
    assert asked_words(grant(("github",)), ["none"], ()).net == ()


def test_a_host_within_a_set_of_the_parent_s_can_be_handed_on_alone():
    assert asked_words(grant(("github",)), ["api.github.com"], ()).net == ("api.github.com",)
    with pytest.raises(UsageError, match="may not reach github"):
        asked_words(grant(("api.github.com",)), ["github"], ())


def test_a_person_s_own_set_of_runs_is_not_capped():
    wide = grant(("github",), ("github:read",))
    assert capped(wide, Handoff()) == wide


@given(
    st.floats(0.01, 100),
    st.integers(1, 8),
    st.lists(st.tuples(st.floats(0, 2), st.booleans()), min_size=1, max_size=12),
)
def test_the_shares_of_children_never_come_to_more_than_their_parent_has(limit, at_once, children):
    spent = 0.0
    for cost, known in children:
        try:
            share = share_of(limit - spent, None, at_once)
        except UsageError:
            break
        assert share is not None
        assert 0 < share < limit - spent
        spent += charged(share, min(cost, share) if known else None)
    assert spent <= limit


@given(st.floats(0.01, 100), st.lists(st.tuples(st.floats(0, 2), st.booleans()), min_size=1, max_size=12))
def test_the_shares_of_a_set_never_come_to_more_than_its_limit(limit, runs):
    spent = 0.0
    for at, (cost, known) in enumerate(runs):
        share = even_share(limit, spent, len(runs) - at)
        assert share is not None
        spent += charged(share, min(cost, share) if known else None)
    assert spent <= limit * (1 + 1e-9)


def test_what_is_not_spent_is_there_for_those_that_come_later():
    assert even_share(1.0, 0.0, 4) == pytest.approx(0.25)
    assert even_share(1.0, 0.05, 3) == pytest.approx(0.95 / 3)
    assert even_share(None, 5.0, 3) is None


@pytest.mark.parametrize("wanted", [1.0, 1.5, 0.000001])
def test_a_share_that_is_not_there_is_an_error_that_says_what_is(wanted):
    with pytest.raises(UsageError, match=r"\$1\.0000 of this run's budget is left"):
        share_of(1.0, wanted, 4)


def test_a_run_without_a_limit_hands_on_what_it_is_asked_for():
    assert share_of(None, 0.5, 4) == 0.5
    assert share_of(None, None, 4) is None


def test_depth_and_number_have_limits_that_are_told():
    terms = DelegationTerms(depth=2, children=3)
    assert why_not(terms, 1, 2) == ""
    assert "at most 2 deep" in why_not(terms, 2, 0)
    assert "as it may (3)" in why_not(terms, 1, 3)
    assert why_not(DelegationTerms(depth=0), 0, 0)


def test_a_child_s_limits_are_the_tighter_ones_and_its_own_children_stay_where_it_is():
    own = DelegationTerms(depth=5, children=2, at_once=9, workers="tcp://a:1")
    handed = below(DelegationTerms(depth=2, children=16, at_once=4, workers="tcp://b:1"))
    assert tighter(own, handed) == DelegationTerms(depth=2, children=2, at_once=4, workers="")
    assert tighter(own, None) == own


def event(kind: type, **fields: object) -> AnyEvent:
    return kind(run_id="run-1", session_id="ses-1", at=datetime(2026, 1, 1, tzinfo=UTC), **fields)


def asked(subject: str) -> list[AnyEvent]:
    request = event(ApprovalRequested, approval_id="app-1", subject=subject, title="t", detail="d")
    return [request, event(ApprovalDecided, approval_id="app-1", verdict="allow", by="p", via="card")]


def called(**arguments: object) -> AnyEvent:
    return event(ToolCalled, call_id="c", tool="bash", arguments=arguments)


@pytest.mark.parametrize(
    ("events", "why"),
    [
        ([event(ToolFinished, call_id="c", tool="bash", text="", route="host")], "on the host"),
        ([called(command="ls", host=True)], "may have run"),
        (asked("host_command"), "had allowed"),
        ([event(PluginCalled, plugin="p", module="m", function="f")], "plugin"),
        ([event(EgressDecided, connection_id="e", host="h", port=443, allowed=True)], "connection"),
        ([event(ChangesSettled, applied=("a",))], "reached the project"),
        ([event(ChildStarted, child="run-2")], "handed work on"),
        ([event(LeaseUsed, lease_id="l", provider="p", scope="s")], "credential"),
    ],
    ids=["host", "host begun", "allowed", "plugin", "egress", "applied", "child", "lease"],
)
def test_what_left_its_box_is_not_done_twice(events, why):
    assert why in why_not_again(events)


def test_what_happened_in_its_box_alone_may_be_done_again():
    inside = [
        called(command="make"),
        event(ToolFinished, call_id="c", tool="bash", text="", route="sandbox"),
        called(command="true"),
        event(EgressDecided, connection_id="e", host="h", port=443, allowed=False),
        *asked("launch"),
        *asked("credential"),
    ]
    assert why_not_again(inside) == ""
    assert "may have run" in why_not_again([called(command="true")], full_control=True)
