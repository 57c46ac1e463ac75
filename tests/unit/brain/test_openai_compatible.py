from __future__ import annotations

import pytest

from kagura_kernel.brain.openai_compatible import KNOWN, is_loopback, name_of, problem_with_url, split_model, without


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        ("ollama:qwen3:32b", ("ollama", "qwen3:32b")),
        ("qwen3:32b", ("", "qwen3:32b")),
        ("gpt-4o", ("", "gpt-4o")),
        ("work:", ("work", "")),
        ("", ("", "")),
    ],
)
def test_an_endpoint_before_a_model_is_told_from_a_colon_in_its_name(model, expected):
    assert split_model(model, ["work", *KNOWN]) == expected


@pytest.mark.parametrize(
    ("url", "keyed"),
    [
        ("https://llm.example.org/v1", True),
        ("http://127.0.0.1:8000/v1", True),
        ("http://localhost:8000", True),
        ("http://[::1]:8000/v1", True),
        ("http://llm.example.org/v1", False),
    ],
)
def test_a_url_may_be_plain_where_nothing_can_be_overheard(url, keyed):
    assert problem_with_url(url, keyed=keyed) == ""


@pytest.mark.parametrize(
    "url",
    [
        "http://llm.example.org/v1",
        "http://localhost.example.org/v1",
        "http://127.0.0.1.example.org/v1",
        "https://me:secret@llm.example.org/v1",
        "https://llm.example.org/v1?key=secret",
        "ftp://llm.example.org",
        "llm.example.org",
        "https://[::1",
        "https://llm.example.org:port",
        "",
    ],
)
def test_a_url_that_would_give_a_key_away_or_is_none_is_refused_without_repeating_it(url):
    problem = problem_with_url(url, keyed=True)
    assert problem
    assert "secret" not in problem


def test_every_known_service_has_a_url_that_a_key_may_go_to():
    assert [name for name, known in KNOWN.items() if problem_with_url(known.url, keyed=bool(known.variable))] == []
    assert [name for name, known in KNOWN.items() if not known.variable and not known.start] == []


def test_a_url_is_called_by_its_host_and_port():
    assert name_of("https://me@llm.example.org:8443/v1") == "llm.example.org:8443"
    assert is_loopback("127.8.9.1")
    assert not is_loopback("10.0.0.1")


def test_an_error_is_one_short_line_without_the_key():
    said = without(["sk-secret", ""], "no:\n  sk-secret is not\x09good " + "x" * 1000)
    assert said.startswith("no: … is not good x")
    assert len(said) < 310
