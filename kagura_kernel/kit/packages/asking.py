"""One question to a package registry: over HTTPS, without credentials, bounded in time, size and detours."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self
from urllib.parse import urlsplit

from kagura_kernel.kit.definitions.fetching import Deadline, NoClient, http_client
from kagura_kernel.kit.definitions.redirects import LeadsInside, Redirects
from kagura_kernel.kit.packages.lookup_answers import NotFound
from kagura_kernel.kit.packages.package_sources import may_ask

if TYPE_CHECKING:
    import httpx

MAX_BYTES = 32 * 2**20
MAX_REDIRECTS = 4
SECONDS = 5.0
"""How long one look-up may take in all, however many questions it takes."""

_OK = 200
_NOT_THERE = frozenset({404, 410})


class NoAnswer(Exception):
    """Nobody could be asked, or not within what is allowed; the text is half a sentence, without an address."""


class Asker:
    """Asks the questions of one look-up; a context manager.

    Args:
        url: Whom the person's settings have asked; beside its host only public ones are asked.
        transport: What carries the requests; None is the network, by the proxy that the process's variables name.
        seconds: How long all of it may take.

    Raises:
        NoAnswer: this process cannot ask anybody.
    """

    def __init__(self, url: str, transport: httpx.BaseTransport | None = None, seconds: float = SECONDS) -> None:
        self._redirects = Redirects(urlsplit(url).hostname or "")
        # Made anew for each look-up: nothing is remembered from one registry to the next, cookies included.
        try:
            self._client = http_client(transport, seconds)
        except NoClient as error:
            raise NoAnswer(f"it could not be asked: {error}") from error
        self._deadline = Deadline(seconds)
        self._seconds = seconds

    def __enter__(self) -> Self:
        self._deadline.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._deadline.__exit__()
        self._client.close()

    def ask(self, url: str, accept: str = "application/json", limit: int = MAX_BYTES) -> tuple[bytes, str, str]:
        """An answer, its media type, and the address that gave it.

        Raises:
            NotFound: there is nothing at that address.
            NoAnswer: it could not be asked, or answers too much, too late or with a failure.
        """
        import httpx

        try:
            address = httpx.URL(url)
            for _ in range(MAX_REDIRECTS + 1):
                if not may_ask(str(address)):
                    raise NoAnswer("it is asked over HTTPS alone, and not with a user name")
                self._redirects.check(address.host)
                self._in_time()
                request = self._client.build_request(
                    "GET",
                    address,
                    headers={"Accept": accept},
                    timeout=self._seconds,
                    extensions=self._deadline.extensions(self._redirects.watch(address.host)),
                )
                response = self._client.send(request, stream=True)
                try:
                    if response.next_request is None:
                        return self._body(response, limit), response.headers.get("content-type", ""), str(address)
                    address = response.next_request.url
                finally:
                    response.close()
        except LeadsInside as error:
            raise NoAnswer(str(error)) from error
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            self._in_time()
            raise NoAnswer(_why(error)) from error
        raise NoAnswer(f"it leads on more than {MAX_REDIRECTS} times")

    def _body(self, response: httpx.Response, limit: int) -> bytes:
        if response.status_code in _NOT_THERE:
            raise NotFound("there is no such package")
        if response.status_code != _OK:
            raise NoAnswer(f"it answers {response.status_code}")
        data = bytearray()
        for part in response.iter_bytes():
            data += part
            if len(data) > limit:
                raise NoAnswer(f"it answers with more than {limit >> 20 or 1} MiB")
            self._in_time()
        # An answer without a length looks whole wherever it was ended.
        self._in_time()
        return bytes(data)

    def _in_time(self) -> None:
        if self._deadline.over:
            raise NoAnswer(f"it takes longer than {self._seconds:g} s")


def _why(error: Exception) -> str:
    """In words of ours: the library's may hold an address."""
    import httpx

    if isinstance(error, httpx.TimeoutException):
        return "the registry does not answer in time"
    if isinstance(error, httpx.ProxyError):
        return "the proxy does not let the registry be asked"
    if isinstance(error, httpx.ConnectError):
        return "the registry cannot be reached"
    return f"the registry could not be asked ({type(error).__name__})"
