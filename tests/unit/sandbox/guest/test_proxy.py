import ast
import subprocess
import sys

import pytest
from hypothesis import given, strategies as st

from kagura_kernel.sandbox.guest import proxy
from kagura_kernel.sandbox.guest.proxy import BadRequest, HttpFront

GET = b"GET http://a.example/x?y HTTP/1.1\r\nHost: a.example\r\n"
POST = b"POST http://a.example/ HTTP/1.1\r\nHost: a.example\r\n"


def sent(request: bytes) -> tuple[HttpFront, bytes]:
    front = HttpFront()
    return front, front.feed(request)


def refusal(request: bytes) -> BadRequest:
    with pytest.raises(BadRequest) as caught:
        sent(request)
    return caught.value


def test_a_connect_opens_a_tunnel_that_leaves_bytes_alone():
    front, early = sent(b"CONNECT a.example:443 HTTP/1.1\r\nHost: a.example:443\r\nUser-Agent: x\r\n\r\n\x16\x03\x01")
    assert (front.target, front.tunnel, early) == (("a.example", 443), True, b"\x16\x03\x01")
    assert front.feed(b"\0\r\n\nanything") == b"\0\r\n\nanything"
    assert front.accepted().startswith(b"HTTP/1.1 200 ")


def test_a_connect_to_an_ipv6_address_keeps_its_brackets():
    assert sent(b"CONNECT [2001:db8::1]:443 HTTP/1.1\r\n\r\n")[0].target == ("[2001:db8::1]", 443)


@pytest.mark.parametrize("cut", range(1, 60))
def test_a_head_may_come_in_any_pieces(cut):
    request = GET + b"Accept: */*\r\n\r\n"
    front = HttpFront()
    whole = front.feed(request[:cut]) + front.feed(request[cut:])
    assert front.target == ("a.example", 80)
    assert whole == sent(request)[1]


def test_a_plain_request_goes_on_in_origin_form_and_as_the_only_one():
    front, early = sent(GET + b"Accept: */*\r\n\r\n")
    assert (front.target, front.tunnel) == (("a.example", 80), False)
    assert early == b"GET /x?y HTTP/1.1\r\nHost: a.example\r\nAccept: */*\r\nConnection: close\r\n\r\n"
    assert front.accepted() == b""
    with pytest.raises(BadRequest, match="more than one request"):
        front.feed(b"G")


def test_headers_of_the_way_to_the_proxy_end_there():
    hop = (
        b"Proxy-Authorization: Basic c2VjcmV0\r\nProxy-Connection: keep-alive\r\nPROXY-X: y\r\nKeep-Alive: 5\r\n"
        b"Connection: keep-alive, X-Mine\r\nX-Mine: 1\r\nTE: trailers\r\nUpgrade: h2c\r\nX-Kept: 2\r\n\r\n"
    )
    assert sent(GET + hop)[1] == (b"GET /x?y HTTP/1.1\r\nHost: a.example\r\nX-Kept: 2\r\nConnection: close\r\n\r\n")


@pytest.mark.parametrize(
    ("place", "path", "target"),
    [
        (b"http://a.example", b"/", ("a.example", 80)),
        (b"HTTP://A.example:8080?q", b"/?q", ("A.example", 8080)),
        (b"http://a.example//x", b"//x", ("a.example", 80)),
        (b"http://[::1]:81/x", b"/x", ("[::1]", 81)),
        (b"http://[::1]/x", b"/x", ("[::1]", 80)),
    ],
)
def test_the_host_and_path_of_an_absolute_url_are_told_apart(place, path, target):
    authority = place[7:].split(b"/")[0].split(b"?")[0]
    front, early = sent(b"GET " + place + b" HTTP/1.1\r\nHost: " + authority + b"\r\n\r\n")
    assert front.target == target
    assert early.startswith(b"GET " + path + b" HTTP/1.1\r\nHost: " + authority + b"\r\n")


def test_an_options_without_a_path_is_about_the_server():
    assert sent(b"OPTIONS http://a.example HTTP/1.1\r\nHost: a.example\r\n\r\n")[1].startswith(
        b"OPTIONS * HTTP/1.1\r\n"
    )


def test_an_old_client_needs_no_host_header_and_stays_old():
    front, early = sent(b"GET http://a.example/ HTTP/1.0\r\n\r\n")
    assert front.target == ("a.example", 80)
    assert early.startswith(b"GET / HTTP/1.0\r\nHost: a.example\r\n")


def test_a_body_of_a_length_passes_and_not_a_byte_more():
    front, early = sent(POST + b"Content-Length: 5\r\n\r\nab")
    assert early.endswith(b"\r\n\r\nab")
    assert front.feed(b"cde") == b"cde"
    with pytest.raises(BadRequest):
        front.feed(b"GET http://b.example/ HTTP/1.1\r\n\r\n")


@pytest.mark.parametrize("size", [1, 2, 3, 7, 100])
def test_a_body_in_chunks_passes_and_ends_with_its_last(size):
    body = b"4\r\nab\r\n\r\n0A\r\n0123456789\r\n0\r\n\r\n"
    front, _ = sent(POST + b"Transfer-Encoding: chunked\r\n\r\n")
    pieces = [body[at : at + size] for at in range(0, len(body), size)]
    assert b"".join(front.feed(piece) for piece in pieces) == body
    with pytest.raises(BadRequest, match="more than one request"):
        front.feed(b"0")


@pytest.mark.parametrize(
    "body",
    [
        b"4;ext=1\r\n",
        b"4 \r\n",
        b"0x4\r\n",
        b"+4\r\n",
        b"-1\r\n",
        b"\r\n",
        b"4\nabcd",
        b"4\r\r\n",
        b"4\r\nabcdX",
        b"4\r\nabcd\n",
        b"0\r\nTrailer: x\r\n\r\n",
        b"11111111111111111\r\n",
        b"g\r\n",
        b"0\r\n\r\nGET http://b.example/ HTTP/1.1\r\n",
    ],
)
def test_chunks_that_could_be_read_in_two_ways_are_refused(body):
    refusal(POST + b"Transfer-Encoding: chunked\r\n\r\n" + body)


@pytest.mark.parametrize(
    "headers",
    [
        b"Content-Length: 1\r\nContent-Length: 1\r\n",
        b"Content-Length: 1, 1\r\n",
        b"Content-Length: +1\r\n",
        b"Content-Length: 1 1\r\n",
        b"Content-Length: 0x1\r\n",
        b"Content-Length:\r\n",
        b"Content-Length: 9999999999999999999\r\n",
        b"Content-Length: 1\r\nTransfer-Encoding: chunked\r\n",
        b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
        b"Transfer-Encoding: gzip, chunked\r\n",
        b"Transfer-Encoding: xchunked\r\n",
        b"Transfer-Encoding: \x0bchunked\r\n",
        b"Transfer-Encoding : chunked\r\n",
        b" Transfer-Encoding: chunked\r\n",
        b"X: y\r\n folded\r\n",
        b"X: y\r\n\tfolded\r\n",
        b"X: a\nY: b\r\n",
        b"X: a\rY: b\r\n",
        b"X: a\0b\r\n",
        b"X\r\n",
        b": x\r\n",
        b"X Y: z\r\n",
        b"X\xff: z\r\n",
        b"Host: a.example\r\n",
        b"host: b.example\r\n",
        b"Connection: Host\r\n",
        b"Connection: x, content-length\r\nContent-Length: 1\r\n",
        b"Connection: Transfer-Encoding\r\nTransfer-Encoding: chunked\r\n",
    ],
)
def test_headers_that_could_be_read_in_two_ways_are_refused(headers):
    assert refusal(POST + headers + b"\r\n").status == 400


@pytest.mark.parametrize(
    "request_line",
    [
        b"GET / HTTP/1.1",
        b"GET https://a.example/ HTTP/1.1",
        b"GET ftp://a.example/ HTTP/1.1",
        b"GET a.example:80 HTTP/1.1",
        b"GET http://u:p@a.example/ HTTP/1.1",
        b"GET http://b.example@a.example/ HTTP/1.1",
        b"GET http://a.example/#x HTTP/1.1",
        b"GET http://a.example\\@b.example/ HTTP/1.1",
        b"GET http:///x HTTP/1.1",
        b"GET http://a.example:/ HTTP/1.1",
        b"GET http://a.example:0/ HTTP/1.1",
        b"GET http://a.example:99999/ HTTP/1.1",
        b"GET http://a.ex%61mple/ HTTP/1.1",
        b"GET http://::1/ HTTP/1.1",
        b"GET http://a.example/\xc3\xa9 HTTP/1.1",
        b"GET  http://a.example/ HTTP/1.1",
        b"GET http://a.example/ x HTTP/1.1",
        b"GET http://a.example/\tHTTP/1.1",
        b"get http://a.example/ HTTP/1.1",
        b"G\x00T http://a.example/ HTTP/1.1",
        b" GET http://a.example/ HTTP/1.1",
        b"",
        b"CONNECT a.example HTTP/1.1",
        b"CONNECT http://a.example:443 HTTP/1.1",
        b"CONNECT a.example:443/x HTTP/1.1",
        b"CONNECT u@a.example:443 HTTP/1.1",
        b"CONNECT a.example:+443 HTTP/1.1",
        b"CONNECT :443 HTTP/1.1",
        b"CONNECT a:b:443 HTTP/1.1",
        b"CONNECT ::1:443 HTTP/1.1",
        b"CONNECT [::1] HTTP/1.1",
    ],
)
def test_request_lines_that_hide_where_they_lead_are_refused(request_line):
    assert refusal(request_line + b"\r\nHost: a.example\r\n\r\n").status == 400


@pytest.mark.parametrize("version", [b"HTTP/2.0", b"HTTP/0.9", b"HTTP/1.2", b"http/1.1", b"HTTP/1.1x"])
def test_other_versions_are_refused(version):
    assert refusal(b"GET http://a.example/ " + version + b"\r\nHost: a.example\r\n\r\n").status == 505


@pytest.mark.parametrize("host", [b"b.example", b"a.example:81", b"", b"a.example b", b"u@a.example"])
def test_a_host_header_that_disagrees_with_the_url_is_refused(host):
    refusal(b"GET http://a.example/ HTTP/1.1\r\nHost: " + host + b"\r\n\r\n")


def test_a_missing_host_header_is_refused():
    refusal(b"GET http://a.example/ HTTP/1.1\r\n\r\n")


@pytest.mark.parametrize("framing", [b"Content-Length: 4", b"Transfer-Encoding: chunked"])
def test_a_connect_with_a_body_is_refused(framing):
    refusal(b"CONNECT a.example:443 HTTP/1.1\r\n" + framing + b"\r\n\r\n")


def test_a_connect_with_two_hosts_is_refused():
    refusal(b"CONNECT a.example:443 HTTP/1.1\r\nHost: a.example\r\nHost: b.example\r\n\r\n")


def test_bare_line_feeds_are_refused_before_the_head_is_whole():
    refusal(b"GET http://a.example/ HTTP/1.1\nHost: a.example\n\n")
    front = HttpFront()
    front.feed(b"GET http://a.example/ HTTP/1.1\r")
    with pytest.raises(BadRequest):
        front.feed(b"\nHost: a\n")


def test_a_head_without_an_end_is_refused_when_it_is_too_long():
    front = HttpFront()
    line = b"X: " + b"a" * 1000 + b"\r\n"
    front.feed(GET + line * 60)
    with pytest.raises(BadRequest) as caught:
        front.feed(line * 10)
    assert caught.value.status == 431


def test_too_many_headers_are_refused():
    assert refusal(GET + b"X: y\r\n" * 200 + b"\r\n").status == 431


def test_a_refusal_tells_its_reason_in_one_line_that_nothing_can_break_out_of():
    front, _ = sent(b"CONNECT a.example:443 HTTP/1.1\r\n\r\n")
    answer = front.refused(403, "no\r\nSet-Cookie: x\n\x1bé" + "a" * 1000)
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.split(b"\r\n")[0].startswith(b"HTTP/1.1 403 no Set-Cookie: x ")
    assert [line.partition(b":")[0] for line in head.split(b"\r\n")[1:]] == [
        b"Content-Type",
        b"Content-Length",
        b"Connection",
    ]
    assert f"Content-Length: {len(body)}".encode() in head
    assert len(answer) < 1000


def test_a_refused_head_request_gets_no_body():
    front, _ = sent(b"HEAD http://a.example/ HTTP/1.1\r\nHost: a.example\r\n\r\n")
    assert front.refused(403, "no").endswith(b"\r\n\r\n")


PIECES = st.lists(
    st.sampled_from([
        b"GET ", b"CONNECT ", b"http://a.example", b"a.example:443", b"/", b" HTTP/1.1\r\n", b"Host: a.example\r\n",
        b"\r\n", b"\n", b"\r", b"\0", b":", b"Content-Length: 3\r\n", b"Transfer-Encoding: chunked\r\n", b"abc",
        b"3\r\n", b"0\r\n\r\n", b" ", b"\xff", b"@", b"[::1]:80",
    ]),
    max_size=14,
)  # fmt: skip


@given(PIECES, st.integers(1, 9))
def test_no_bytes_raise_anything_but_a_bad_request_and_pieces_change_nothing(parts, size):
    data = b"".join(parts)

    def outcome(pieces):
        front = HttpFront()
        out = b""
        try:
            for piece in pieces:
                out += front.feed(piece)
        except BadRequest:
            return None
        return front.target, out

    whole = outcome([data])
    assert whole == outcome([data[at : at + size] for at in range(0, len(data), size)])


def test_it_can_be_carried_into_a_box():
    with open(proxy.__file__, encoding="utf-8") as file:  # noqa: PTH123 - a module's file is text
        source = file.read()
    tree = ast.parse(source, feature_version=(3, 8))
    imported = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    names = [node.module if isinstance(node, ast.ImportFrom) else node.names[0].name for node in imported]
    assert set(names) <= {"__future__", "_socket"}
    answer = subprocess.run([sys.executable, "-I", "-S", "-c", source], capture_output=True, check=False)
    assert (answer.returncode, answer.stderr) == (0, b"")
