import asyncio
import base64
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from kagura_kernel.domain.errors import JournalUnwritable
from kagura_kernel.membrane.credentials.injection.caller import InjectionLimits
from kagura_kernel.membrane.credentials.injection.settings import HeaderInjection
from kagura_kernel.testing.patience import eventually
from tests.support import tls
from tests.support.injection_rig import InjectionRig
from tests.support.upstream import Answer, Asked, RawUpstream, chunked, plain

SECRET = "secret-of-handle-1"


def header(upstream: RawUpstream, **more: Any) -> HeaderInjection:
    return HeaderInjection(upstream=upstream.url + more.pop("prefix", ""), **more)


def client(**more: Any) -> httpx.AsyncClient:
    return httpx.AsyncClient(trust_env=False, timeout=30, **more)


async def say(port: int, data: bytes) -> bytes:
    """Everything that is answered to these bytes until the connection ends; b"reset" at the end of one that was cut."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    got = b""
    try:
        writer.write(data)
        await writer.drain()
        async with asyncio.timeout(30):
            while piece := await reader.read(65536):
                got += piece
    except ConnectionError:
        got += b"reset"
    finally:
        writer.transport.abort()
    return got


@asynccontextmanager
async def served(
    tmp_path: Path, answer: Any = None, limits: InjectionLimits | None = None, **injection: Any
) -> AsyncIterator[tuple[RawUpstream, InjectionRig]]:
    """An upstream, and a rig whose one lease leads there and is open."""
    async with (
        RawUpstream(*filter(None, [answer])) as upstream,
        InjectionRig(tmp_path, header(upstream, **injection), limits=limits) as rig,
    ):
        await rig.open()
        yield upstream, rig


async def ask(rig: InjectionRig, method: str = "GET", path: str = "/", **more: Any) -> httpx.Response:
    async with client() as http:
        return await http.request(method, rig.urls[0] + path, **more)


def port_of(rig: InjectionRig) -> int:
    return int(rig.urls[0].rpartition(":")[2])


# ------------------------------------------------------------------ what passes


async def test_a_request_gets_the_header_on_its_way_out_and_nothing_of_it_comes_back(tmp_path):
    async with RawUpstream() as upstream, InjectionRig(tmp_path, header(upstream, prefix="/api/v1")) as rig:
        lease = await rig.open()
        answer = await ask(rig, "POST", "/things?token=query", content=b"body", headers={"x-mine": "1"})
        assert (answer.status_code, answer.content) == (200, b"ok")
        (asked,) = upstream.asked
        assert (asked.method, asked.target, asked.body) == ("POST", "/api/v1/things?token=query", b"body")
        assert asked.header("authorization") == f"Bearer {SECRET}"
        assert asked.header("host") == f"127.0.0.1:{upstream.port}"
        assert asked.header("x-mine") == "1"
        (record,) = await rig.recorded()
        assert (record.lease_id, record.provider, record.scope) == (lease.id, "fake", "read")
        assert (record.method, record.path, record.status, record.ended) == ("POST", "/things", 200, "done")
        assert (record.bytes_out, record.bytes_in) == (4, 2)
        assert "query" not in repr(record)
        assert rig.failures == []


async def test_what_a_program_sends_in_the_headers_place_is_taken_out(tmp_path):
    async with served(tmp_path, header="x-api-key") as (upstream, rig):
        sent = {
            "X-Api-Key": "mine",
            "X_Api_Key": "mine",
            "Authorization": "Bearer mine",
            "Proxy-Authorization": "Basic mine",
            "Cookie": "mine",
            "Range": "bytes=0-1",
            "Request-Range": "bytes=0-3; mine",
            "Accept-Charset": "utf-16, mine",
            "X-Original-URL": "/mine",
            "X-HTTP-Method-Override": "mine",
            "X-Forwarded-Host": "mine",
            "Forwarded": "host=mine",
            "Accept-Encoding": "gzip, br",
            "Connection": "keep-alive, X-Private",
            "X-Private": "mine",
            "TE": "trailers",
        }
        await ask(rig, headers=sent)
        (asked,) = upstream.asked
        assert "mine" not in repr(asked.headers)
        assert asked.header("x-api-key") == SECRET
        assert asked.header("accept-encoding") == "identity"
        assert asked.header("range") == ""


async def test_basic_makes_the_secret_the_password(tmp_path):
    async with served(tmp_path, basic_user="x-access-token") as (upstream, rig):
        await ask(rig)
        sort, _, pair = upstream.asked[0].header("authorization").partition(" ")
        assert (sort, base64.b64decode(pair).decode()) == ("Basic", f"x-access-token:{SECRET}")


async def test_a_connection_is_kept_for_several_requests_on_both_sides(tmp_path):
    async with served(tmp_path) as (upstream, rig):
        request = f"GET /a HTTP/1.1\r\nHost: 127.0.0.1:{port_of(rig)}\r\n\r\n".encode()
        last = request.replace(b"/a", b"/b").replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
        got = await say(port_of(rig), request + request + last)
        assert got.count(b"HTTP/1.1 200") == 3
        assert [asked.target for asked in upstream.asked] == ["/a", "/a", "/b"]
        assert upstream.connections == 1


async def test_chunks_pass_both_ways(tmp_path):
    async def pieces() -> Any:
        for number in range(50):
            yield b"%d," % number

    async with served(tmp_path, chunked(b"one", b"two", b"three")) as (upstream, rig):
        answer = await ask(rig, "PUT", content=pieces())
        assert answer.content == b"onetwothree"
        assert answer.headers["transfer-encoding"] == "chunked"
        assert upstream.asked[0].body == b"".join([piece async for piece in pieces()])
        assert upstream.asked[0].header("transfer-encoding") == "chunked"


async def test_a_program_that_waits_for_a_go_ahead_gets_it(tmp_path):
    async with served(tmp_path) as (upstream, rig):
        reader, writer = await asyncio.open_connection("127.0.0.1", port_of(rig))
        head = f"POST / HTTP/1.1\r\nHost: localhost:{port_of(rig)}\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n"
        writer.write(head.encode())
        async with asyncio.timeout(30):
            assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 100")
            writer.write(b"body")
            assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200")
        writer.transport.abort()
        assert upstream.asked[0].body == b"body"
        assert upstream.asked[0].header("expect") == ""


async def test_a_large_body_passes_each_way_whole(tmp_path):
    large = bytes(range(256)) * 64 * 1024
    async with served(tmp_path, plain(large)) as (upstream, rig):
        answer = await ask(rig, "POST", content=large)
        assert answer.content == large
        assert upstream.asked[0].body == large
        (record,) = await rig.recorded()
        assert (record.bytes_out, record.bytes_in) == (len(large), len(large))


async def test_a_program_that_does_not_read_stops_the_upstream(tmp_path):
    """Memory stays flat because the upstream is not read on; what it could push is far less than all."""
    total, sent = 400, 0
    piece = b"x" * 256 * 1024

    async def endless(_asked: Asked, writer: asyncio.StreamWriter) -> bool:
        nonlocal sent
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % (total * len(piece)))
        for _ in range(total):
            writer.write(piece)
            await writer.drain()
            sent += 1
        return True

    async with served(tmp_path, endless) as (_upstream, rig):
        async with client() as http, http.stream("GET", rig.urls[0] + "/") as answer:
            stalled = -1
            while stalled != sent:
                stalled = sent
                await asyncio.sleep(0.2)
            assert 0 < sent < total // 2
            whole = 0
            async for data in answer.aiter_raw():
                whole += len(data)
        assert whole == total * len(piece)


async def test_fifty_programs_at_once_each_get_their_own_answer(tmp_path):
    async def echo(asked: Asked, writer: asyncio.StreamWriter) -> bool:
        return await plain(asked.target.encode() + asked.body)(asked, writer)

    async with served(tmp_path, echo) as (_upstream, rig):
        async with client(limits=httpx.Limits(max_connections=50)) as http:
            answers = await asyncio.gather(
                *(http.post(f"{rig.urls[0]}/{number}", content=str(number) * 5000) for number in range(50))
            )
        assert [answer.text for answer in answers] == [f"/{number}" + str(number) * 5000 for number in range(50)]
        await rig.recorded(50)


async def test_redirects_to_the_upstream_stay_inside_and_others_are_left_alone(tmp_path):
    async with served(tmp_path, prefix="/v4") as (upstream, rig):
        upstream.answer = plain(
            status=302,
            location=f"{upstream.url}/v4/next?page=2",
            link=f'<{upstream.url}/v4/list?page=3>; rel="next", <https://elsewhere.example/>; rel="help"',
            set_cookie="session=1",
        )
        async with client() as http:
            answer = await http.get(rig.urls[0] + "/here")
            assert answer.headers["location"] == f"{rig.urls[0]}/next?page=2"
            assert (
                answer.headers["link"]
                == f'<{rig.urls[0]}/list?page=3>; rel="next", <https://elsewhere.example/>; rel="help"'
            )
            assert "set-cookie" not in answer.headers
            upstream.answer = plain(status=307, location="https://elsewhere.example/v4/next")
            assert (await http.get(rig.urls[0] + "/")).headers["location"] == "https://elsewhere.example/v4/next"
        assert len(upstream.asked) == 2


@pytest.mark.parametrize(("method", "status"), [("HEAD", 200), ("GET", 204), ("GET", 304)])
async def test_an_answer_without_a_body_leaves_the_connection_usable(tmp_path, method, status):
    async def bare(asked: Asked, writer: asyncio.StreamWriter) -> bool:
        if asked.target == "/second":
            return await plain(b"ok")(asked, writer)
        length = b"content-length: 7\r\n" if method == "HEAD" else b""
        writer.write(b"HTTP/1.1 %d X\r\n%b\r\n" % (status, length))
        await writer.drain()
        return True

    async with served(tmp_path, bare) as (upstream, rig):
        async with client() as http:
            first = await http.request(method, rig.urls[0] + "/first")
            assert (first.status_code, first.content) == (status, b"")
            assert (await http.get(rig.urls[0] + "/second")).content == b"ok"
        assert upstream.connections == 1


async def test_a_program_that_speaks_http_1_0_gets_the_end_of_the_connection_for_the_end(tmp_path):
    async with served(tmp_path, chunked(b"one", b"two")) as (_upstream, rig):
        got = await say(port_of(rig), f"GET / HTTP/1.0\r\nHost: 127.0.0.1:{port_of(rig)}\r\n\r\n".encode())
        assert got.endswith(b"\r\n\r\nonetwo")
        assert b"chunked" not in got


# ------------------------------------------------------------------- TLS, gate


async def test_an_upstream_is_reached_over_tls_under_its_own_name(tmp_path):
    async def resolver(host: str, port: int) -> list[str]:
        del port
        assert host == "api.upstream.test"
        return ["127.0.0.1"]

    async with RawUpstream(tls=tls.serving("api.upstream.test")) as upstream:
        named = HeaderInjection(upstream=f"https://api.upstream.test:{upstream.port}", addresses=("127.0.0.1",))
        async with InjectionRig(tmp_path, named, trust=tls.trusting(), resolver=resolver) as rig:
            await rig.open()
            async with client() as http:
                assert (await http.get(rig.urls[0] + "/")).content == b"ok"
            assert upstream.asked[0].header("host") == f"api.upstream.test:{upstream.port}"


@pytest.mark.parametrize("trusted", [True, False])
async def test_a_certificate_of_another_name_or_authority_is_refused(tmp_path, *, trusted):
    name = "other.upstream.test" if trusted else "127.0.0.1"
    async with RawUpstream(tls=tls.serving(name)) as upstream:
        async with InjectionRig(tmp_path, header(upstream), trust=tls.trusting() if trusted else None) as rig:
            await rig.open()
            answer = await ask(rig)
            assert answer.status_code == 502
            assert answer.headers["x-kagura-error"] == "ERR_EGRESS_UNREACHABLE"
            assert "certificate that is not accepted" in answer.text
        assert upstream.asked == []


async def test_an_upstream_that_leads_into_a_private_network_is_refused(tmp_path):
    async def resolver(_host: str, _port: int) -> list[str]:
        return ["127.0.0.1"]

    async with RawUpstream() as upstream:
        named = HeaderInjection(upstream=f"https://api.upstream.test:{upstream.port}")
        async with InjectionRig(tmp_path, named, resolver=resolver) as rig:
            await rig.open()
            answer = await ask(rig)
            assert (answer.status_code, answer.headers["x-kagura-error"]) == (403, "ERR_EGRESS_DENIED")
        assert upstream.connections == 0


# ------------------------------------------------------------------ smuggling

HOST = b"Host: 127.0.0.1:PORT\r\n"
SMUGGLED = {
    "two lengths": (400, b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcd"),
    "the same length twice": (
        400,
        b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc",
    ),
    "a list of lengths": (400, b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: 3, 3\r\n\r\nabc"),
    "a length beside chunks": (
        400,
        b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    ),
    "two codings": (501, b"POST / HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"),
    "a bare line feed": (400, b"GET / HTTP/1.1\r\n" + HOST + b"X-A: 1\nX-B: 2\r\n\r\n"),
    "only line feeds": (400, b"GET / HTTP/1.1\nHost: 127.0.0.1:PORT\n\n"),
    "a bare carriage return": (400, b"GET / HTTP/1.1\r\n" + HOST + b"X-A: 1\rX-B: 2\r\n\r\n"),
    "a folded header": (400, b"GET / HTTP/1.1\r\n" + HOST + b"X-A: 1\r\n folded\r\n\r\n"),
    "a space before the colon": (400, b"GET / HTTP/1.1\r\n" + HOST + b"Content-Length : 3\r\n\r\nabc"),
    "an absolute form": (400, b"GET http://elsewhere.example/ HTTP/1.1\r\n" + HOST + b"\r\n"),
    "an absolute form of ours": (400, b"GET http://127.0.0.1:PORT/ HTTP/1.1\r\n" + HOST + b"\r\n"),
    "a tunnel": (405, b"CONNECT elsewhere.example:443 HTTP/1.1\r\n" + HOST + b"\r\n"),
    "a trace": (405, b"TRACE / HTTP/1.1\r\n" + HOST + b"\r\n"),
    "an asterisk": (400, b"OPTIONS * HTTP/1.1\r\n" + HOST + b"\r\n"),
    "two hosts": (400, b"GET / HTTP/1.1\r\n" + HOST + HOST + b"\r\n"),
    "another host": (421, b"GET / HTTP/1.1\r\nHost: elsewhere.example\r\n\r\n"),
    "no host": (400, b"GET / HTTP/1.1\r\n\r\n"),
    "no host in HTTP/1.0": (421, b"GET / HTTP/1.0\r\n\r\n"),
    "a header in the path": (400, b"GET /\rX-A:1 HTTP/1.1\r\n" + HOST + b"\r\n"),
    "a space in the path": (400, b"GET /a b HTTP/1.1\r\n" + HOST + b"\r\n"),
    "a path that climbs": (400, b"GET /a/../../b HTTP/1.1\r\n" + HOST + b"\r\n"),
    "a path that climbs in disguise": (400, b"GET /a/%2e%2E%2f%2e./b HTTP/1.1\r\n" + HOST + b"\r\n"),
    "a path that climbs behind a parameter": (400, b"GET /a/..;/b HTTP/1.1\r\n" + HOST + b"\r\n"),
    "a path that climbs when decoded twice": (400, b"GET /%252e%252e/b HTTP/1.1\r\n" + HOST + b"\r\n"),
    "a path that climbs in no UTF-8": (400, b"GET /%c0%ae%c0%ae/b HTTP/1.1\r\n" + HOST + b"\r\n"),
    "a zero byte in the path": (400, b"GET /..%00/b HTTP/1.1\r\n" + HOST + b"\r\n"),
    "a tunnel in small letters": (405, b"connect elsewhere.example:443 HTTP/1.1\r\n" + HOST + b"\r\n"),
    "a trace in small letters": (405, b"trace / HTTP/1.1\r\n" + HOST + b"\r\n"),
    "a fragment": (400, b"GET /a#b HTTP/1.1\r\n" + HOST + b"\r\n"),
    "another protocol": (505, b"GET / HTTP/2.0\r\n" + HOST + b"\r\n"),
    "a web socket": (501, b"GET / HTTP/1.1\r\n" + HOST + b"Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n"),
    "no HTTP at all": (400, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n"),
    "a zero byte": (400, b"GET / HTTP/1.1\r\n" + HOST + b"X-A: 1\x002\r\n\r\n"),
    "a head without end": (431, b"GET / HTTP/1.1\r\n" + HOST + b"X-A: " + b"a" * 70_000 + b"\r\n\r\n"),
}


@pytest.mark.parametrize("sort", SMUGGLED)
async def test_what_could_be_read_in_two_ways_or_leads_elsewhere_never_leaves(tmp_path, sort):
    status, request = SMUGGLED[sort]
    async with served(tmp_path) as (upstream, rig):
        got = await say(
            port_of(rig), request.replace(b"PORT", str(port_of(rig)).encode()) + b"GET /second HTTP/1.1\r\n"
        )
        assert int(got.split(b" ")[1]) == status
        assert got.count(b"HTTP/1.1 ") == 1 or b"ERR_INJECTION" in got
        assert upstream.asked == []
        await eventually(lambda: bool(rig.records))
        assert {record.ended for record in rig.records} <= {"refused", "broken"}
        assert rig.failures == []


@pytest.mark.parametrize("body", [b"zz\r\nabc\r\n0\r\n\r\n", b"3\r\nabcd\r\n0\r\n\r\n", b"3\r\nab"])
async def test_chunks_that_break_their_framing_cut_the_request_off(tmp_path, body: bytes):
    async with served(tmp_path) as (upstream, rig):
        head = f"POST / HTTP/1.1\r\nHost: 127.0.0.1:{port_of(rig)}\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
        reader, writer = await asyncio.open_connection("127.0.0.1", port_of(rig))
        writer.write(head + body)
        writer.write_eof()
        async with asyncio.timeout(30):
            assert b" 400 " in await reader.readline()
        writer.transport.abort()
        assert upstream.asked == []
        (record,) = await rig.recorded()
        assert record.ended == "broken"


async def test_a_slow_head_is_given_up(tmp_path):
    async with served(tmp_path, limits=InjectionLimits(head=0.2)) as (upstream, rig):
        assert (await say(port_of(rig), b"GET / HTTP/1.1\r\nX-A: ")).startswith(b"HTTP/1.1 408 ")
        assert upstream.connections == 0


async def test_a_connection_that_asks_nothing_is_closed(tmp_path):
    async with served(tmp_path, limits=InjectionLimits(keep=0.2)) as (_upstream, rig):
        assert await say(port_of(rig), b"") == b""
        assert rig.records == []


async def test_one_connection_too_many_is_told_so(tmp_path):
    async with served(tmp_path, limits=InjectionLimits(connections=1)) as (_upstream, rig):
        _, first = await asyncio.open_connection("127.0.0.1", port_of(rig))
        answer = await ask(rig)
        assert answer.status_code == 503
        first.transport.abort()


async def test_requests_that_come_too_fast_are_told_so_until_time_has_passed(tmp_path):
    async with served(tmp_path, limits=InjectionLimits(rate=8, burst=4)) as (upstream, rig):
        async with client() as http:
            answers = [await http.get(rig.urls[0] + "/") for _ in range(6)]
            assert [answer.status_code for answer in answers] == [200, 200, 200, 200, 429, 429]
            assert answers[-1].text == (
                "ERR_INJECTION: More than 8 requests a second; wait a moment, and ask more slowly.\n"
            )
            assert len(upstream.asked) == 4
            await rig.clock.advance(0.25)
            assert [(await http.get(rig.urls[0] + "/")).status_code for _ in range(3)] == [200, 200, 429]
        records = await rig.recorded(9)
        assert [record.ended for record in records].count("refused") == 3


# ----------------------------------------------------------------------- echo


def forms(user: str = "") -> list[bytes]:
    shown = [SECRET.encode(), base64.b64encode(SECRET.encode()), SECRET.encode().hex().encode()]
    return [*shown, base64.b64encode(f"{user}:{SECRET}".encode())]


@pytest.mark.parametrize("form", range(4))
async def test_an_echo_of_the_secret_is_starred_wherever_it_is_cut(tmp_path, form):
    text = forms("robot")[form]
    async with served(tmp_path, basic_user="robot") as (upstream, rig), client() as http:
        for cut in range(len(text) + 1):
            upstream.answer = chunked(*filter(None, (b"before " + text[:cut], text[cut:] + b" after")))
            got = (await http.get(rig.urls[0] + "/")).content
            assert len(got) == len(b"before " + text + b" after")
            assert got.startswith(b"before *")
            assert got.endswith(b"* after")
            assert SECRET.encode() not in base64.b64decode(got[7:-6].replace(b"*", b"A") + b"==", validate=False)
            assert set(got[7:-6]) <= set(b"*") or form == 3


async def test_an_echo_in_headers_or_byte_by_byte_is_starred(tmp_path):
    async with served(tmp_path) as (upstream, rig):
        upstream.answer = plain(b"x", x_echo=f"Bearer {SECRET}", location=f"/login?key={SECRET}")
        async with client() as http:
            answer = await http.get(rig.urls[0] + "/")
            assert SECRET not in repr(answer.headers)
            assert answer.headers["x-echo"] == "Bearer " + "*" * len(SECRET)
            upstream.answer = chunked(*(bytes([sign]) for sign in SECRET.encode() * 3))
            assert (await http.get(rig.urls[0] + "/")).content == b"*" * len(SECRET) * 3


async def test_an_answer_that_cannot_be_looked_into_is_not_passed_on(tmp_path):
    async with served(tmp_path, plain(b"\x1f\x8b", content_encoding="gzip")) as (_upstream, rig):
        answer = await ask(rig)
        assert answer.status_code == 502
        assert "encoded its answer" in answer.text


# ---------------------------------------------------------------- what breaks


@pytest.mark.parametrize(
    "head", [b"content-length: 1000\r\n", b"transfer-encoding: chunked\r\n"], ids=["length", "chunks"]
)
async def test_an_upstream_that_dies_in_the_middle_is_seen_as_broken(tmp_path, head):
    async def dies(_asked: Asked, writer: asyncio.StreamWriter) -> bool:
        writer.write(b"HTTP/1.1 200 OK\r\n" + head + b"\r\n" + b"5\r\nhello\r\n")
        await writer.drain()
        return False

    async with served(tmp_path, dies) as (_upstream, rig):
        async with client() as http:
            with pytest.raises(httpx.TransportError):
                await http.get(rig.urls[0] + "/")
        (record,) = await rig.recorded()
        assert (record.status, record.ended) == (200, "broken")


async def test_an_upstream_that_hangs_up_before_its_answer_is_told_in_words(tmp_path):
    async def dies(_asked: Asked, _writer: asyncio.StreamWriter) -> bool:
        return False

    async with served(tmp_path, dies) as (upstream, rig):
        answer = await ask(rig, "POST", content=b"x")
        assert (answer.status_code, answer.headers["x-kagura-error"]) == (502, "ERR_INJECTION")
        assert len(upstream.asked) == 1


async def test_a_request_on_a_connection_that_had_been_closed_is_sent_once_more(tmp_path):
    answered = 0

    async def once(asked: Asked, writer: asyncio.StreamWriter) -> bool:
        nonlocal answered
        answered += 1
        if answered == 2:
            return False
        return await plain(b"ok")(asked, writer)

    async with served(tmp_path, once) as (upstream, rig):
        async with client() as http:
            assert (await http.get(rig.urls[0] + "/1")).status_code == 200
            assert (await http.get(rig.urls[0] + "/2")).status_code == 200
        assert [asked.target for asked in upstream.asked] == ["/1", "/2", "/2"]
        assert upstream.connections == 2


async def test_nobody_there_is_told_in_words(tmp_path):
    async with RawUpstream() as upstream:
        injection = header(upstream)
    async with InjectionRig(tmp_path, injection) as rig:
        await rig.open()
        answer = await ask(rig)
        assert (answer.status_code, answer.headers["x-kagura-error"]) == (502, "ERR_EGRESS_UNREACHABLE")


async def test_an_early_answer_reaches_a_program_that_is_still_sending(tmp_path):
    server = await asyncio.start_server(_too_large, "127.0.0.1", 0)
    early = HeaderInjection(upstream=f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
    async with server, InjectionRig(tmp_path, early) as rig:
        await rig.open()
        head = f"POST / HTTP/1.1\r\nHost: 127.0.0.1:{port_of(rig)}\r\nContent-Length: 1000\r\n\r\nfirst"
        assert (await say(port_of(rig), head.encode())).startswith(b"HTTP/1.1 413 ")


async def _too_large(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readuntil(b"first")
    writer.write(b"HTTP/1.1 413 No\r\ncontent-length: 2\r\nconnection: close\r\n\r\nno")
    await writer.drain()
    await reader.read()
    writer.close()


async def test_silence_ends_a_request(tmp_path):
    async with served(tmp_path, silent_after(), limits=InjectionLimits(idle=0.2)) as (_upstream, rig):
        answer = await ask(rig)
        assert answer.status_code == 504
        (record,) = await rig.recorded()
        assert record.ended == "time"


def silent_after(beginning: bytes = b"") -> Answer:
    """Answers this, and then nothing for ever."""

    async def answer(_asked: Asked, writer: asyncio.StreamWriter) -> bool:
        writer.write(beginning)
        await writer.drain()
        await asyncio.Event().wait()
        return False

    return answer


@pytest.mark.parametrize("beginning", [b"", b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nso"])
async def test_a_program_that_resets_its_connection_is_not_waited_for(tmp_path, beginning: bytes):
    async with served(tmp_path, silent_after(beginning)) as (upstream, rig):
        reader, writer = await asyncio.open_connection("127.0.0.1", port_of(rig))
        writer.write(b"GET / HTTP/1.1\r\nhost: 127.0.0.1:%d\r\n\r\n" % port_of(rig))
        if beginning:
            await reader.readuntil(b"so")
        await eventually(lambda: upstream.asked)
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.transport.abort()
        await eventually(lambda: upstream.waiting == 0)
        (record,) = await rig.recorded()
        assert (record.ended, record.detail) == ("broken", "The program in the box broke it off.")
        assert rig.failures == []


async def test_a_program_that_closes_its_side_is_waited_for_a_shorter_silence(tmp_path):
    async with served(tmp_path, silent_after(), limits=InjectionLimits(parted=0.2)) as (upstream, rig):
        reader, writer = await asyncio.open_connection("127.0.0.1", port_of(rig))
        writer.write(b"GET / HTTP/1.1\r\nhost: 127.0.0.1:%d\r\n\r\n" % port_of(rig))
        writer.write_eof()
        async with asyncio.timeout(60):
            answer = await reader.read()
        assert answer.startswith(b"HTTP/1.1 504 ")
        assert b"no byte went by for 0.2 s" in answer
        await eventually(lambda: upstream.waiting == 0)
        assert [record.ended for record in await rig.recorded()] == ["time"]
        writer.close()


async def test_a_program_that_closes_its_side_is_still_answered(tmp_path):
    answer = asyncio.Event()

    async def slow(asked: Asked, writer: asyncio.StreamWriter) -> bool:
        await answer.wait()
        return await plain(b"late")(asked, writer)

    async with served(tmp_path, slow) as (upstream, rig):
        reader, writer = await asyncio.open_connection("127.0.0.1", port_of(rig))
        writer.write(b"GET / HTTP/1.1\r\nhost: 127.0.0.1:%d\r\n\r\n" % port_of(rig))
        writer.write_eof()
        await eventually(lambda: upstream.asked)
        answer.set()
        async with asyncio.timeout(60):
            assert (await reader.read()).endswith(b"\r\n\r\nlate")
        writer.close()


async def test_what_is_asked_before_its_turn_is_answered_in_its_turn(tmp_path):
    first = asyncio.Event()

    async def in_turn(asked: Asked, writer: asyncio.StreamWriter) -> bool:
        if asked.target == "/1":
            await first.wait()
        return await plain(asked.target.encode())(asked, writer)

    limits = InjectionLimits(burst=4000)
    async with RawUpstream(in_turn) as upstream, InjectionRig(tmp_path, header(upstream), limits=limits) as rig:
        await rig.open()
        reader, writer = await asyncio.open_connection("127.0.0.1", port_of(rig))
        ask = b"GET /%d HTTP/1.1\r\nhost: 127.0.0.1:" + str(port_of(rig)).encode() + b"\r\n\r\n"
        writer.write(ask % 1)
        await eventually(lambda: upstream.asked)
        # More than one head may be long, and cut in the middle of one.
        writer.write((ask % 2) * 2000 + (ask % 3)[:9])
        await writer.drain()
        first.set()
        async with asyncio.timeout(60):
            for path in [b"/1", *[b"/2"] * 2000]:
                head = await reader.readuntil(b"\r\n\r\n")
                assert head.startswith(b"HTTP/1.1 200 ")
                assert await reader.readexactly(2) == path
            writer.write((ask % 3)[9:])
            assert (await reader.readuntil(b"/3")).startswith(b"HTTP/1.1 200 ")
        writer.close()


async def test_the_limits_of_bytes_are_exact_in_words_before_the_answer_and_a_cut_after_it(tmp_path):
    limits = InjectionLimits(bytes_out=10, bytes_in=10)
    async with RawUpstream() as upstream, InjectionRig(tmp_path, header(upstream), limits=limits) as rig:
        await rig.open()
        async with client() as http:
            assert (await http.post(rig.urls[0] + "/", content=b"x" * 10)).status_code == 200
            assert (await http.post(rig.urls[0] + "/", content=b"x" * 11)).status_code == 413
            upstream.answer = plain(b"x" * 11)
            with pytest.raises(httpx.TransportError):
                await http.get(rig.urls[0] + "/")
        await rig.recorded(3)
        assert [record.ended for record in rig.records] == ["done", "limit", "limit"]


async def test_what_cannot_be_recorded_is_told_to_whoever_serves(tmp_path):
    async with served(tmp_path) as (_upstream, rig):
        rig.unrecordable = JournalUnwritable("journal.db", "the disk is full")
        assert (await say(port_of(rig), f"GET / HTTP/1.1\r\nHost: 127.0.0.1:{port_of(rig)}\r\n\r\n".encode())).endswith(
            b"reset"
        )
        await eventually(lambda: bool(rig.failures))
        assert rig.failures == [rig.unrecordable]


# --------------------------------------------------------------------- leases


async def test_a_renewal_during_a_transfer_is_not_noticed_and_the_next_request_has_the_new_secret(tmp_path):
    go_on = asyncio.Event()

    async def slow(_asked: Asked, writer: asyncio.StreamWriter) -> bool:
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 48\r\n\r\nhalf, ")
        await writer.drain()
        await go_on.wait()
        # The old secret and the new one: neither may come back.
        writer.write(b"secret-of-handle-1 secret-of-handle-2 end.")
        await writer.drain()
        return True

    async with RawUpstream(slow) as upstream, InjectionRig(tmp_path, header(upstream)) as rig:
        lease = await rig.open()
        async with client() as http, http.stream("GET", rig.urls[0] + "/1") as answer:
            await rig.renew(lease)
            async with client() as other:
                upstream.answer = plain(b"ok")
                assert (await other.get(rig.urls[0] + "/2")).content == b"ok"
            go_on.set()
            assert (
                b"".join([piece async for piece in answer.aiter_raw()])
                == b"half, " + b"*" * 18 + b" " + b"*" * 18 + b" end."
            )
        sent = [asked.header("authorization") for asked in upstream.asked]
        assert sent == ["Bearer secret-of-handle-1", "Bearer secret-of-handle-2"]


async def test_a_lease_that_is_closed_cuts_what_is_under_way_and_refuses_what_comes(tmp_path):
    async def endless(_asked: Asked, writer: asyncio.StreamWriter) -> bool:
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\nhalf")
        await writer.drain()
        await asyncio.Event().wait()
        return False

    async with RawUpstream(endless) as upstream, InjectionRig(tmp_path, header(upstream)) as rig:
        lease = await rig.open()
        url = rig.urls[0]
        async with client() as http, http.stream("GET", url + "/") as answer:
            pieces = answer.aiter_raw()
            assert await anext(pieces) == b"half"
            await rig.injector.closed(lease)
            with pytest.raises(httpx.TransportError):
                await anext(pieces)
        async with client() as http:
            late = await http.get(url + "/")
        assert (late.status_code, late.headers["x-kagura-error"]) == (403, "ERR_LEASE_ENDED")
        assert len(upstream.asked) == 1
        assert [record.ended for record in await rig.recorded(2)] == ["ended", "refused"]


async def test_a_url_serves_the_next_lease_of_its_scope(tmp_path):
    async with RawUpstream() as upstream, InjectionRig(tmp_path, header(upstream)) as rig:
        first = await rig.open()
        url = rig.urls[0]
        await rig.injector.closed(first)
        await rig.broker.release(first.id)
        await rig.open()
        assert rig.urls == [url]
        async with client() as http:
            assert (await http.get(url + "/")).status_code == 200
        assert upstream.asked[0].header("authorization") == "Bearer secret-of-handle-2"


async def test_a_released_lease_a_lost_grant_and_a_time_that_is_up_give_nothing(tmp_path):
    async with RawUpstream() as upstream, InjectionRig(tmp_path, header(upstream)) as rig:
        lease = await rig.open()
        url = rig.urls[0]
        async with client() as http:
            rig.broker.grants = ()
            lost = await http.get(url + "/")
            assert (lost.status_code, lost.headers["x-kagura-error"]) == (403, "ERR_GRANT_MISSING")
            await rig.broker.release(lease.id)
            ended = await http.post(url + "/", content=b"body")
            assert (ended.status_code, ended.headers["x-kagura-error"]) == (503, "ERR_LEASE_ENDED")
            assert SECRET not in lost.text + ended.text + repr(ended.headers)
        assert upstream.connections == 0


async def test_a_secret_that_no_header_can_carry_is_refused(tmp_path):
    async with RawUpstream() as upstream:
        two_lines = header(upstream, template="Bearer {token}\r\nX-More: 1")
        async with InjectionRig(tmp_path, two_lines) as rig:
            await rig.open()
            answer = await ask(rig)
            assert (answer.status_code, answer.headers["x-kagura-error"]) == (503, "ERR_INJECTION")
        assert upstream.connections == 0
