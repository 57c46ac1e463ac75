"""HTTP as providers speak it: one short request, one small JSON answer, errors in our words.

No answer's text is ever repeated in an error: it might hold a token. Redirects are not followed: they would carry the
key elsewhere.
"""

from __future__ import annotations

import asyncio
import json
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from datetime import datetime
from email.utils import parsedate_to_datetime
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, TypeVar
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict

from kagura_kernel.domain.clock import Clock, SystemClock
from kagura_kernel.domain.errors import LeaseRefused, LeaseUnavailable
from kagura_kernel.domain.late_dataclass import KW_ONLY, dataclass, field
from kagura_kernel.membrane.credentials.provider import Minted, MintRequest, ProviderTraits, Revocation, Verdict
from kagura_kernel.membrane.credentials.revoke import judge
from kagura_kernel.membrane.credentials.secret import SecretReader, SecretReference

if TYPE_CHECKING:
    import ssl

_CARRIED = re.compile(r"[!-~]+( +[!-~]+)*")

TIMEOUT = 10.0
"""Seconds for connecting, for each silence, and, twice, for the whole exchange."""

LARGEST = 1 << 20
"""Bytes of an answer; a longer one is none."""

AS_IT_IS = {"accept-encoding": "identity"}
"""Asks for an answer that is not packed, and is read as it comes: a few bytes may unpack into gigabytes."""

_TOO_MANY = 429
_FORBIDDEN = 403
_WRONG_KEY = frozenset({401, _FORBIDDEN})
_LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})

DIRECT: Mapping[str, None] = {"all://127.0.0.1": None, "all://[::1]": None, "all://localhost": None}
"""For httpx, as `mounts`: what may be plain HTTP because it stays on this machine goes through no proxy."""


class Strict(BaseModel):
    """A part of a configuration: no other names than these, and no error that repeats a value."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


def check_url(url: str) -> str:
    """The URL, when a key may be sent there.

    Raises:
        ValueError: it is neither HTTPS nor loopback, or holds a name and password.
    """
    try:
        parts = urlsplit(url)
        host = parts.hostname
    except ValueError:
        raise ValueError("it is no URL") from None
    if parts.username is not None or parts.password is not None:
        raise ValueError("it must not hold a name or password")
    if not host or parts.scheme not in {"https", "http"}:
        raise ValueError("it is no URL of the form https://host")
    if parts.scheme == "http" and host not in _LOOPBACK:
        raise ValueError("it must be https, except on loopback")
    return url


@dataclass(frozen=True, slots=True)
class Answer:
    """What a provider answered."""

    status: int  # HTTP status
    body: bytes = field(repr=False)  # The raw body, not shown
    headers: Mapping[str, str] = field(repr=False)  # Names in lower case

    @property
    def succeeded(self) -> bool:
        """Whether the status says so."""
        return 200 <= self.status < 300  # noqa: PLR2004 - what HTTP calls success

    @property
    def retry_after(self) -> float | None:
        """Seconds the provider wants to be left alone, if it said so: as a number, or as a date beside its own."""
        text = self.headers.get("retry-after", "")
        try:
            seconds = float(text)
        except ValueError:
            until, now = parse_date(text), self.date
            seconds = (until - now).total_seconds() if until and now else -1.0
        return seconds if 0 <= seconds < float("inf") else None

    @property
    def too_often(self) -> bool:
        """Whether it was asked too often; some say that with 403."""
        limited = self.retry_after is not None or self.headers.get("x-ratelimit-remaining") == "0"
        return self.status == _TOO_MANY or (self.status == _FORBIDDEN and limited)

    @property
    def date(self) -> datetime | None:
        """The provider's own clock."""
        return parse_date(self.headers.get("date", ""))


@dataclass(eq=False, repr=False)
class ProviderHttp:
    """Requests to one provider; what is read of an answer raises `LeaseUnavailable` where it is not as it must be."""

    provider: str
    base_url: str
    _: KW_ONLY
    timeout: float = TIMEOUT

    def __post_init__(self) -> None:
        check_url(self.base_url)
        self._base = self.base_url.rstrip("/")

    async def send(
        self,
        method: str,
        path: str,
        *,
        headers: Mapping[str, str],
        json_body: Any = None,
        parameters: Mapping[str, str] | None = None,
    ) -> Answer:
        """One request; any status is an answer.

        Raises:
            LeaseUnavailable: there was no answer; `uncertain` when the provider may have acted all the same.
            LeaseRefused: no header can carry the key.
        """
        import httpx

        if not all(map(_CARRIED.fullmatch, headers.values())):
            # The library's own errors would repeat it.
            raise LeaseRefused(
                self.provider, "its key has a blank or line end too many, or a sign other than those of plain ASCII"
            )
        try:
            async with (
                asyncio.timeout(2 * self.timeout),
                httpx.AsyncClient(
                    verify=machine_trust(), timeout=self.timeout, follow_redirects=False, mounts=DIRECT
                ) as client,
                client.stream(
                    method, self._base + path, headers={**AS_IT_IS, **headers}, json=json_body, params=parameters
                ) as response,
            ):
                body = bytearray()
                async for piece in response.aiter_raw():
                    body += piece
                    if len(body) > LARGEST:
                        raise self.unclear("its answer is too large")
                return Answer(response.status_code, bytes(body), dict(response.headers))
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.ProxyError) as error:
            raise LeaseUnavailable(self.provider, "it cannot be reached") from error
        except (TimeoutError, httpx.TimeoutException) as error:
            raise self.unclear("it did not answer in time") from error
        # The last of them where it leads on to a host whose xn-- part stands for no name.
        except (httpx.HTTPError, httpx.StreamError, UnicodeError) as error:
            raise self.unclear("the connection broke") from error

    def require_success(self, answer: Answer) -> Answer:
        """The answer, when it is a good one.

        Raises:
            LeaseRefused: it says no for good.
            LeaseUnavailable: it says later.
        """
        if answer.succeeded:
            return answer
        if answer.too_often:
            why = f"it is asked too often (HTTP {answer.status})"
            raise LeaseUnavailable(self.provider, why, retry_after=answer.retry_after)
        if answer.status >= 500:  # noqa: PLR2004 - where HTTP's server errors begin
            raise LeaseUnavailable(
                self.provider,
                f"it has trouble of its own (HTTP {answer.status})",
                uncertain=True,
                retry_after=answer.retry_after,
            )
        if answer.status in _WRONG_KEY:
            raise LeaseRefused(self.provider, f"it does not accept our key for this (HTTP {answer.status})")
        raise LeaseRefused(self.provider, f"it answered HTTP {answer.status}")

    def object(self, answer: Answer) -> dict[str, Any]:
        """The JSON object of a good answer."""
        try:
            value = json.loads(answer.body)
        except (ValueError, RecursionError):
            # Not chained: the error of the parser carries the text it parsed.
            raise self.unclear("its answer is not JSON") from None
        if not isinstance(value, dict):
            raise self.unclear("its answer is not a JSON object")
        return value

    def text(self, value: Mapping[str, Any], name: str) -> str:
        """A field of an answer that must be a text with something in it."""
        found = value.get(name)
        if not isinstance(found, str) or not found:
            raise self.unclear(f"its answer has no {name!r}")
        if not (found.isascii() and found.isprintable()):
            raise self.unclear(f"its {name!r} is not plain ASCII")
        return found

    def moment(self, value: Mapping[str, Any], name: str) -> datetime:
        """A field of an answer that must be a time."""
        text = self.text(value, name)
        try:
            found = datetime.fromisoformat(text)
        except ValueError:
            raise self.unclear(f"its {name!r} is no time") from None
        if found.tzinfo is None:
            raise self.unclear(f"its {name!r} has no time zone")
        return found

    def unclear(self, why: str) -> LeaseUnavailable:
        """The error for an answer that leaves open whether the provider acted."""
        return LeaseUnavailable(self.provider, why, uncertain=True)


class ProviderSettings(Protocol):
    """What a provider is told beside its secrets."""

    @property
    def scopes(self) -> Mapping[str, Any]:
        """What can be minted, by name."""


SettingsT = TypeVar("SettingsT", bound=ProviderSettings)


@dataclass(eq=False, repr=False)
class Provider(ABC, Generic[SettingsT]):
    """What our own providers have in common. Of one that says nothing else nobody can end a credential early."""

    kind: ClassVar[str]
    traits: ClassVar[ProviderTraits]

    name: str
    settings: SettingsT
    secrets: Mapping[str, SecretReference]  # Its keys, by the names that the registry has for them
    reader: SecretReader
    _: KW_ONLY
    clock: Clock = field(default_factory=SystemClock)
    timeout: float = TIMEOUT  # Seconds

    @property
    def scopes(self) -> frozenset[str]:
        """The scopes it can mint for."""
        return frozenset(self.settings.scopes)

    @abstractmethod
    async def mint(self, request: MintRequest) -> Minted:
        """Make one credential; errors are those of `CredentialProvider`."""

    async def revoke(self, handle: str) -> Revocation:  # noqa: ARG002 - a provider's shape
        """There is no such call; the credential ends by itself."""
        return Revocation(Verdict.GONE)

    async def find(self, mark: str) -> str:  # noqa: ARG002 - a provider's shape
        """Nothing is looked for."""
        return ""


class ApiSettings(ProviderSettings, Protocol):
    """Those of a provider with an HTTP API."""

    @property
    def api_url(self) -> str:
        """Where it answers."""


ApiSettingsT = TypeVar("ApiSettingsT", bound=ApiSettings)


@dataclass(eq=False, repr=False)
class ApiProvider(Provider[ApiSettingsT]):
    """One with a single key and an HTTP API."""

    def __post_init__(self) -> None:
        (self._key,) = self.secrets.values()
        self._http = ProviderHttp(self.name, self.settings.api_url, timeout=self.timeout)

    async def _ask(self, method: str, path: str, **more: Any) -> Answer:
        """What it answers to a request with the key; `more` is for `ProviderHttp.send`."""
        key = await self.reader.read(self._key)
        return await self._http.send(method, path, headers={"authorization": f"Bearer {key.reveal()}"}, **more)

    async def _end(self, path: str) -> Revocation:
        answer = await self._ask("DELETE", path)
        return judge(answer.status, retry_after=answer.retry_after)


def is_loopback(url: str) -> bool:
    """Whether a URL that `check_url` has passed leads to this machine."""
    return urlsplit(url).hostname in _LOOPBACK


def parse_date(text: str) -> datetime | None:
    """The moment in a `Date` header; None when it says nothing sensible."""
    try:
        found = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None
    return found if found.tzinfo is not None else None


def lifetime(expires_at: datetime, answered_at: datetime | None, now: datetime, asked: float) -> float:
    """Seconds that a credential has, by the provider's clock where it told the time; at most what makes sense.

    Without the provider's time, an end that lies in our past means that one of the clocks is wrong; then what was asked
    for is the best guess, and the lease ends no later than that anyway.
    """
    seconds = (expires_at - (answered_at or now)).total_seconds()
    return seconds if seconds > 0 else asked


@cache
def machine_trust() -> ssl.SSLContext:
    """What this machine trusts, for TLS; made once."""
    import httpx

    return httpx.create_ssl_context()
