import gzip
import traceback
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from kagura_kernel.domain.errors import LeaseRefused, LeaseUnavailable
from kagura_kernel.membrane.credentials.provider_http import Answer, ProviderHttp, check_url, lifetime, parse_date
from kagura_kernel.testing.credential_service import Call, LoopbackService, Reply

NOW = datetime(2026, 1, 1, tzinfo=UTC)
FAR = "Thu, 01 Jan 99999999999999999999 00:00:00 GMT"


class Echo(LoopbackService):
    """Answers with what the last test put there."""

    reply = Reply(200, {"ok": True})

    def respond(self, call: Call) -> Reply:
        self.call = call
        return self.reply


@pytest.fixture
def echo() -> Iterator[Echo]:
    with Echo() as echo:
        yield echo


def answer(status: int, body: bytes = b"", **headers: str) -> Answer:
    return Answer(status, body, headers)


@pytest.mark.parametrize("url", ["https://api.example", "http://127.0.0.1:1", "http://[::1]/x", "http://localhost"])
def test_a_key_goes_out_over_https_or_loopback(url: str) -> None:
    assert check_url(url) == url


@pytest.mark.parametrize(
    "url",
    [
        "http://api.example",
        "http://127.0.0.1.evil.example",
        "ftp://x",
        "https://",
        "https://u:p@x",
        "x",
        "http://[",
        "",
    ],
)
def test_and_nowhere_else(url: str) -> None:
    with pytest.raises(ValueError, match=r"it (must|is)"):
        check_url(url)


async def test_a_request_carries_what_it_is_given(echo: Echo) -> None:
    http = ProviderHttp("x", echo.url + "/base/")
    got = await http.send(
        "POST", "/path", headers={"authorization": "Bearer k"}, json_body={"a": 1}, parameters={"p": "1"}
    )
    assert http.object(got) == {"ok": True}
    assert (echo.call.path, echo.call.query, echo.call.bearer, echo.call.json()) == (
        "/base/path",
        {"p": "1"},
        "k",
        {"a": 1},
    )
    assert "k" not in repr(got)


async def test_a_redirect_is_not_followed(echo: Echo) -> None:
    echo.reply = Reply(302, b"", {"location": echo.url + "/elsewhere"})
    http = ProviderHttp("x", echo.url)
    got = await http.send("GET", "/here", headers={})
    assert got.status == 302
    with pytest.raises(LeaseRefused):
        http.require_success(got)


async def test_a_redirect_to_what_is_no_host_is_unclear(echo: Echo) -> None:
    echo.reply = Reply(302, b"", {"location": "https://xn--a/"})
    with pytest.raises(LeaseUnavailable, match="the connection broke"):
        await ProviderHttp("x", echo.url).send("GET", "/here", headers={})


async def test_an_answer_that_is_too_large_is_not_read(echo: Echo) -> None:
    echo.reply = Reply(200, b"x" * (2 << 20))
    with pytest.raises(LeaseUnavailable, match="too large"):
        await ProviderHttp("x", echo.url).send("GET", "/", headers={})


async def test_an_answer_that_was_packed_unasked_stays_packed(echo: Echo) -> None:
    packed = gzip.compress(b"x" * (2 << 20))
    echo.reply = Reply(200, packed, {"content-encoding": "gzip"})
    assert (await ProviderHttp("x", echo.url).send("GET", "/", headers={})).body == packed
    assert echo.call.headers["accept-encoding"] == "identity"


@pytest.mark.parametrize("status", [400, 401, 403, 404, 422])
def test_a_no_is_a_refusal(status: int) -> None:
    with pytest.raises(LeaseRefused, match=str(status)):
        ProviderHttp("x", "https://x").require_success(answer(status, b"secret"))


@pytest.mark.parametrize(("status", "uncertain"), [(429, False), (500, True), (503, True)])
def test_trouble_is_for_later(status: int, *, uncertain: bool) -> None:
    with pytest.raises(LeaseUnavailable) as caught:
        ProviderHttp("x", "https://x").require_success(Answer(status, b"", {"retry-after": "9"}))
    assert (caught.value.uncertain, caught.value.retry_after) == (uncertain, 9.0)


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'"text"', b"\xff", b"<html>", b"[" * 100_000])
def test_what_is_no_json_object_is_unclear_and_not_repeated(body: bytes) -> None:
    with pytest.raises(LeaseUnavailable) as caught:
        ProviderHttp("x", "https://x").object(answer(200, body))
    assert caught.value.uncertain
    assert "html" not in str(caught.value)


@pytest.mark.parametrize("value", [{}, {"a": ""}, {"a": 1}, {"a": None}])
def test_a_missing_text_is_unclear(value: dict[str, object]) -> None:
    with pytest.raises(LeaseUnavailable, match="no 'a'"):
        ProviderHttp("x", "https://x").text(value, "a")


@pytest.mark.parametrize("text", ["a\nb", "a\0", "\ud800", "“a”"])
def test_a_text_that_no_header_carries_is_unclear_and_not_repeated(text: str) -> None:
    with pytest.raises(LeaseUnavailable, match="'a' is not plain ASCII"):
        ProviderHttp("x", "https://x").text({"a": text}, "a")


@pytest.mark.parametrize("key", ["k3y ", "k3y\nk3y", "“k3y”", "k3y\0", ""])
async def test_a_key_that_no_header_carries_is_refused_before_anything_is_asked(echo: Echo, key: str) -> None:
    with pytest.raises(LeaseRefused, match="blank or line end") as caught:
        await ProviderHttp("x", echo.url).send("GET", "/", headers={"authorization": f"Bearer {key}"})
    assert "k3y" not in "".join(traceback.format_exception(caught.value))
    assert not hasattr(echo, "call")


@pytest.mark.parametrize("text", ["soon", "2026-01-01T00:00:00", "1"])
def test_a_time_has_a_zone(text: str) -> None:
    http = ProviderHttp("x", "https://x")
    with pytest.raises(LeaseUnavailable):
        http.moment({"a": text}, "a")
    assert http.moment({"a": "2026-01-01T00:00:00Z"}, "a") == NOW


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("5", 5.0), ("", None), ("Wed, 21 Oct 2026 07:28:00 GMT", None), ("-1", None), ("inf", None), (FAR, None)],
)
def test_when_to_come_back(text: str, seconds: float | None) -> None:
    assert Answer(429, b"", {"retry-after": text}).retry_after == seconds


def test_when_to_come_back_by_the_date_of_the_provider() -> None:
    told = {"retry-after": "Thu, 01 Jan 2026 00:01:00 GMT", "date": "Thu, 01 Jan 2026 00:00:00 GMT"}
    assert Answer(429, b"", told).retry_after == 60


@pytest.mark.parametrize("headers", [{"retry-after": "5"}, {"x-ratelimit-remaining": "0"}])
def test_a_403_that_is_a_limit_is_for_later(headers: dict[str, str]) -> None:
    with pytest.raises(LeaseUnavailable, match="too often"):
        ProviderHttp("x", "https://x").require_success(Answer(403, b"", headers))


def test_a_lifetime_is_measured_by_the_clock_of_the_provider() -> None:
    ends = NOW + timedelta(hours=1)
    assert lifetime(ends, ends - timedelta(seconds=900), NOW, 1) == 900
    assert lifetime(ends, None, NOW, 1) == 3600
    assert lifetime(NOW, None, ends, 900) == 900, "one of the clocks is wrong"


def test_dates_that_make_no_sense_are_none() -> None:
    assert parse_date("Thu, 01 Jan 2026 00:00:00 GMT") == NOW
    assert [parse_date(text) for text in ("", "yesterday", "Thu, 01 Jan 2026 00:00:00 -0000")] == [None, None, None]


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_what_stays_on_this_machine_goes_through_no_proxy(
    echo: Echo, host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    http = ProviderHttp("x", echo.url.replace("127.0.0.1", host))
    assert (await http.send("GET", "/a", headers={"authorization": "Bearer secret"})).status == 200
