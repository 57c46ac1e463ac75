import gzip

import httpx
import pytest

from kagura_kernel.plugins import installation
from kagura_kernel.plugins.installation import MAX_ARCHIVE_BYTES, NotUnpacked, fetch_archive


def serve(pages: dict[str, httpx.Response | Exception], asked: list[str]) -> httpx.MockTransport:
    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(str(request.url))
        page = pages[str(request.url)]
        if isinstance(page, Exception):
            raise page
        return page

    return httpx.MockTransport(answer)


def whole(data: bytes, headers: dict[str, str] | None = None) -> httpx.Response:
    return httpx.Response(200, headers=headers, stream=httpx.ByteStream(data))


def to(url: str) -> httpx.Response:
    return httpx.Response(302, headers={"location": url})


def test_bytes_come_over_https_and_redirects_are_followed():
    asked: list[str] = []
    pages = {
        "https://a.example/x.zip": to("https://b.example/y.zip"),
        "https://b.example/y.zip": to("/z.zip"),
        "https://b.example/z.zip": whole(b"PK"),
    }
    assert fetch_archive("https://a.example/x.zip", serve(pages, asked)) == b"PK"
    assert len(asked) == 3


def test_what_a_server_has_packed_unasked_stays_packed():
    packed = gzip.compress(gzip.compress(b"\0" * 100_000))
    page = whole(packed, {"content-encoding": "gzip, gzip"})
    assert fetch_archive("https://a.example/", serve({"https://a.example/": page}, [])) == packed


@pytest.mark.parametrize(
    "url",
    [
        "http://a.example/x.zip",
        "file:///etc/passwd",
        "ftp://a.example/x",
        "https://",
        "https://me:hunter2@a.example/x.zip",
    ],
)
def test_other_addresses_are_not_asked(url):
    asked: list[str] = []
    with pytest.raises(NotUnpacked) as raised:
        fetch_archive(url, serve({}, asked))
    assert asked == []
    assert "hunter2" not in str(raised.value)


@pytest.mark.parametrize("onward", ["http://a.example/x.zip", "https://me:hunter2@b.example/", "file:///etc/passwd"])
def test_a_redirect_does_not_lead_away_from_https(onward):
    asked: list[str] = []
    with pytest.raises(NotUnpacked):
        fetch_archive("https://a.example/", serve({"https://a.example/": to(onward)}, asked))
    assert asked == ["https://a.example/"]


def test_redirects_have_an_end():
    asked: list[str] = []
    with pytest.raises(NotUnpacked, match="more than 5 times"):
        fetch_archive("https://a.example/", serve({"https://a.example/": to("https://a.example/")}, asked))
    assert len(asked) == 6


def test_an_answer_that_is_too_large_is_cut_off():
    taken = 0

    def endless():
        nonlocal taken
        while True:
            taken += 1
            yield b"\0" * (1 << 20)

    page = httpx.Response(200, content=endless())
    with pytest.raises(NotUnpacked, match="larger than 8 MiB"):
        fetch_archive("https://a.example/", serve({"https://a.example/": page}, []))
    assert taken <= (MAX_ARCHIVE_BYTES >> 20) + 2


def test_what_the_server_or_the_network_says_is_told():
    with pytest.raises(NotUnpacked, match="answers 404 Not Found"):
        fetch_archive("https://a.example/", serve({"https://a.example/": httpx.Response(404)}, []))
    with pytest.raises(NotUnpacked, match="cannot be fetched: no route"):
        fetch_archive("https://a.example/", serve({"https://a.example/": httpx.ConnectError("no route")}, []))


def test_an_archive_that_trickles_in_is_given_up_on(monkeypatch):
    monkeypatch.setattr(installation, "MAX_SECONDS", -1.0)
    with pytest.raises(NotUnpacked, match="takes longer than"):
        fetch_archive("https://a.example/x.zip", serve({"https://a.example/x.zip": whole(b"PK")}, []))
