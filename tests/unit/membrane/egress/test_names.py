import pytest
from hypothesis import given, strategies as st

from kagura_kernel.domain.errors import HostNotUnderstood
from kagura_kernel.membrane.egress.hosts import Target, address_of, make_target, normalise, parse_target, parse_url

# What breaks parsers: separators, escapes, wide digits and dots, letters that fold to ASCII, digits in other bases.
TRICKY = st.text(
    alphabet=st.sampled_from(
        [*"aZ019.-_:%[]@/\\ \t\n\0xXfn", "。", "1", "A", "ß", "K", "\u00ad", "é", "日", "\u200d", "٣"]
    ),
    max_size=24,
)
HOSTS = st.one_of(
    st.text(max_size=40),
    TRICKY,
    st.from_regex(r"[a-z0-9-]{1,8}(\.[a-z0-9-]{1,8}){0,3}\.?", fullmatch=True),
    st.from_regex(r"(0x[0-9a-f]{1,9}|[0-9]{1,11})(\.(0x[0-9a-f]{1,3}|[0-9]{1,4})){0,4}", fullmatch=True),
    st.from_regex(r"xn--[a-z0-9-]{1,12}", fullmatch=True),
    st.ip_addresses().map(str),
)


def read(host: str) -> str | None:
    try:
        return normalise(host)
    except HostNotUnderstood:
        return None


@given(HOSTS)
def test_a_host_is_normalised_to_a_fixed_point_or_refused_with_its_own_error(host):
    once = read(host)
    if once is not None:
        assert read(once) == once


@given(HOSTS)
def test_what_passes_is_plain_ascii_without_anything_that_separates(host):
    once = read(host)
    if once is not None and ":" not in once:
        assert once.isascii()
        assert once == once.lower()
        assert not set(once) & set(" %/\\@#?[]\t\r\n\0")


@given(st.text(max_size=60))
def test_targets_and_urls_raise_nothing_but_their_own_error(text):
    for parse in (parse_target, parse_url):
        try:
            target = parse(text)
        except HostNotUnderstood:
            continue
        assert parse_target(str(target)) == target


@given(st.ip_addresses(v=4))
def test_every_spelling_of_an_ipv4_address_is_that_address(address):
    number = int(address)
    parts = list(address.packed)
    spellings = [
        str(number),
        hex(number),
        hex(number).upper().replace("X", "x"),
        f"0{number:o}",
        ".".join(hex(part) for part in parts),
        ".".join(f"0{part:o}" for part in parts),
        f"{parts[0]}.{number & 0xFFFFFF}",
        f"{parts[0]}.{parts[1]}.{number & 0xFFFF}",
        f"{address}.",
        "".join(chr(ord(sign) + 0xFEE0) if sign.isdigit() else "。" for sign in str(address)),
        f"::ffff:{address}",
        f"[::ffff:{address}]",
    ]
    assert {normalise(spelling) for spelling in spellings} == {str(address)}
    assert address_of(str(address)) == address


@pytest.mark.parametrize(
    ("given_host", "expected"),
    [
        ("Example.COM", "example.com"),
        ("example.com.", "example.com"),
        ("BÜCHER.example", "xn--bcher-kva.example"),
        ("xn--bcher-kva.example", "xn--bcher-kva.example"),
        ("straße.example", "xn--strae-oqa.example"),
        ("ex\u00adample.com", "example.com"),
        ("example。com", "example.com"),
        ("\u212aagura.example", "kagura.example"),
        ("r3---sn-4g5.example", "r3---sn-4g5.example"),
        ("_dmarc.example", "_dmarc.example"),
        ("127.1", "127.0.0.1"),
        ("0", "0.0.0.0"),
        ("[2001:DB8:0:0::1]", "2001:db8::1"),
        ("2001:db8::1", "2001:db8::1"),
        ("1.2.3.example4", "1.2.3.example4"),
    ],
)
def test_spellings_meet_in_one(given_host, expected):
    assert normalise(given_host) == expected


@pytest.mark.parametrize(
    "host",
    [
        "",
        ".",
        "..",
        "a..b",
        ".a",
        "a..",
        "a b",
        " a",
        "a\t",
        "a\0.b",
        "a%2eb",
        "a/b",
        "a@b",
        "a\\b",
        "-a",
        "a-",
        "*.example",
        "1.2.3.4.5",
        "1.2.3.256",
        "256.1.1.1",
        "4294967296",
        "1.2.3.08",
        "a.b.1",
        "0x100000000",
        "fe80::1%eth0",
        "[fe80::1%25eth0]",
        "[::1",
        "::1]",
        "[1.2.3.4]",
        ":::",
        "12345::1",
        "xn--",
        "xn--a",
        "XN--BCHER-KVA0",
        "💩.example",
        "\u200d.example",
        "\ud800.example",
        "a" * 64,
        ".".join(["a" * 60] * 5),
        "9" * 5000,
        "0x" + "f" * 5000,
    ],
)
def test_what_two_programs_could_read_differently_is_refused(host):
    with pytest.raises(HostNotUnderstood):
        normalise(host)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a.example:8080", Target("a.example", 8080)),
        ("a.example", Target("a.example", 443)),
        ("[::1]:80", Target("::1", 80)),
        ("[::1]", Target("::1", 443)),
        ("0x7f.1:00080", Target("127.0.0.1", 80)),
    ],
)
def test_a_target_has_a_host_and_a_port(text, expected):
    assert parse_target(text, 443) == expected


@pytest.mark.parametrize(
    "text", ["a:0", "a:65536", "a:", "a:+80", "a: 80", "a:8e1", "a:٨٠", "a:b:1", "::1:80", "[::1]80", "[::1]:", ":80"]
)
def test_a_target_whose_port_is_none_is_refused(text):
    with pytest.raises(HostNotUnderstood):
        parse_target(text, 443)


def test_a_target_without_a_port_needs_a_default():
    with pytest.raises(HostNotUnderstood, match="names no port"):
        parse_target("a.example")
    with pytest.raises(HostNotUnderstood):
        make_target("a.example", -1)


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://A.example/x?y#z", "a.example:443"),
        ("http://a.example", "a.example:80"),
        ("wss://a.example:8443/", "a.example:8443"),
        ("https://[2001:db8::1]/", "[2001:db8::1]:443"),
        ("https://a.example?b", "a.example:443"),
    ],
)
def test_a_url_leads_to_its_host_and_port(url, expected):
    assert str(parse_url(url)) == expected


@pytest.mark.parametrize(
    "url",
    ["ftp://a", "a.example", "https:///x", "https://u@a.example", "https://a.example:443@b.example/", "//a", "https:a"],
)
def test_a_url_that_hides_where_it_leads_is_refused(url):
    with pytest.raises(HostNotUnderstood):
        parse_url(url)


def test_a_backslash_ends_the_host_of_a_url_as_it_does_in_browsers():
    assert parse_url("https://a.example\\@b.example/").host == "a.example"


def test_an_error_shows_hostile_text_in_one_short_printable_line():
    with pytest.raises(HostNotUnderstood) as caught:
        normalise("\x1b[2J\n\u202e" + "a" * 500)
    assert caught.value.message.isascii()
    assert caught.value.message.isprintable()
    assert len(caught.value.message) < 500
