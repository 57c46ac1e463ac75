"""What an administrator says for everybody: below a person's own settings, and what is locked above them."""

import pytest

from kagura_kernel.domain.errors import ConfigurationError
from kagura_kernel.domain.settings import Settings, parse_settings, parse_shared

SHARED = parse_shared(
    """
box = "docker"
brain = "claude"
model = "opus"
budget_usd = 2.0
net = ["ask"]
locked = ["budget_usd", "net", "keep"]

[env]
TZ = "UTC"
LANG = "C"

[mirrors]
ours = ["a.example"]
""",
    "/etc/shared.toml",
)


def given(text: str = "", **variables: str) -> Settings:
    return parse_settings(text, variables, "mine.toml", shared=SHARED)


def test_what_is_shared_holds_where_a_person_says_nothing_else():
    assert (given().box, given().budget_usd) == ("docker", 2.0)
    assert given('box = "bubblewrap"').box == "bubblewrap"
    assert given(KAGURA_BOX="ssh").box == "ssh"
    assert given('[env]\nLANG = "de"\nPAGER = "cat"').env == {"TZ": "UTC", "LANG": "de", "PAGER": "cat"}
    assert given().locked == ("budget_usd", "net", "keep")


def test_the_shared_model_is_that_of_the_shared_brain():
    assert (given().model, given('brain = "pydantic_ai"').model) == ("opus", "")
    assert given(KAGURA_BRAIN="pydantic_ai").model == ""
    assert given('brain = "pydantic_ai"\nmodel = "m"').model == "m"


@pytest.mark.parametrize(
    ("text", "variables", "place"),
    [
        ("budget_usd = 5.0", {}, "budget_usd"),
        ("", {"KAGURA_BUDGET_USD": "5"}, "KAGURA_BUDGET_USD"),
        ("", {"KAGURA_BUDGET_USD": ""}, "KAGURA_BUDGET_USD"),
        ('net = ["ask", "a.example"]', {}, "net"),
        ("keep = true", {}, "keep"),
        ('[mirrors]\nmine = ["b.example"]', {}, "mirrors"),
        ('locked = ["box"]', {}, "locked"),
        ("locked = []", {}, "locked"),
        ("", {"KAGURA_LOCKED": ""}, "KAGURA_LOCKED"),
    ],
)
def test_what_is_locked_is_changed_neither_by_a_file_nor_by_a_variable(text, variables, place):
    with pytest.raises(ConfigurationError) as caught:
        given(text, **variables)
    [problem] = caught.value.problems
    assert problem.startswith(f"{place}: ")
    assert "shared settings alone" in problem or "in /etc/shared.toml" in problem


def test_a_locked_endpoint_has_the_address_that_the_administrator_gave_it():
    shared = parse_shared(
        'endpoint = "ours"\nlocked = ["endpoint"]\n[endpoints.ours]\nurl = "https://ai.example/v1"\n', "/etc/s.toml"
    )
    with pytest.raises(ConfigurationError, match="endpoints"):
        parse_settings('[endpoints.ours]\nurl = "https://else.example/v1"\n', {}, "mine.toml", shared=shared)


def test_who_repeats_what_is_locked_is_in_nobody_s_way():
    settings = given('budget_usd = 2\nnet = ["ask"]\nkeep = false', KAGURA_BUDGET_USD="2.0")
    assert (settings.budget_usd, settings.keep) == (2.0, False)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("budget_usd = -1", "more than 0"),
        ('locked = ["budget"]', "no setting 'budget'"),
        ('locked = ["locked"]', "no setting 'locked'"),
        ("budget_usd =", "not TOML"),
        ("net = " + "[" * 10_000, "not TOML"),
        ("budget_usd = " + "1" * 10_000, "not TOML"),
    ],
)
def test_shared_settings_that_are_wrong_are_told_with_their_file(text, why):
    with pytest.raises(ConfigurationError, match=why) as caught:
        parse_shared(text, "/etc/shared.toml")
    assert caught.value.source == "/etc/shared.toml"
