from pathlib import Path

import pytest

from kagura_kernel.domain.errors import HostNotUnderstood, UsageError
from kagura_kernel.domain.policy import SandboxPolicy, SandboxPolicyType
from kagura_kernel.membrane.credentials.lease import Budget, Grant, LeaseTerms
from kagura_kernel.membrane.credentials.provider import Scope
from kagura_kernel.membrane.egress.hosts import HOST_SETS, Target
from kagura_kernel.membrane.grant import (
    PROMPT_FILE,
    WRITE_THROUGH,
    WRITES_THROUGH,
    Mount,
    RunGrant,
    compute_grant,
    host_sets,
)

PROJECT = Path("/projects/one")


def granted(**words: object) -> RunGrant:
    return compute_grant(project=PROJECT, policy=SandboxPolicy(), **words)  # type: ignore[arg-type]


def test_nothing_is_granted_by_default_but_the_project_as_a_copy():
    grant = granted()
    assert (grant.credentials, grant.net, dict(grant.egress.granted), grant.egress.ask) == ((), (), {}, False)
    assert [(mount.source, mount.target, mount.mode) for mount in grant.mounts] == [(PROJECT, "/workspace", "copy")]
    assert not grant.writable_root
    assert grant.beyond(LeaseTerms()) == ()


def test_a_box_that_may_not_write_sees_the_project_read_only():
    grant = compute_grant(project=PROJECT, policy=SandboxPolicy(SandboxPolicyType.READ_ONLY))
    assert [mount.mode for mount in grant.mounts] == ["read"]


def test_what_the_settings_open_for_every_run_is_no_exception():
    grant = granted(usual_net=("ask", "pypi.org"), net=("pypi.org",))
    assert grant.net == ("ask", "pypi.org")
    assert grant.beyond(LeaseTerms()) == ()


def test_a_cell_s_own_words_come_on_top_and_are_told():
    grant = granted(usual_net=("ask",), net=("example.org:8443", "python-packages"))
    assert Target("example.org", 8443) in grant.egress.granted
    assert grant.egress.ask
    assert grant.beyond(LeaseTerms()) == (
        "may reach example.org:8443",
        f"may reach python-packages ({', '.join(map(str, HOST_SETS['python-packages']))})",
    )


def test_none_takes_back_what_stands_before_it():
    grant = granted(usual_net=("ask", "pypi.org"), net=("none", "example.org"))
    assert grant.net == ("example.org",)
    assert not grant.egress.ask
    assert list(grant.egress.granted) == [Target("example.org", 443)]


def test_credentials_are_exact_sorted_and_each_there_once():
    grant = granted(credentials=("github:write", "aws:deploy", "github:write"))
    assert grant.credentials == (Grant("aws", Scope("deploy")), Grant("github", Scope("write")))


@pytest.mark.parametrize(
    ("renewals", "words"),
    [(0, "never renewed"), (1, "renewed at most once"), (6, "renewed at most 6 times")],
)
def test_the_budget_of_a_credential_is_told_in_words(renewals: int, words: str):
    terms = LeaseTerms(budget=Budget(7200.0, 0.0, renewals))
    assert granted(credentials=("aws:deploy",)).beyond(terms) == (
        f"may hold aws:deploy for at most 2 h in all, {words}",
    )


def test_a_root_that_can_be_written_is_beyond_the_baseline():
    assert "whole system in its box" in granted(writable_root=True).beyond(LeaseTerms())[0]


def test_every_word_that_is_not_understood_is_told_at_once_with_what_there_is():
    with pytest.raises(UsageError) as caught:
        granted(net=("*.example.org", "https://example.org/", "pypi.org"))
    assert "wildcards" in caught.value.message
    assert "not a URL" in caught.value.message
    assert "python-packages" in caught.value.message


def test_a_credential_in_another_form_is_refused_without_repeating_it():
    with pytest.raises(UsageError) as caught:
        granted(credentials=("ghp_0123456789abcdef",))
    assert "ghp_" not in caught.value.message


def test_a_mirror_stands_for_the_whole_set():
    sets = host_sets({"python-packages": ("mirror.example.org:8443",)})
    grant = granted(net=("python-packages",), sets=sets)
    assert list(grant.egress.granted) == [Target("mirror.example.org", 8443)]
    assert grant.beyond(LeaseTerms()) == ("may reach python-packages (mirror.example.org:8443)",)


def test_a_mirror_that_is_no_host_is_refused():
    with pytest.raises(HostNotUnderstood):
        host_sets({"python-packages": ("a b",)})


def test_the_grant_as_an_event_holds_words_and_names_alone():
    fields = granted(usual_net=("ask",), net=("pypi.org",), credentials=("aws:deploy",), image="node").to_event()
    assert fields == {
        "image": "node",
        "mounts": [{"source": "/projects/one", "target": "/workspace", "mode": "copy"}],
        "credentials": ("aws:deploy",),
        "egress": ("pypi.org",),
        "ask": True,
        "writable_root": False,
    }


def test_a_grant_can_be_widened_before_anything_starts_and_says_what_has_to_be_asked():
    grant = granted(usual_net=("ask",), net=("example.org",))
    kit = Mount(Path("/kits/one"), "/kagura/kit", "read")
    wider = grant.widened(("example.org", "pypi.org:443"), (kit,), asked=True)
    assert wider.net == ("ask", "example.org", "pypi.org:443")
    assert wider.asked == ("pypi.org:443",)
    assert Target("pypi.org", 443) in wider.egress.granted
    assert wider.mounts[-1] == kit
    assert wider.to_event()["mounts"][-1] == {"source": "its kit", "target": "/kagura/kit", "mode": "read"}
    assert grant.widened(("pypi.org",), asked=False).asked == ()
    assert "may reach pypi.org:443" in wider.beyond(LeaseTerms())


def test_words_that_nobody_understands_widen_nothing():
    with pytest.raises(UsageError):
        granted().widened(("not a host",), asked=True)


def test_writing_through_is_told_like_every_other_power():
    assert granted().asking((WRITE_THROUGH,)).beyond(LeaseTerms()) == (WRITES_THROUGH,)


def test_a_file_of_the_person_is_told_like_every_other_power():
    assert granted().asking((f"{PROMPT_FILE}~/diary.txt",)).beyond(LeaseTerms()) == ("reads ~/diary.txt to its brain",)


def test_what_a_person_has_closed_is_opened_by_nobody_else():
    grant = granted(net=("none",))
    assert grant.widened(("pypi.org",), asked=True) == grant


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("рypi.org", "may reach рypi.org (xn--ypi-zed.org)"),
        ("bücher.example:8443", "may reach bücher.example:8443 (xn--bcher-kva.example:8443)"),
        ("pypi.org", "may reach pypi.org"),
    ],
)
def test_a_host_with_foreign_letters_is_told_with_the_spelling_that_counts(word, said):
    assert granted(net=(word,)).beyond(LeaseTerms()) == (said,)
