"""`fetch` through the membrane: what it gets, what it may not get, and that nobody can tell why."""

import asyncio
import base64
from itertools import count

import pytest

from kagura_kernel.domain.events import EgressDecided
from kagura_kernel.plugins.permissions import NetRule
from kagura_kernel.plugins.sdk import (
    ArgumentRefused,
    ConfigRefused,
    LimitReached,
    NetworkRefused,
    ResponseRefused,
    TooLarge,
)
from kagura_kernel.plugins.sdk.https import AN_HOUR, MAX_REDIRECTS, MAX_RESPONSE, HttpsClient, HttpsLimits
from kagura_kernel.plugins.sdk.notes import A_MINUTE
from tests.support.included_plugins import functions_of
from tests.support.tls import authority, serving
from tests.support.upstream import Answer, RawUpstream, chunked, plain

URL = "https://api.example.com/v1/items?page=2"
PUBLIC = "93.184.216.34"
ONE_TEXT = str(NetworkRefused())


def raw(data: bytes) -> Answer:
    """These bytes, and the end of the connection."""

    async def answer(_asked, writer) -> bool:
        writer.write(data)
        await writer.drain()
        return False

    return answer


def by_path(**answers: Answer) -> Answer:
    """One answer for each first component of the path."""

    async def answer(asked, writer) -> bool:
        name = asked.target.partition("?")[0].strip("/").partition("/")[0] or "root"
        return await answers[name](asked, writer)

    return answer


def to(location: str, status: int = 302) -> Answer:
    return plain(b"never read", status, location=location)


# ------------------------------------------------------------------ what comes


async def test_an_answer_comes_with_its_head_and_text(rig):
    async with rig(plain('{"größe": 1}'.encode(), 201, content_type="application/json", set_cookie="a=b")) as one:
        answer = await one.fetch(one.client(), URL, headers={"Authorization": "Bearer abc"})
    assert answer["status"] == 201
    assert answer["text"] == '{"größe": 1}'
    assert answer["headers"] == {"content-length": "14", "content-type": "application/json"}
    assert (answer["url"], answer["redirects"], answer["cached"]) == (URL, 0, False)
    (asked,) = one.server.asked
    assert (asked.method, asked.target) == ("GET", "/v1/items?page=2")
    assert asked.header("host") == "api.example.com"
    assert asked.header("authorization") == "Bearer abc"
    assert asked.header("accept-encoding") == "identity"
    assert one.internet.dialled == [f"{PUBLIC}:443"]


async def test_a_body_goes_out_where_its_method_is_configured(rig):
    async with rig() as one:
        client = one.client(methods=("GET", "POST"))
        await one.fetch(client, URL, "POST", {"Content-Type": "application/json"}, '{"a": "ä"}')
        with pytest.raises(ArgumentRefused, match="GET, POST"):
            await one.fetch(client, URL, "DELETE")
        with pytest.raises(ArgumentRefused, match="no body"):
            await one.fetch(client, URL, "GET", None, "x")
        for method in ("TRACE", "CONNECT", "get", "GET / HTTP/1.1\r\nX: ", None, 1):
            with pytest.raises(ArgumentRefused):
                await one.fetch(client, URL, method)
    (asked,) = one.server.asked
    assert asked.body.decode() == '{"a": "ä"}'
    assert asked.header("content-length") == "11"


async def test_head_has_no_body(rig):
    async with rig(raw(b"HTTP/1.1 200 OK\r\ncontent-length: 9999999\r\n\r\n")) as one:
        assert (await one.fetch(one.client(), URL, "HEAD"))["text"] == ""


@pytest.mark.parametrize("body", [b"\xff\xfe", b"a\0b", b"\x1b[2J", b"caf\xe9"])
async def test_what_is_no_plain_text_comes_in_base64(body, rig):
    async with rig(plain(body)) as one:
        answer = await one.fetch(one.client(), URL)
    assert base64.b64decode(answer["base64"]) == body
    assert "text" not in answer


async def test_what_is_packed_is_not_unpacked(rig):
    async with rig(plain(b"plain after all", content_encoding="gzip")) as one:
        assert base64.b64decode((await one.fetch(one.client(), URL))["base64"]) == b"plain after all"


async def test_an_answer_in_chunks_is_put_together(rig):
    async with rig(chunked(b"one ", b"two ", b"three")) as one:
        assert (await one.fetch(one.client(), URL))["text"] == "one two three"


# -------------------------------------------------------------- what is refused

REFUSED = (
    "https://other.org/ https://example.com.evil.org/ https://127.0.0.1/ https://localhost/ "
    "http://api.example.com/ https://api.example.com:8443/ https://user:pass@api.example.com/ "
    "https://private.example.com/ https://unknown.example.com/ https://closed.example.com/ "
    "https://impostor.example.com/ https://plain.example.com/ https://outside-of-the-jail.org/"
).split()


@pytest.mark.parametrize("url", REFUSED)
async def test_every_refusal_of_the_network_reads_the_same(url, rig, capfd):
    async with rig() as one, RawUpstream() as without_tls:
        one.internet.names |= {
            "private.example.com": [["10.0.0.1"]],
            "closed.example.com": [["93.184.216.35"]],
            "impostor.example.com": [[PUBLIC]],
            "plain.example.com": [["93.184.216.36"]],
        }
        one.internet.servers["93.184.216.36"] = without_tls.port
        with pytest.raises(NetworkRefused) as refused:
            # The list of the plugin is wider than its jail here: the membrane says no on its own.
            await one.fetch(one.client("example.com", "outside-of-the-jail.org"), url)
        assert one.server.asked == []
        assert without_tls.asked == []
    assert str(refused.value) == ONE_TEXT
    assert refused.value.__cause__ is None
    # The person who looks into the log sees more, but neither path nor query.
    assert "v1" not in capfd.readouterr().err


async def test_the_log_says_why(rig, capfd):
    async with rig() as one:
        one.internet.names["impostor.example.com"] = [[PUBLIC]]
        for url in (
            "https://other.org/secret",
            "https://impostor.example.com/secret",
            "https://gone.example.com/secret",
        ):
            with pytest.raises(NetworkRefused):
                await one.fetch(one.client(), url)
    log = capfd.readouterr().err
    assert "other.org: it is not listed" in log
    assert "impostor.example.com: its certificate is not believed" in log
    assert "gone.example.com: the membrane says:" in log
    assert "secret" not in log


async def test_the_log_is_not_filled_by_whoever_asks_without_end(rig, capfd):
    async with rig() as one:
        client = one.client(now=lambda: 1000.0)
        for _ in range(200):
            with pytest.raises(NetworkRefused):
                await one.fetch(client, "https://other.org/")
    assert len(capfd.readouterr().err.splitlines()) == A_MINUTE


ADDRESSES = [
    *(
        "0.0.0.0 10.1.2.3 100.64.0.1 100.100.100.200 127.0.0.1 127.255.255.254 168.63.129.16 169.254.169.254 "
        "169.254.170.2 172.16.0.1 172.31.255.255 192.0.0.192 192.0.2.1 192.88.99.1 192.168.1.1 198.18.0.1 "
        "198.51.100.1 203.0.113.1 224.0.0.1 240.0.0.1 255.255.255.255 :: ::1 ::127.0.0.1 ::ffff:127.0.0.1 "
        "::ffff:93.184.216.34 64:ff9b::7f00:1 64:ff9b::a9fe:a9fe 64:ff9b:1::1 100::1 2001::1 2001:db8::1 "
        "2002:7f00:1:: 2002:a00:1::1 3fff::1 5f00::1 fc00::1 fd00:ec2::254 fe80::1 fec0::1 ff02::1"
    ).split(),
    "no address at all",
]


@pytest.mark.parametrize("address", ADDRESSES)
async def test_a_listed_name_that_leads_inside_is_refused(address, rig):
    async with rig() as one:
        one.internet.names["inside.example.com"] = [[address]]
        one.internet.servers[address] = one.server.port
        with pytest.raises(NetworkRefused):
            await one.fetch(one.client(), "https://inside.example.com/")
        assert one.internet.looked_up == ["inside.example.com"]
        assert one.internet.dialled == []
    assert [fact.allowed for fact in one.internet.records if isinstance(fact, EgressDecided)] == [False]


@pytest.mark.parametrize("other", ["127.0.0.1", "10.0.0.1", "::1", "64:ff9b::7f00:1", "::ffff:10.0.0.1"])
async def test_one_answer_that_is_not_public_speaks_against_all_of_them(rig, other):
    async with rig() as one:
        one.internet.names["api.example.com"] = [[PUBLIC, other]]
        with pytest.raises(NetworkRefused):
            await one.fetch(one.client(), URL)
    assert one.internet.dialled == []


async def test_a_name_that_changes_its_mind_is_looked_up_once_and_dialled_as_checked(rig):
    async with rig() as one:
        one.internet.names["api.example.com"] = [[PUBLIC], ["127.0.0.1"]]
        assert (await one.fetch(one.client(), URL))["status"] == 200
        assert (one.internet.looked_up, one.internet.dialled) == (["api.example.com"], [f"{PUBLIC}:443"])
        with pytest.raises(NetworkRefused):
            await one.fetch(one.client(), URL)
    assert one.internet.dialled == [f"{PUBLIC}:443"]


async def test_a_name_that_is_not_listed_is_never_looked_up(rig):
    async with rig() as one:
        for url in ("https://secret-words.evil.org/", "https://a.b.example.com/"):
            with pytest.raises(NetworkRefused):
                await one.fetch(one.client("*.example.com"), url)
    assert one.internet.looked_up == []
    assert one.internet.records == []


async def test_without_a_proxy_there_is_no_way_out(rig, monkeypatch):
    for value in (
        None,
        "",
        "http://10.0.0.1:3128",
        "http://evil.org:80",
        "https://127.0.0.1:1",
        "http://127.0.0.1:99999",
    ):
        monkeypatch.delenv("HTTPS_PROXY", raising=False)
        if value is not None:
            monkeypatch.setenv("HTTPS_PROXY", value)
        with pytest.raises(NetworkRefused):
            HttpsClient(["example.com"]).fetch(URL)
    async with rig() as one:
        monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{one.port}")
        # The way is there now, and the certificate of the test's authority is still not believed.
        with pytest.raises(NetworkRefused):
            await one.fetch(HttpsClient(["example.com"]), URL)
        assert one.internet.dialled == [f"{PUBLIC}:443"]
        assert one.server.asked == []


async def test_the_environment_does_not_say_whom_to_believe(rig, monkeypatch, tmp_path):
    bundle = tmp_path / "bundle.pem"
    bundle.write_bytes(authority())
    keys = tmp_path / "keys"
    for name in ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
        monkeypatch.setenv(name, str(bundle))
    monkeypatch.setenv("SSL_CERT_DIR", str(tmp_path))
    monkeypatch.setenv("SSLKEYLOGFILE", str(keys))
    async with rig() as one:
        with pytest.raises(NetworkRefused):
            await one.fetch(HttpsClient(["example.com"], proxy=one.port), URL)
        await one.fetch(one.client(), URL)
    assert not keys.exists()


# --------------------------------------------------------------------- redirects


async def test_redirects_are_followed_up_to_five(rig):
    async def answer(asked, writer) -> bool:
        number = int(asked.target[1:])
        return await (plain(b"there") if number >= 9 else to(f"/{number + 1}"))(asked, writer)

    async with rig(answer) as one:
        found = await one.fetch(one.client(), f"https://api.example.com/{9 - MAX_REDIRECTS}")
        assert (found["text"], found["redirects"], found["url"]) == ("there", 5, "https://api.example.com/9")
        with pytest.raises(ResponseRefused, match="5 times"):
            await one.fetch(one.client(), f"https://api.example.com/{8 - MAX_REDIRECTS}")
        assert len(one.server.asked) == 6 + 6


@pytest.mark.parametrize(
    "location",
    [
        *(
            "http://api.example.com/ https://other.org/ https://169.254.169.254/latest/meta-data/ "
            "https://api.example.com:8443/ https://user@api.example.com/ //evil.org/ "
            "https://api.example.com@evil.org/ file:///etc/passwd https://inside.example.com/"
        ).split(),
        "https:\\\\evil.org",
    ],
)
async def test_each_redirect_is_checked_anew(location, rig):
    async with rig(by_path(start=to(location), root=plain(b"reached"))) as one:
        one.internet.names |= {"inside.example.com": [["127.0.0.1"]], "evil.org": [[PUBLIC]], "other.org": [[PUBLIC]]}
        with pytest.raises(NetworkRefused) as refused:
            await one.fetch(one.client(), "https://api.example.com/start")
    assert str(refused.value) == ONE_TEXT
    assert [asked.target for asked in one.server.asked] == ["/start"]


async def test_a_redirect_is_checked_by_the_plugin_too_and_not_by_the_membrane_alone(rig):
    rules = (NetRule("name", "example.com", 443), NetRule("name", "other.org", 443))
    async with rig(to("https://other.org/"), rules=rules) as one:
        one.internet.names["other.org"] = [[PUBLIC]]
        with pytest.raises(NetworkRefused):
            await one.fetch(one.client("example.com"), "https://api.example.com/start")
    assert one.internet.looked_up == ["api.example.com"]


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_keys_stay_with_the_host_that_they_were_given_to(status, rig):
    given = {"Authorization": "Bearer abc", "X-Api-Key": "def", "Accept": "text/plain"}
    async with (
        rig(by_path(start=to("/same", status), same=to("https://cdn.example.com/other", status))) as one,
        RawUpstream(tls=serving("cdn.example.com")) as other,
    ):
        one.internet.names["cdn.example.com"] = [["93.184.216.40"]]
        one.internet.servers["93.184.216.40"] = other.port
        await one.fetch(one.client(), "https://api.example.com/start", headers=given)
        assert [asked.header("authorization") for asked in one.server.asked] == ["Bearer abc"] * 2
        (asked,) = other.asked
    assert asked.header("accept") == "text/plain"
    assert (asked.header("authorization"), asked.header("x-api-key")) == ("", "")


@pytest.mark.parametrize(("status", "method"), [(301, "GET"), (302, "GET"), (303, "GET"), (307, "POST"), (308, "POST")])
async def test_a_body_is_sent_again_only_where_the_server_asks_for_it(status, method, rig):
    async with rig(by_path(start=to("/end", status), end=plain(b"done"))) as one:
        await one.fetch(
            one.client(methods=("GET", "POST")),
            "https://api.example.com/start",
            "POST",
            {"Content-Type": "text/csv"},
            "body",
        )
        last = one.server.asked[-1]
    assert (last.method, last.body) == (method, b"body" if method == "POST" else b"")
    assert bool(last.header("content-type")) is (method == "POST")


async def test_a_redirect_does_not_lead_to_a_method_that_is_not_configured(rig):
    async with rig(by_path(start=to("/end", 303), end=plain(b"done"))) as one:
        with pytest.raises(NetworkRefused):
            await one.fetch(one.client(methods=("POST",)), "https://api.example.com/start", "POST", None, "x")
        assert len(one.server.asked) == 1


# ------------------------------------------------------------------------- limits


async def test_an_answer_of_a_mebibyte_is_taken_and_one_byte_more_is_not(rig):
    async with rig(plain(b"x" * MAX_RESPONSE)) as one:
        assert len((await one.fetch(one.client(), URL))["text"]) == MAX_RESPONSE
        one.server.answer = plain(b"x" * (MAX_RESPONSE + 1))
        with pytest.raises(TooLarge, match="1,048,577"):
            await one.fetch(one.client(), URL)
        one.server.answer = chunked(*[b"x" * 65536] * 17)
        with pytest.raises(TooLarge):
            await one.fetch(one.client(), URL)


async def test_all_answers_together_keep_to_the_budget(rig):
    async with rig(plain(b"x" * MAX_RESPONSE)) as one:
        client = one.client()
        for _ in range(2):
            await one.fetch(client, URL)
        for _ in range(2):
            with pytest.raises(LimitReached, match="2,097,152 bytes"):
                await one.fetch(client, URL)
        one.server.answer = plain(b"")
        assert (await one.fetch(client, URL))["text"] == ""


async def test_what_is_sent_and_what_was_too_large_counts_too(rig):
    async with rig(chunked(*[b"x" * 1024] * 3)) as one:
        client = one.client(methods=("POST",), limits=HttpsLimits(response_bytes=2048, total_bytes=6 * 1024))
        with pytest.raises(TooLarge):
            await one.fetch(client, URL, "POST", None, "y" * 2048)
        with pytest.raises(LimitReached):
            await one.fetch(client, URL, "POST", None, "y" * 2048)
    assert len(one.server.asked) == 1


async def test_requests_keep_to_the_rate_and_refused_ones_do_not_count(rig):
    async with rig(by_path(v1=plain(b"ok"), start=to("/v1"))) as one:
        client = one.client(now=lambda: 1000.0)
        for _ in range(40):
            with pytest.raises(NetworkRefused):
                await one.fetch(client, "https://other.org/")
        for _ in range(14):
            await one.fetch(client, "https://api.example.com/start")
        for _ in range(2):
            await one.fetch(client, URL)
        with pytest.raises(LimitReached, match="30 requests in 60 s"):
            await one.fetch(client, URL)
        assert len(one.server.asked) == 30


async def test_limits_cannot_be_raised(rig):
    async with rig(plain(b"x" * (MAX_RESPONSE + 1))) as one:
        client = one.client(limits=HttpsLimits(2**30, 2**30, 10_000, 10_000), now=lambda: 1000.0)
        with pytest.raises(TooLarge):
            await one.fetch(client, URL)
        one.server.answer = plain(b"")
        for _ in range(29):
            await one.fetch(client, URL)
        with pytest.raises(LimitReached, match="30 requests"):
            await one.fetch(client, URL)
    assert AN_HOUR == 100


async def test_a_server_that_drips_is_cut_at_the_deadline(rig):
    async def drip(_asked, writer) -> bool:
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n")
        for _ in range(100_000):
            writer.write(b"x")
            await writer.drain()
        return False

    # A second for every look at the time.
    seconds = count(1000)
    async with rig(drip) as one:
        with pytest.raises(NetworkRefused):
            await one.fetch(one.client(now=lambda: float(next(seconds))), URL)
        assert len(one.server.asked) == 1
    assert next(seconds) < 1100


async def test_a_server_that_is_silent_is_left_at_the_deadline(rig):
    over = asyncio.Event()

    async def silent(_asked, _writer) -> bool:
        await over.wait()
        return False

    async with rig(silent) as one:
        with pytest.raises(NetworkRefused):
            await one.fetch(one.client(limits=HttpsLimits(seconds=0.2), now=lambda: 1000.0), URL)
        over.set()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"no http at all\r\n\r\n",
        b"HTTP/1.1 abc OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nshort",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nabc",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\nabc\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n-5\r\nabc\r\n0\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\nupgrade: h2c\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 200 + b"\r\n",
        b"HTTP/1.1 200 OK\r\na: " + b"x" * 100_000 + b"\r\n\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\n" * 100_000,
    ],
    ids=lambda data: data[:40].decode("latin-1").strip() or "nothing",
)
async def test_an_answer_that_is_none_is_told_so(data, rig):
    async with rig(raw(data)) as one:
        with pytest.raises((ResponseRefused, NetworkRefused)):
            await one.fetch(one.client(), URL)


# ------------------------------------------------------------------------ keeping


async def test_what_may_be_kept_is_asked_for_once(rig):
    now = [1000.0]
    async with rig(plain(b"kept", cache_control="max-age=60")) as one:
        client = one.client(now=lambda: now[0])
        first, second = [await one.fetch(client, URL) for _ in range(2)]
        assert (first["cached"], second["cached"], second["text"]) == (False, True, "kept")
        await one.fetch(client, URL, headers={"Authorization": "Bearer abc"})
        await one.fetch(client, URL, "HEAD")
        now[0] += 60
        await one.fetch(client, URL)
        assert [asked.method for asked in one.server.asked] == ["GET", "GET", "HEAD", "GET"]


async def test_the_list_comes_before_what_was_kept(rig):
    async with rig(plain(b"kept", cache_control="max-age=60")) as one:
        client = one.client("example.com")
        await one.fetch(client, URL)
        other = one.client("example.org")
        other._cache = client._cache
        with pytest.raises(NetworkRefused):
            await one.fetch(other, URL)
        assert (await one.fetch(client, URL))["cached"]


# ------------------------------------------------------------------------ the jail


@pytest.mark.parametrize(
    ("kind", "host", "reached"),
    [
        ("name", "example.com", True),
        ("one-level", "example.com", True),
        ("exact", "api.example.com", True),
        ("name", "org", False),
        ("one-level", "api.example.com", False),
        ("exact", "example.com", False),
    ],
)
async def test_the_membrane_decides_by_the_same_words(kind, host, reached, rig):
    async with rig(rules=(NetRule(kind, host, 443),)) as one:
        if reached:
            assert (await one.fetch(one.client(), URL))["status"] == 200
        else:
            with pytest.raises(NetworkRefused):
                await one.fetch(one.client(), URL)
            assert one.internet.looked_up == []


def test_a_configuration_that_is_none_is_refused():
    for config in (
        {},
        {"allowed_domains": []},
        {"allowed_domains": "example.com"},
        {"allowed_domains": ["*"]},
        {"allowed_domains": ["example.com"], "methods": ["TRACE"]},
        {"allowed_domains": ["example.com"], "max_total_kib": 2049},
        {"allowed_domains": ["example.com"], "requests_a_minute": 31},
        {"allowed_domains": ["example.com"], "requests_an_hour": 101},
        {"allowed_domains": ["example.com"], "timeout_seconds": 0},
    ):
        with pytest.raises(ConfigRefused):
            functions_of("fetch", config)
    assert set(functions_of("fetch", {"allowed_domains": ["example.com"]})) == {"get", "fetch"}
