import pytest

from kagura_kernel.domain.errors import HostNotUnderstood
from kagura_kernel.plugins.permissions import NetRule, check_entry, field_of, parse_net


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("example.com", NetRule("name", "example.com")),
        ("Example.COM.", NetRule("name", "example.com")),
        ("bücher.example", NetRule("name", "xn--bcher-kva.example")),
        ("*.example.com", NetRule("one-level", "example.com")),
        ("example.com:8443", NetRule("exact", "example.com", 8443)),
        ("https://example.com/path?query", NetRule("exact", "example.com", 443)),
        ("https://example.com:8443/", NetRule("exact", "example.com", 8443)),
        ("http://example.com", NetRule("exact", "example.com", 80)),
        ("mysql://db.example.com:3306/sales", NetRule("exact", "db.example.com", 3306)),
    ],
)
def test_what_an_entry_opens(text, rule):
    assert parse_net(text) == rule


@pytest.mark.parametrize(
    "text",
    [
        *(
            "* *.*.example.com *example.com a.*.example.com *.com *.example.com:8443 com localhost 10.0.0.1 "
            "0x7f.1 2130706433 [::1]:443 169.254.169.254 example.com:0 example.com:65536 example.com:443:443 "
            "example..com https://example.com@evil.example https:// mysql://db.example.com/sales"
        ).split(),
        "exa mple.com",
        "https://example.com\\@evil.example",
        "",
    ],
)
def test_what_no_manifest_may_name(text):
    with pytest.raises(HostNotUnderstood):
        parse_net(text)


def test_a_persons_url_may_lead_to_an_address_or_a_short_name():
    assert parse_net("http://10.0.0.5:8080/x", person=True) == NetRule("exact", "10.0.0.5", 8080)
    assert parse_net("http://localhost:8080", person=True) == NetRule("exact", "localhost", 8080)


@pytest.mark.parametrize("text", ["10.0.0.5", "localhost:8080", "*.com", "http://169.254.169.254/", "http://0.0.0.0/"])
def test_a_person_opens_no_more_than_a_url_says_and_nothing_that_hands_out_credentials(text):
    with pytest.raises(HostNotUnderstood):
        parse_net(text, person=True)


@pytest.mark.parametrize(
    "url", ["https://me:hunter2@example.com/", "https://me:hun/ter2@example.com/", "x://me:hunter2@h"]
)
def test_no_error_repeats_a_password(url):
    with pytest.raises(HostNotUnderstood) as raised:
        parse_net(url, person=True)
    assert "hun" not in raised.value.message


def test_how_a_rule_is_written():
    texts = ["example.com", "*.example.com", "example.com:8443"]
    assert [str(parse_net(text)) for text in texts] == texts


def test_an_entry_is_a_literal_or_one_field():
    assert field_of("{baseDir}") == "baseDir"
    assert field_of("/data") == field_of("{a}{b}") == field_of("{a}/b") == field_of("{}") == ""
    assert check_entry("read", "{baseDir}") == ""
    assert "not a mixture" in check_entry("read", "{baseDir}/sub")


@pytest.mark.parametrize(
    "entry", ["/data", "~/data", "./data", ".", "sqlite:////data/x.db", "sqlite:///x.db", "file:///x"]
)
def test_paths_that_a_manifest_may_name(entry):
    assert check_entry("read", entry) == ""


@pytest.mark.parametrize(
    "entry",
    [*"data /a/../b ./.. sqlite:// sqlite://host/x file://host/x https://example.com".split(), "/a\0b", "a" * 2000],
)
def test_paths_that_no_manifest_may_name(entry):
    assert check_entry("read", entry) != ""
