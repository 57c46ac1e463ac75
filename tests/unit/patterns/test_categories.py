from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from kagura_kernel.domain.approvals import ApprovalKind, ApprovalRequest
from kagura_kernel.domain.categories import CATEGORIES
from kagura_kernel.membrane.grant import RunGrant, compute_grant
from kagura_kernel.patterns.trust import BY_NAME, categorise, goes_to, names_credentials, touched

HELD = frozenset({"github:read", "cloudflare:dns-read", "cloudflare:dns-write", "aws:deploy", "cloudflare:zone-edit"})


def asked(kind: ApprovalKind, arguments: dict[str, Any]) -> ApprovalRequest:
    return ApprovalRequest(
        "app-1", "run-1", "ses-1", kind, "?", "All of it.", datetime(2026, 1, 1, tzinfo=UTC), arguments=arguments
    )


def host(command: str, **more: str) -> ApprovalRequest:
    return asked(ApprovalKind.HOST_COMMAND, {"command": command, "directory": "/project", **more})


def held(*credentials: str, **more: Any) -> ApprovalRequest:
    grant = RunGrant(writable_root=more.pop("writable_root", False)).to_event() | {"credentials": credentials}
    kind = ApprovalKind.LAUNCH if grant["writable_root"] or more else ApprovalKind.CREDENTIAL
    return asked(kind, grant | more)


def test_a_command_is_understood_with_all_that_it_would_use():
    assert categorise(host("git push")) == "git"
    assert categorise(host("git push", stdin="yes")) is None
    assert categorise(asked(ApprovalKind.HOST_COMMAND, {"command": "git push"})) is None


@pytest.mark.parametrize(
    "arguments",
    [
        {"host": "dns.google", "port": 443},
        {"host": "cloudflare-dns.com", "port": 443},
        {"host": "api.cloudflare.com", "port": 443},
        {},
    ],
)
def test_no_host_of_the_box_belongs_to_a_category_not_even_one_that_looks_names_up(arguments):
    request = asked(ApprovalKind.NETWORK, arguments)
    assert (categorise(request), touched(request), goes_to(request)) == (None, frozenset(), frozenset())


def test_only_a_command_goes_to_somebody_by_a_name():
    assert goes_to(host("dig example.org")) == {"example.org"}
    assert goes_to(asked(ApprovalKind.TOOL, {"command": "dig example.org"})) == frozenset()


@pytest.mark.parametrize(
    ("request_", "category", "touches"),
    [
        (held("github:read"), None, set()),
        (held("github:write"), "cloud-credentials", {"cloud-credentials"}),
        (held("github:write", "aws:admin"), "cloud-credentials", {"cloud-credentials"}),
        (held("github:write", "github:read"), None, {"cloud-credentials"}),
        (held("cloudflare:dns-read"), "dns-read", {"dns-read"}),
        (held("cloudflare:dns-write"), "dns-write", {"dns-write"}),
        (held("cloudflare:zone-edit"), "dns-write", {"dns-write"}),
        (held("cloudflare:dns-read", "cloudflare:dns-write"), None, {"dns-read", "dns-write"}),
        (held("cloudflare:dns-admin"), None, {"dns-write", "cloud-credentials"}),
        (held("cloudflare:dns-read", "aws:deploy"), None, {"dns-read"}),
        (held(), None, set()),
        (held(writable_root=True), "packages", {"packages"}),
        (held("github:write", writable_root=True), None, {"packages", "cloud-credentials"}),
        (held("aws:deploy", writable_root=True), None, {"packages"}),
        (held(writable_root=True, asked=["pypi.org"]), None, {"packages"}),
        (held(asked=["pypi.org"]), None, set()),
    ],
)
def test_a_grant_belongs_to_a_category_only_with_every_part_and_touches_that_of_each(request_, category, touches):
    assert categorise(request_, HELD) == category
    assert touched(request_, HELD) == touches


def test_more_time_for_a_credential_is_always_asked_about():
    request = asked(ApprovalKind.CREDENTIAL, {"provider": "cloudflare", "scope": "dns-write", "total_seconds": 3600.0})
    assert categorise(request, HELD) is None
    assert touched(request, HELD) == {"dns-write"}
    assert names_credentials(request)


@pytest.mark.parametrize(
    "kind",
    [
        ApprovalKind.PLUGIN,
        ApprovalKind.TOOL,
        ApprovalKind.WRITE,
        ApprovalKind.PLAN,
        ApprovalKind.TRUST,
        ApprovalKind.QUESTION,
    ],
)
def test_no_other_question_has_a_category_whatever_its_arguments_say(kind):
    request = asked(kind, {"command": "git push", "directory": "/project", "category": "git"})
    assert categorise(request) is None
    assert touched(request) == frozenset()
    assert not names_credentials(request)


def test_the_default_policy_is_the_one_that_was_asked_for():
    assert {one.name for one in CATEGORIES if one.included} == {"git", "config-files", "dns-read"}
    assert {one.name for one in CATEGORIES if not one.graduates} == {"force-push"}
    assert len(BY_NAME) == len(CATEGORIES)


def test_what_the_membrane_asks_is_understood_as_it_asks_it(tmp_path):
    from kagura_kernel.domain.policy import SandboxPolicy

    grant = compute_grant(project=tmp_path, policy=SandboxPolicy(), writable_root=True, net=("ask", "example.org"))
    assert categorise(asked(ApprovalKind.LAUNCH, grant.to_event())) == "packages"
