from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kagura_kernel.cockpit.handed import (
    child_intent,
    delegation_terms,
    handed_budget,
    handed_routing,
    workers_address,
)
from kagura_kernel.domain.errors import UsageError
from kagura_kernel.domain.patterns import DelegationTerms, Handoff
from kagura_kernel.domain.policy import PermissionMode, WriteMode
from kagura_kernel.domain.settings import Settings
from kagura_kernel.patterns.dispatch import below
from kagura_kernel.runs.order import ChildOrder

amounts = st.one_of(st.none(), st.floats(0.01, 100))


@given(amounts, amounts)
def test_a_share_only_ever_lowers_a_budget(budget, share):
    found = handed_budget(budget, Handoff(budget_usd=share))
    assert found == min([one for one in (budget, share) if one is not None], default=None)
    assert handed_budget(budget, None) == budget


@given(st.booleans(), st.booleans(), st.booleans(), st.booleans())
def test_a_child_is_never_asked_about_less_than_its_parent(own_full, own_strict, handed_full, handed_strict):
    mode = PermissionMode.FULL_CONTROL if own_full else PermissionMode.DEFAULT
    settings = Settings(permission_mode=mode, strict_routing=own_strict, preapproved_host_commands=("ls", "git"))
    handoff = Handoff(lineage=("run-1",), full_control=handed_full, strict=handed_strict, preapproved=("git", "pwd"))
    routing = handed_routing(settings, handoff)
    assert (routing.mode is PermissionMode.FULL_CONTROL) == (own_full and handed_full)
    assert routing.strict == (own_strict or handed_strict)
    assert routing.preapproved == ("git",)
    assert handed_routing(settings, Handoff()).preapproved == ("ls", "git")


def test_what_a_child_hands_on_stays_in_its_process_whatever_the_settings_there_say():
    settings = Settings(workers="tcp://10.0.0.5:8786", delegate_depth=8)
    assert delegation_terms(settings, None, None).workers == "tcp://10.0.0.5:8786"
    assert delegation_terms(settings, "", None).workers == ""
    handed = Handoff(lineage=("run-1",), delegation=below(DelegationTerms(depth=2, workers="tcp://h:1")))
    assert delegation_terms(settings, None, handed) == DelegationTerms(2, 16, 4, "")


@pytest.mark.parametrize("text", ["", "tcp://10.0.0.5:8786", "tls://far.example.org:1", "tcp://[::1]:8786"])
def test_an_address_of_workers_is_taken_as_it_is(text):
    assert workers_address(text) == text


@pytest.mark.parametrize(
    "text", ["10.0.0.5:8786", "http://h:1", "tcp://h", "tcp://h:1/x", "tcp://u:p@h:1", "tcp:// h:1"]
)
def test_what_is_no_address_of_workers_is_refused(text):
    with pytest.raises(UsageError, match="no address of workers"):
        workers_address(text)


def test_an_intent_says_all_that_an_order_does():
    handoff = Handoff(lineage=("run-1",), net=("github",), credentials=("a:b",), budget_usd=0.5, write_mode="none")
    order = ChildOrder(
        "do it", handoff, "run-1", "run-1.child-1", Path("/p"), agent="boss", box="docker", headless=True
    )
    intent = child_intent(order)
    assert (intent.task, intent.session, intent.project, intent.agent) == ("do it", "run-1.child-1", Path("/p"), "boss")
    assert (intent.net, intent.grants, intent.budget_usd) == (("github",), ("a:b",), 0.5)
    assert (intent.write_mode, intent.box, intent.headless) == (WriteMode.NONE, "docker", True)
    assert (intent.brain, intent.model, intent.verify, intent.image) == (None, None, None, None)
