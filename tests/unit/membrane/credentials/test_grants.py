from __future__ import annotations

import pytest

from kagura_kernel.domain.errors import GrantMissing, UsageError
from kagura_kernel.membrane.credentials.lease import Grant, Grants, parse_grant
from kagura_kernel.membrane.credentials.provider import Scope


def test_a_grant_is_written_provider_colon_scope() -> None:
    assert parse_grant("github:read") == Grant("github", Scope("read"))
    assert parse_grant("aws:arn:aws:s3") == Grant("aws", Scope("arn:aws:s3"))
    assert str(parse_grant("github:read")) == "github:read"


@pytest.mark.parametrize(
    "text", ["", "github", "github:", ":read", "github:*", "git*:read", "GitHub:read", "github: read", "github:read\n"]
)
def test_anything_else_is_refused_without_repeating_it(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_grant(text)
    assert "PROVIDER:SCOPE" in str(caught.value)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("github:*", "patterns are not allowed"),
        ("git?:read", "patterns are not allowed"),
        ("démo:x", "a provider's name begins with a small letter and is made of a-z, 0-9, - and _"),
        ("GitHub:read", "a provider's name"),
        ("github:lire é", "a scope's name begins with a letter or digit"),
    ],
)
def test_the_reason_is_the_one_that_applies(text: str, why: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_grant(text)
    assert why in str(caught.value)


def test_a_secret_that_was_pasted_there_is_not_repeated() -> None:
    with pytest.raises(UsageError) as caught:
        parse_grant("ghp_abcdefghijklmnop")
    assert "ghp_" not in str(caught.value)


def test_nothing_is_granted_by_default() -> None:
    with pytest.raises(GrantMissing) as caught:
        Grants().check("github", "read")
    assert (caught.value.provider, caught.value.scope) == ("github", "read")


@pytest.mark.parametrize("scope", ["rea", "reads", "Read", "read ", "read/x", ""])
def test_only_exactly_what_is_granted_is_allowed(scope: str) -> None:
    grants = Grants([parse_grant("github:read")])
    assert grants.check("github", "read") == parse_grant("github:read")
    with pytest.raises(GrantMissing):
        grants.check("github", scope)
    with pytest.raises(GrantMissing):
        grants.check("gitlab", "read")


def test_they_are_listed_in_order() -> None:
    grants = Grants(map(parse_grant, ["b:x", "a:y", "a:x", "a:x"]))
    assert [str(grant) for grant in grants] == ["a:x", "a:y", "b:x"]
    assert len(grants) == 3
    assert parse_grant("a:x") in grants
