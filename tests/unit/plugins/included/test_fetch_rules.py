"""What may be asked for, decided without a network: hosts, URLs, redirects, headers, rates, budgets, keeping."""

import pytest

from kagura_kernel.plugins.sdk import ArgumentRefused, ConfigRefused, LimitReached, NetworkRefused
from kagura_kernel.plugins.sdk.allowing import MAX_URL, AllowList, Url, follow, parse_url
from kagura_kernel.plugins.sdk.https import checked_headers, for_another_host
from kagura_kernel.plugins.sdk.limits import Budget, Rate
from kagura_kernel.plugins.sdk.wire import MAX_ENTRIES, Cache, Fetched, seconds_to_keep

# ------------------------------------------------------------------------ hosts


@pytest.mark.parametrize(
    ("entry", "host", "admitted"),
    [
        ("example.com", "example.com", True),
        ("example.com", "api.example.com", True),
        ("example.com", "a.b.c.example.com", True),
        ("example.com", "badexample.com", False),
        ("example.com", "example.com.evil.org", False),
        ("example.com", "example.co", False),
        ("example.com", "com", False),
        (" Example.COM ", "example.com", True),
        ("*.example.com", "api.example.com", True),
        ("*.example.com", "example.com", False),
        ("*.example.com", "a.b.example.com", False),
        ("*.example.com", "xexample.com", False),
        ("api.example.com", "example.com", False),
        ("example.com", "EXAMPLE.com", False),
        ("example.com", "example.com.", False),
        ("example.com", ".example.com", False),
        ("example.com", "*.example.com", False),
        ("example.com", "a_b.example.com", False),
        ("example.com", "1.2.3.4", False),
    ],
)
def test_a_listed_name_admits_itself_and_below_and_a_star_one_level(entry, host, admitted):
    assert AllowList([entry]).admits(host) is admitted


@pytest.mark.parametrize(
    "entry",
    [
        *(
            "* *.* *.com *.*.example.com a.*.com api*.example.com *example.com **.example.com example.* com "
            "localhost . .com example.com. example..com https://example.com example.com/path example.com:443 "
            "example.com:8443 user@example.com 1.2.3.4 127.1 [::1] ::1 0x7f.1 example.0x1 exämple.com "
            "-a.example.com"
        ).split(),
        "",
        "example.com\n.evil.org",
        "a" * 64 + ".com",
        ".".join(["a" * 60] * 5),
    ],
)
def test_what_is_wider_than_one_level_or_no_name_cannot_be_listed(entry):
    with pytest.raises(ConfigRefused, match=r"\*\.example\.com for one level"):
        AllowList(["example.org", entry])


# ------------------------------------------------------------------------- URLs


@pytest.mark.parametrize(
    ("text", "host", "target"),
    [
        ("https://example.com", "example.com", "/"),
        ("https://example.com:443/a?b=c#d", "example.com", "/a?b=c"),
        ("HTTPS://API.Example.com/A", "api.example.com", "/A"),
        ("https://example.com?q=1", "example.com", "/?q=1"),
        ("https://example.com/a@b:c//d/%20?@=:", "example.com", "/a@b:c//d/%20?@=:"),
        ("https://xn--exmple-cua.com/", "xn--exmple-cua.com", "/"),
        ("https://example.com/https://127.0.0.1/", "example.com", "/https://127.0.0.1/"),
    ],
)
def test_a_plain_url_is_read(text, host, target):
    assert parse_url(text) == Url(host, target)


NOWHERE = (
    "http://example.com/ ftp://example.com/ file:///etc/passwd javascript:alert(1) //example.com/ example.com "
    "https:example.com https:/example.com https:///example.com https:// https://example.com:80/ "
    "https://example.com:8443/ https://example.com:/ https://example.com:0443/ https://example.com:443:443/ "
    "https://user@example.com/ https://user:password@example.com/ https://@example.com/ "
    "https://:@example.com/ https://example.com@evil.org/ https://evil.org:443@example.com/ "
    "https://127.0.0.1/ https://127.1/ https://2130706433/ https://0x7f000001/ https://0x7f.0.0.1/ "
    "https://0177.0.0.1/ https://0/ https://169.254.169.254/latest/meta-data/ https://1.1.1.1.1/ "
    "https://example.com.1/ https://[::1]/ https://[::ffff:127.0.0.1]/ https://[64:ff9b::7f00:1]/ "
    "https://[fe80::1%25eth0]/ https://localhost/ https://kubernetes/ https://com/ https://example.com./ "
    "https://.example.com/ https://example..com/ https://*.example.com/ https://exa%6Dple.com/ "
    "https://example.com%2f@evil.org/ https://example.com%00.evil.org/ https://-example.com/ "
    "https://a_b.example.com/"
).split()


@pytest.mark.parametrize("text", NOWHERE)
def test_what_leads_elsewhere_is_refused_with_the_one_text(text):
    with pytest.raises(NetworkRefused) as refused:
        parse_url(text)
    assert str(refused.value) == str(NetworkRefused())


@pytest.mark.parametrize(
    "text",
    [
        *(
            "https://exämple.com/ https://example.com/ä https://ｅxample.com/ https://example。com/ "
            "https://example.com/% https://example.com/%zz https://example.com/<>"
        ).split(),
        "",
        None,
        1,
        b"https://example.com/",
        ["https://example.com/"],
        "https://example.com/ a",
        " https://example.com/",
        "https://example.com/\r\nHost: evil.org",
        "https://example.com/\t",
        "https://exa\nmple.com/",
        "https://example.com\\@evil.org/",
        "https:\\\\example.com/",
        "https://exam\u200bple.com/",
        "https://example.com/" + "a" * MAX_URL,
    ],
)
def test_what_is_no_url_is_an_argument_that_is_none(text):
    with pytest.raises(ArgumentRefused):
        parse_url(text)


def test_the_longest_url_is_taken():
    text = "https://example.com/" + "a" * (MAX_URL - 20)
    assert len(str(parse_url(text))) == len(text) == MAX_URL


@pytest.mark.parametrize(
    ("location", "expected"),
    [
        ("https://other.org/x", "https://other.org/x"),
        ("//other.org/x", "https://other.org/x"),
        ("/x", "https://example.com/x"),
        ("x", "https://example.com/a/x"),
        ("../x", "https://example.com/x"),
        ("../../../x", "https://example.com/x"),
        ("./x/./y/..", "https://example.com/a/x/"),
        ("?q=2", "https://example.com/a/b?q=2"),
        ("#top", "https://example.com/a/b?q=1"),
        ("/x?to=https://evil.org/#y", "https://example.com/x?to=https://evil.org/"),
    ],
)
def test_a_redirect_is_followed_as_written(location, expected):
    assert str(follow(Url("example.com", "/a/b?q=1"), location)) == expected


@pytest.mark.parametrize("location", [*NOWHERE[:4], *NOWHERE[6:], "", "/\r\nx", "\\\\evil.org\\x", "/" + "a" * 2048])
def test_a_redirect_elsewhere_is_refused_with_the_one_text(location):
    with pytest.raises(NetworkRefused):
        follow(Url("example.com", "/"), location)


# --------------------------------------------------------------------- headers


@pytest.mark.parametrize(
    "name",
    (
        "Host host COOKIE Cookie2 Set-Cookie Proxy-Authorization proxy-connection Proxy-Anything Connection "
        "Keep-Alive TE Trailer Transfer-Encoding Content-Length Upgrade Expect Via Forwarded X-Forwarded-For "
        "X-Forwarded-Host X-Real-IP X-Original-URL X-HTTP-Method-Override Metadata-Flavor Metadata "
        "X-aws-ec2-metadata-token X-AWS-EC2-Metadata-Token-Ttl-Seconds Accept-Encoding Origin Referer "
        "Sec-Fetch-Site"
    ).split(),
)
def test_a_header_that_decides_where_or_as_whom_may_not_be_set(name):
    with pytest.raises(ArgumentRefused, match="may not be set"):
        checked_headers({name: "x"})


@pytest.mark.parametrize(
    "headers",
    [
        {"A": "x\r\nHost: evil.org"},
        {"A": "x\ny"},
        {"A": "x\0"},
        {"A": "é"},
        {"A": 1},
        {"A": None},
        {"": "x"},
        {"A B": "x"},
        {"A:": "x"},
        {"A\r\nB": "x"},
        {"Ä": "x"},
        {1: "x"},
        {"A": "x", "a": "y"},
        {"A": "x" * 9000},
        {"a" * 65: "x"},
        {f"H{number}": "x" for number in range(33)},
        [("A", "x")],
        "A: x",
    ],
)
def test_headers_that_are_none_are_refused(headers):
    with pytest.raises(ArgumentRefused):
        checked_headers(headers)


def test_other_headers_are_taken_as_they_are():
    given = {"Authorization": "Bearer abc", "X-Api-Key": "k", "If-None-Match": '"x"', "Accept": "a/b"}
    assert checked_headers(given) == given
    assert checked_headers(None) == {}


def test_nothing_that_could_be_a_key_goes_to_another_host():
    given = {"authorization": "a", "X-Api-Key": "b", "PRIVATE-TOKEN": "c", "Accept": "d", "Content-Type": "e"}
    assert for_another_host(given) == {"Accept": "d", "Content-Type": "e"}


# -------------------------------------------------------------- rate and budget


class Seconds:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_thirty_requests_in_any_minute_and_a_hundred_in_any_hour():
    seconds = Seconds()
    rate = Rate(((30, 60.0), (100, 3600.0)), "requests", seconds)

    def burst() -> int:
        for done in range(200):
            try:
                rate.take()
            except LimitReached:
                return done
        return 200

    done = []
    for _ in range(5):
        done.append(burst())
        seconds.now += 60
    assert done == [30, 30, 30, 10, 0]
    seconds.now = 1000.0 + 3599.9
    assert burst() == 0
    seconds.now = 1000.0 + 3600
    assert burst() == 30


def test_a_window_slides_and_a_refused_request_does_not_count():
    seconds = Seconds()
    rate = Rate(((2, 60.0),), "requests", seconds)
    rate.take()
    seconds.now += 50
    rate.take()
    for _ in range(5):
        with pytest.raises(LimitReached, match=r"in 1[01] s"):
            rate.take()
    seconds.now += 10
    rate.take()
    with pytest.raises(LimitReached):
        rate.take()


def test_a_budget_is_taken_as_a_whole_or_not():
    budget = Budget(10, "bytes")
    budget.take(6)
    with pytest.raises(LimitReached, match=r"10 bytes is reached \(4 left\)"):
        budget.take(5)
    budget.take(4)
    budget.give_back(1)
    assert budget.left == 1


# --------------------------------------------------------------------- keeping


def answer(control: str = "max-age=60", status: int = 200, vary: str = "", body: bytes = b"x") -> Fetched:
    return Fetched(status, "OK", {"cache-control": control, "vary": vary}, body)


@pytest.mark.parametrize(
    ("kept", "seconds"),
    [
        (answer(), 60),
        (answer("public, MAX-AGE=60"), 60),
        (answer("max-age=99999"), 300),
        (answer("max-age=60", vary="Accept-Encoding"), 60),
        (answer(""), 0),
        (answer("max-age=0"), 0),
        (answer("max-age=-1"), 0),
        (answer("max-age=x"), 0),
        (answer("max-age=²"), 0),
        (answer("max-age=" + "9" * 100), 0),
        (answer("no-store, max-age=60"), 0),
        (answer("private, max-age=60"), 0),
        (answer('private="x", max-age=60'), 0),
        (answer("no-cache, max-age=60"), 0),
        (answer(vary="*"), 0),
        (answer(vary="Cookie"), 0),
        (answer(status=404), 0),
        (answer(status=301), 0),
    ],
)
def test_only_what_a_server_allows_anybody_is_kept(kept, seconds):
    assert seconds_to_keep(kept) == seconds


def test_what_is_kept_ages_and_makes_room():
    seconds = Seconds()
    cache = Cache(seconds)
    cache.put(("a", ""), answer())
    found = cache.get(("a", ""))
    assert found is not None
    assert found.cached
    seconds.now += 60
    assert cache.get(("a", "")) is None
    for number in range(MAX_ENTRIES + 1):
        cache.put((str(number), ""), answer())
    assert cache.get(("0", "")) is None
    assert cache.get(("1", "")) is not None
    for number in range(9):
        cache.put((f"big{number}", ""), answer(body=b"x" * 2**19))
    assert cache.get(("big0", "")) is None
    assert cache.get(("big8", "")) is not None
