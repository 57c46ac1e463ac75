from typing import get_args

import pytest

from kagura_kernel.domain.plugins import PluginState
from kagura_kernel.plugins.sessions import NoSuchStep, SessionPlugin, Step, after, shown_state

STEPS = get_args(Step)
ONE, OTHER = "1" * 64, "2" * 64


def walk(*steps: Step, start: PluginState = PluginState.DISCOVERED) -> PluginState:
    state = start
    for step in steps:
        state = after(state, step)
    return state


def test_the_whole_way_in_and_out() -> None:
    assert walk("audit") is PluginState.AUDITED
    assert walk("audit", "configure") is PluginState.CONFIGURED
    assert walk("audit", "configure", "enable") is PluginState.ENABLED
    assert walk("audit", "configure", "enable", "disable") is PluginState.DISABLED
    assert walk("audit", "configure", "enable", "disable", "configure", "enable") is PluginState.ENABLED


def test_an_approved_one_is_configured_without_an_audit() -> None:
    assert walk("configure", "enable") is PluginState.ENABLED


def test_nothing_is_enabled_that_was_not_configured() -> None:
    for state in set(PluginState) - {PluginState.CONFIGURED}:
        with pytest.raises(NoSuchStep):
            after(state, "enable")


@pytest.mark.parametrize("state", list(PluginState))
def test_other_files_begin_anew_from_wherever(state: PluginState) -> None:
    assert after(state, "change") is PluginState.DISCOVERED


@pytest.mark.parametrize("state", list(PluginState))
def test_quarantine_comes_from_wherever_and_only_an_audit_or_a_release_leads_out(state: PluginState) -> None:
    assert after(state, "quarantine") is PluginState.QUARANTINED
    out = {"audit": PluginState.AUDITED, "release": PluginState.DISCOVERED}
    again = {"change": PluginState.DISCOVERED, "quarantine": PluginState.QUARANTINED}
    for step in STEPS:
        if step in out | again:
            assert after(PluginState.QUARANTINED, step) is (out | again)[step]
        else:
            with pytest.raises(NoSuchStep):
                after(PluginState.QUARANTINED, step)


@pytest.mark.parametrize("state", [PluginState.CONFIGURED, PluginState.ENABLED, PluginState.DISABLED])
def test_a_further_audit_takes_nothing_back(state: PluginState) -> None:
    assert after(state, "audit") is state


def test_a_fault_disables_and_does_not_forget() -> None:
    assert walk("audit", "configure", "fail") is PluginState.DISABLED
    assert walk("audit", "configure", "enable", "fail", "configure") is PluginState.CONFIGURED


def test_a_step_that_leads_nowhere_says_which() -> None:
    with pytest.raises(NoSuchStep, match="is enabled cannot enable"):
        after(PluginState.ENABLED, "enable")


def test_what_a_person_configured_is_kept_for_other_files_and_nothing_else_is() -> None:
    standing = SessionPlugin(PluginState.ENABLED, ONE, {"base": "/data"}, {"base": "/data"})
    assert standing.about(ONE) is standing
    other = standing.about(OTHER)
    assert (other.state, other.content_hash, other.values) == (PluginState.DISCOVERED, OTHER, {"base": "/data"})


@pytest.mark.parametrize(
    ("state", "content_hash", "audited", "shown"),
    [
        (PluginState.DISCOVERED, "", False, PluginState.DISCOVERED),
        (PluginState.DISCOVERED, "", True, PluginState.AUDITED),
        (PluginState.CONFIGURED, ONE, True, PluginState.CONFIGURED),
        (PluginState.CONFIGURED, OTHER, True, PluginState.AUDITED),
        (PluginState.DISABLED, ONE, False, PluginState.DISABLED),
        (PluginState.DISABLED, OTHER, False, PluginState.DISCOVERED),
        (PluginState.ENABLED, ONE, False, PluginState.ENABLED),
        (PluginState.ENABLED, OTHER, False, PluginState.ENABLED),
        (PluginState.QUARANTINED, ONE, True, PluginState.AUDITED),
    ],
)
def test_a_list_shows_where_a_session_is_with_the_files_that_are_there(state, content_hash, audited, shown):
    standing = SessionPlugin(state, content_hash)
    assert shown_state(standing, ONE, audited=audited, quarantined=False) is shown
    assert shown_state(standing, ONE, audited=audited, quarantined=True) is PluginState.QUARANTINED
