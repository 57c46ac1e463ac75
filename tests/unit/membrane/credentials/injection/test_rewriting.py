import pytest

from kagura_kernel.membrane.credentials.injection.upstream import Upstream, incoming, outgoing

API = Upstream.parse("https://api.example.com/client/v4")
ROOT = Upstream.parse("https://[2606:4700::1]:8443")
BASE = "http://127.0.0.1:4000"


@pytest.mark.parametrize(
    ("url", "inside"),
    [
        ("https://api.example.com/client/v4/zones?page=2", f"{BASE}/zones?page=2"),
        ("https://API.example.com:443/client/v4", f"{BASE}/"),
        ("/client/v4/zones", f"{BASE}/zones"),
        ("next?page=2", f"{BASE}/list/next?page=2"),
        ("?page=2", f"{BASE}/list/here?page=2"),
        ("../up", f"{BASE}/up"),
        ("/client/v4other", "https://api.example.com/client/v4other"),
        ("/elsewhere", "https://api.example.com/elsewhere"),
        ("http://api.example.com/client/v4/zones", "http://api.example.com/client/v4/zones"),
        ("https://api.example.com:444/client/v4/zones", "https://api.example.com:444/client/v4/zones"),
        ("https://api.example.com.evil.example/client/v4/", "https://api.example.com.evil.example/client/v4/"),
        ("https://me@api.example.com/client/v4/", "https://me@api.example.com/client/v4/"),
        ("//evil.example/client/v4/", "//evil.example/client/v4/"),
        ("https://[broken", "https://[broken"),
    ],
)
def test_only_what_lies_below_the_upstream_is_moved_inside(url: str, inside: str) -> None:
    assert API.inside(url, b"/client/v4/list/here?page=1", BASE) == inside


def test_an_upstream_knows_its_own_names() -> None:
    assert (API.authority, API.target, API.path(b"/x?y")) == (
        "api.example.com",
        "api.example.com:443",
        b"/client/v4/x?y",
    )
    assert (ROOT.authority, ROOT.path(b"/x")) == ("[2606:4700::1]:8443", b"/x")


def test_a_length_survives_a_connection_header_that_names_it() -> None:
    sent = outgoing(
        [(b"connection", b"content-length, host"), (b"content-length", b"3"), (b"host", b"127.0.0.1:1")],
        API,
        (b"authorization", b"Bearer x"),
    )
    assert [pair for pair in sent if pair[0] in {b"content-length", b"host"}] == [
        (b"host", b"api.example.com"),
        (b"content-length", b"3"),
    ]


def test_an_answer_loses_what_is_for_one_hop_or_would_outlive_the_lease() -> None:
    given = [
        (b"connection", b"close, x-hop"),
        (b"x-hop", b"1"),
        (b"transfer-encoding", b"chunked"),
        (b"set-cookie", b"a=b"),
        (b"alt-svc", b"h3=:443"),
        (b"proxy-authenticate", b"Basic"),
        (b"etag", b"abc"),
    ]
    assert incoming(given, API, b"/", BASE, lambda data: data) == [(b"etag", b"abc")]


@pytest.mark.parametrize(
    "name",
    [
        "X-Original-URL",
        "X-Original-Host",
        "X-Rewrite-URL",
        "X_Rewrite_URL",
        "X-HTTP-Method-Override",
        "X-HTTP-Method",
        "X-Method-Override",
        "Forwarded",
        "X-Forwarded-Host",
        "X_Forwarded_For",
        "X-Real-IP",
        "Request-Range",
        "Range",
        "Accept-Charset",
    ],
)
def test_what_would_make_another_request_of_it_is_not_sent(name: str) -> None:
    given = [(name.lower().encode(), b"mine"), (b"x-mine", b"kept")]
    sent = outgoing(given, API, (b"authorization", b"Bearer x"))
    assert b"mine" not in [value for _, value in sent]
    assert (b"x-mine", b"kept") in sent


@pytest.mark.parametrize("injected", [b"x-api-key", b"x_api_key"])
@pytest.mark.parametrize("given", [b"x-api-key", b"x_api_key", b"x-api_key"])
def test_no_spelling_of_the_injected_header_leaves_the_box_beside_it(injected: bytes, given: bytes) -> None:
    sent = outgoing([(given, b"somebody else's")], API, (injected, b"ours"))
    assert [value for name, value in sent if name.replace(b"_", b"-") == b"x-api-key"] == [b"ours"]
