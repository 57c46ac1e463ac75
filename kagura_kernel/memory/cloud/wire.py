"""The cloud: where it is, the key for it, its tools over HTTP, and telling it what runs cost.

The order in which a key is looked for is that of the service's public client: what the caller names, `KAGURA_API_KEY`,
the profile that `kagura auth login` has left in `~/.kagura/credentials.json`, and `.kagura.json` in the home directory.
A `.kagura.json` in a project is not read unless the caller names its directory: whoever writes there, a box for one,
would choose which server is asked for trusted memories.

What is asked again after a failure is what may be asked twice. Redirects are not followed: they would carry the key
elsewhere. Every way of saying no is told in our words, and no error holds the key, nor what the server says where it
looks like one.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import re
import threading
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from kagura_kernel.domain.errors.memory import MemoryInvalid, MemoryStoreError, MemoryUnavailable, MemoryUnknown
from kagura_kernel.domain.late_dataclass import dataclass, field

if TYPE_CHECKING:
    import httpx


CLOUD = "https://memory.kagura-ai.com/mcp"
"""Where the public service answers."""

_LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})
_GET_A_KEY = "Set KAGURA_API_KEY to a key of the workspace, or run `kagura auth login`"
_GET_A_CONTEXT = "Set KAGURA_CONTEXT_ID to the UUID of a context of the workspace"


@dataclass(frozen=True, slots=True)
class CloudAccess:
    """What it takes to reach a context."""

    url: str  # Address of the MCP endpoint, without a query
    context_id: str  # UUID of the context that holds the memories
    key: str = field(repr=False)  # Sent as a bearer token; not shown
    source: str = "the given key"  # Where the key was found, for messages
    named: str = "KAGURA_CONTEXT_ID"  # What may be wrong besides the address where nothing is found

    def __post_init__(self) -> None:
        """Refuse an address that would show the key to others.

        Raises:
            MemoryUnavailable: it is neither HTTPS nor on this machine, it is no address, or the key cannot be sent.
        """
        check_address(self.url)
        if not self.key.isascii() or not self.key.isprintable() or " " in self.key or not self.key:
            raise unavailable(place_of(self.url), f"the key from {self.source} is no API key", _GET_A_KEY)


def find_access(url: str, environ: Mapping[str, str], home: Path, *, now: datetime | None = None) -> CloudAccess:
    """How to reach the cloud, by the first source that has a key.

    Args:
        url: The address that the caller names, see `CloudAccess`; it wins whatever the key's source is. May be empty.
        environ: `KAGURA_API_KEY`, `KAGURA_MCP_URL`, `KAGURA_CONTEXT_ID`, `KAGURA_PROFILE`.
        home: The person's home directory. A project's `.kagura.json` is not read: it would choose who is told.
        now: For the profile's expiry; the machine's own time unless a test says otherwise.

    Raises:
        MemoryUnavailable: there is no key or no context, a file cannot be read, or the sign-in has expired.
    """
    file = home / ".kagura.json"
    config = _object(file) if file.is_file() else {}
    context = environ.get("KAGURA_CONTEXT_ID", "") or _text(config, "context_id")
    found, key, source = _key(environ, home, config, now or datetime.now(UTC))
    url = url or found or CLOUD
    if not key:
        raise unavailable(place_of(url), "there is no key for it", _GET_A_KEY)
    if not context:
        raise unavailable(place_of(url), "no context is named", _GET_A_CONTEXT)
    return CloudAccess(url, context, key, source)


def check_address(url: str) -> None:
    """Return when a key may be sent there.

    Raises:
        MemoryUnavailable: it is neither HTTPS nor on this machine, or it is no address.
    """
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        parts, host = urlsplit(""), None
    if host is None or parts.scheme not in {"http", "https"}:
        raise unavailable("the given address", "it is no web address", f"Write it like {CLOUD}")
    if parts.username or parts.password:
        raise unavailable(place_of(url), "its address holds a user or a password", "Name the key by itself")
    if parts.scheme == "http" and host not in _LOOPBACK:
        why = "plain HTTP would show the key and every memory to the network"
        raise unavailable(place_of(url), why, "Write https://")


def unavailable(where: str, why: str, advice: str) -> MemoryUnavailable:
    """An error about an address, with what to do about it."""
    return MemoryUnavailable(where, why, f"{advice}.")


def place_of(url: str) -> str:
    """An address for messages: neither user nor password nor query."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def _key(environ: Mapping[str, str], home: Path, config: Mapping[str, Any], now: datetime) -> tuple[str, str, str]:
    if key := environ.get("KAGURA_API_KEY", "").strip():
        return environ.get("KAGURA_MCP_URL", ""), key, "KAGURA_API_KEY"
    profile = _profile(home / ".kagura" / "credentials.json", environ.get("KAGURA_PROFILE", ""), now)
    if profile is not None:
        return _text(profile, "mcp_url"), _text(profile, "access_token"), "~/.kagura/credentials.json"
    return _text(config, "mcp_url"), _text(config, "api_key"), ".kagura.json"


def _profile(path: Path, wanted: str, now: datetime) -> Mapping[str, Any] | None:
    """The profile that is asked for, or the usual one.

    Raises:
        MemoryUnavailable: the one asked for is not there, or its sign-in has expired.
    """
    told = _object(path)
    name = wanted or _text(told, "default_profile") or "default"
    profiles = told.get("profiles")
    profile = profiles.get(name) if isinstance(profiles, dict) else None
    if not isinstance(profile, dict):
        if wanted:
            raise unavailable("the cloud", f"there is no profile {wanted!r}", "Run `kagura auth login`")
        return None
    ends = _text(profile, "expires_at")
    try:
        expired = bool(ends) and datetime.fromisoformat(ends) <= now
    except (ValueError, TypeError):
        expired = False
    if expired:
        why = f"the sign-in of the profile {name!r} has expired"
        raise unavailable("the cloud", why, "Run any `kagura` command to renew it, or set KAGURA_API_KEY")
    return profile


def _object(path: Path) -> Mapping[str, Any]:
    """A file's JSON object; empty when there is no such file.

    Raises:
        MemoryUnavailable: it cannot be read, or holds something else. Its content is not told.
    """
    try:
        told = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError):
        told = None
    if not isinstance(told, dict):
        raise unavailable("the cloud", f"{path.name} cannot be read as JSON", "Mend it, or move it away")
    return told


def _text(told: Mapping[str, Any], name: str) -> str:
    value = told.get(name)
    return value.strip() if isinstance(value, str) else ""


TIMEOUT = 65.0
"""Seconds that the server may think; it gives itself at most sixty."""
CONNECT = 5.0
OLDEST = (0, 24, 0)
"""The first server that tells trusted memories from others."""

_PROTOCOL = "2025-03-26"
_PAUSES = (0.2, 0.8)
"""Seconds before it is asked again."""
_ONCE = frozenset({"remember", "feedback"})
"""Tools that do something again when they are called again."""
_LARGEST = 16 << 20
_NUMBER = re.compile(r"[0-9]{1,9}")
_NO_METHOD = -32601
_OK, _UNAUTHORIZED, _FORBIDDEN, _NOT_FOUND, _TOO_MANY, _BROKEN = 200, 401, 403, 404, 429, 500
_TRY_LATER = "Try again later"


@dataclass(frozen=True, slots=True)
class CloudAnswer:
    """What the server answered."""

    status: int  # Of HTTP
    headers: Mapping[str, str] = field(default_factory=dict)  # Names in lower case
    body: bytes = field(default=b"", repr=False)  # As it came


class _Passing(Exception):
    """Something that may go well the next time; `sent` says whether the server may have acted."""

    def __init__(self, error: MemoryStoreError, *, sent: bool) -> None:
        super().__init__(str(error))
        self.error = error
        self.sent = sent


class CloudWire:
    """One context's tools. Any thread may call them."""

    def __init__(self, access: CloudAccess, *, timeout: float = TIMEOUT) -> None:
        self.where = place_of(access.url)
        self.context_id = access.context_id
        self._access = access
        self._timeout = timeout
        self._lock = threading.Lock()
        self._client: httpx.Client | None = None
        self._closed = False
        self._session = ""
        self._numbers = itertools.count(1)

    def call(self, tool: str, **arguments: Any) -> Mapping[str, Any]:
        """What a tool answers.

        Raises:
            MemoryUnavailable: the cloud cannot be reached, or refuses this key.
            MemoryUnknown: there is no such memory.
            MemoryInvalid: it does not take these arguments.
        """
        told = {"name": tool, "arguments": {"context_id": self.context_id, **arguments}}
        result = self._patiently(lambda: self._in_session(told), again=tool not in _ONCE)
        try:
            answer = json.loads(result["content"][0]["text"])
        except (LookupError, TypeError, ValueError, RecursionError):
            raise self.unclear() from None
        if not isinstance(answer, dict):
            raise self.unclear()
        if answer.get("status") == "error":
            raise self._refusal(tool, answer, arguments)
        return answer

    def get(self, path: str, **parameters: Any) -> Mapping[str, Any]:
        """What a REST route beside the tools answers. Raises like `call`."""
        return self._patiently(lambda: self._object(self._send("GET", self._root + path, params=parameters)))

    def push(self, path: str, body: Mapping[str, Any], headers: Mapping[str, str]) -> Mapping[str, Any]:
        """Post what may be posted twice to a REST route. Raises like `call`."""
        return self._patiently(
            lambda: self._object(self._send("POST", self._root + path, json=dict(body), headers=dict(headers)))
        )

    def check_version(self) -> None:
        """Return when the server is new enough.

        Raises:
            MemoryUnavailable: it is not, or cannot be reached.
        """
        version = str(self.get("/api/v1/system/info").get("version", ""))
        parts = version.removeprefix("v").split("-")[0].split("+")[0].split(".")[:3]
        found = tuple(int(part) for part in parts if _NUMBER.fullmatch(part))
        if found < OLDEST[: len(found)]:
            oldest = ".".join(map(str, OLDEST))
            raise self.unavailable(f"the server has version {version}, and {oldest} is needed", "Upgrade the server")

    def told(self, answer: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
        """The objects that an answer lists under a name.

        Raises:
            MemoryUnavailable: there is something else.
        """
        found = answer.get(name) or []
        if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
            raise self.unclear()
        return found

    def unavailable(self, why: str, advice: str) -> MemoryUnavailable:
        """An error about this cloud."""
        return unavailable(self.where, self._safe(why), advice)

    def close(self) -> None:
        """Close every connection; may be called twice."""
        with self._lock:
            self._closed = True
            client, self._client = self._client, None
        if client is not None:
            client.close()

    @property
    def _root(self) -> str:
        parts = urlsplit(self._access.url)
        return f"{parts.scheme}://{parts.netloc}" + parts.path.partition("/mcp")[0].rstrip("/")

    def _patiently(self, ask: Callable[[], Mapping[str, Any]], *, again: bool = True) -> Mapping[str, Any]:
        for pause in (*_PAUSES, None):
            try:
                return dict(ask())
            except _Passing as trouble:
                if pause is None or (trouble.sent and not again):
                    raise trouble.error from None
                time.sleep(pause)
        raise AssertionError  # pragma: no cover - the last turn returns or raises

    def _in_session(self, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
        """One call in a session; a session that the server does not know any more is begun again, once."""
        for attempt in (1, 2):
            session = self._begun()
            response = self._post("tools/call", parameters, session)
            if response.status != _NOT_FOUND:
                break
            with self._lock:
                # Only while it is still the stale one: another thread may have begun a new one.
                if self._session == session:
                    self._session = ""
            if attempt == 2:  # noqa: PLR2004 - the second of the two above
                raise self.unavailable("there is no memory service at this address", "Correct the address")
        return self._result(response)

    def _begun(self) -> str:
        with self._lock:
            if self._session:
                return self._session
        client = {"name": "kagura-kernel", "version": "1"}
        told = {"protocolVersion": _PROTOCOL, "capabilities": {}, "clientInfo": client}
        response = self._post("initialize", told, "")
        if response.status == _NOT_FOUND:
            raise self.unavailable("there is no memory service at this address", "Correct the address")
        self._result(response)
        session = response.headers.get("mcp-session-id", "")
        if not session:
            raise self.unavailable("it begins no session", "See that the address ends with /mcp")
        with self._lock:
            self._session = session
        return session

    def _post(self, method: str, parameters: Mapping[str, Any], session: str) -> CloudAnswer:
        body = {"jsonrpc": "2.0", "id": next(self._numbers), "method": method, "params": dict(parameters)}
        headers = {"mcp-session-id": session} if session else {}
        return self._send("POST", self._access.url, json=body, headers=headers, missing_is_answer=True)

    def _send(self, method: str, url: str, *, missing_is_answer: bool = False, **more: Any) -> CloudAnswer:
        import httpx

        try:
            with self._http().stream(method, url, **more) as response:
                headers = {name.lower(): value for name, value in response.headers.items()}
                self._judge(response.status_code, headers, missing_is_answer=missing_is_answer)
                return CloudAnswer(response.status_code, headers, self._body(response))
        # The last of them for a host whose xn-- part stands for no name.
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.ProxyError, UnicodeError) as error:
            advice = "See that you are online and that the address is right"
            raise _Passing(self.unavailable(f"there is no way to it ({_words(error)})", advice), sent=False) from None
        except httpx.TimeoutException:
            why = f"it did not answer within {self._timeout:g} s, and may have done what it was asked"
            raise _Passing(self.unavailable(why, _TRY_LATER), sent=True) from None
        except (httpx.HTTPError, RuntimeError) as error:
            why = f"the connection broke ({_words(error)}), and it may have done what it was asked"
            raise _Passing(self.unavailable(why, _TRY_LATER), sent=True) from None

    def _body(self, response: httpx.Response) -> bytes:
        """All of an answer that comes in time, as it comes: unpacked, a few bytes may fill the memory."""
        import httpx

        latest = time.monotonic() + self._timeout
        body = bytearray()
        for part in response.iter_raw():
            body += part
            if len(body) > _LARGEST:
                raise _Passing(self.unclear(), sent=True)
            if time.monotonic() > latest:
                raise httpx.ReadTimeout("")
        return bytes(body)

    def _judge(self, status: int, headers: Mapping[str, str], *, missing_is_answer: bool) -> None:
        if _OK <= status < 300 or (status == _NOT_FOUND and missing_is_answer):  # noqa: PLR2004 - what HTTP calls success
            return
        if status == _UNAUTHORIZED:
            advice = "Make a new key in the workspace's settings, or run `kagura auth login`"
            raise self.unavailable(f"it refuses the key from {self._access.source}", advice)
        if status == _FORBIDDEN:
            raise self.unavailable("this key may not do that there", "Ask the workspace's owner for the right")
        if status == _TOO_MANY:
            wait = headers.get("retry-after", "")
            raise self.unavailable(
                "it was asked too often", f"Wait {wait} s" if _NUMBER.fullmatch(wait) else _TRY_LATER
            )
        # Some routes say no more of a context that is not there.
        advice = _TRY_LATER if status >= _BROKEN else f"Correct the address, or {self._access.named}"
        error = self.unavailable(f"it answers with HTTP {status}", advice)
        if status >= _BROKEN:
            raise _Passing(error, sent=True)
        raise error

    def _result(self, response: CloudAnswer) -> Mapping[str, Any]:
        told = self._object(response)
        error = told.get("error")
        if isinstance(error, dict):
            if error.get("code") == _NO_METHOD:
                raise self.unavailable(f"the server is too old ({error.get('message')})", "Upgrade the server")
            raise self.unavailable(f"it says: {error.get('message')}", "See that the address is right")
        result = told.get("result")
        return result if isinstance(result, dict) else {}

    def _object(self, response: CloudAnswer) -> Mapping[str, Any]:
        try:
            told = json.loads(response.body)
        except (ValueError, RecursionError):
            told = None
        if not isinstance(told, dict):
            raise _Passing(self.unclear(), sent=True)
        return told

    def _refusal(self, tool: str, answer: Mapping[str, Any], arguments: Mapping[str, Any]) -> MemoryStoreError:
        code, message = str(answer.get("error", "")), self._safe(str(answer.get("message", "")))
        if code in {"memory_not_found", "invalid_memory_id_format", "invalid_uuid_format"}:
            named = arguments.get("memory_id") or arguments.get("source_id") or ""
            return MemoryUnknown(f"mem-{named}")
        if code == "context_not_found":
            return self.unavailable("there is no such context for this key", "Correct KAGURA_CONTEXT_ID")
        if code == "permission_denied":
            return self.unavailable("it is read-only for this key", "Use the key of a member who may write")
        if code in {"validation_error", "missing_fields", "self_loop_not_allowed", "invalid_edge_type"}:
            return MemoryInvalid(f"What {tool!r} was asked", [message.rstrip(".") or code])
        return self.unavailable(f"it refuses {tool!r}: {message.rstrip('.') or code}", _TRY_LATER)

    def unclear(self) -> MemoryUnavailable:
        """An error about an answer that is none."""
        return self.unavailable("its answer cannot be understood", "See that the address is that of a memory service")

    def _safe(self, text: str) -> str:
        if self._access.key in text or "bearer" in text.lower():
            return "what it says holds a key and is not repeated"
        return " ".join(text.split())[:300]

    def _http(self) -> httpx.Client:
        import httpx

        with self._lock:
            if self._closed:
                raise self.unavailable("it was closed", "Open it again")
            if self._client is None:
                self._client = httpx.Client(
                    timeout=httpx.Timeout(self._timeout, connect=CONNECT),
                    headers={"authorization": f"Bearer {self._access.key}", "accept-encoding": "identity"},
                    follow_redirects=False,
                )
            return self._client


def _words(error: Exception) -> str:
    return " ".join(str(error).split())[:120] or type(error).__name__


class CloudEvents:
    """Tells a resource of the workspace what runs cost, or how their tasks stand."""

    def __init__(self, access: CloudAccess, resource_id: str, key: str) -> None:
        self._wire = CloudWire(access)
        self._path = f"/api/v1/resources/{quote(resource_id, safe='')}/events/batch"
        self._headers = {"x-resource-api-key": key}  # Its own, which may do nothing else

    def push(self, run_id: str, facts: Mapping[str, Any]) -> None:
        """Tell facts of one run, JSON values; they take the place of earlier ones, and told twice they are there once.

        Raises:
            MemoryUnavailable: the cloud cannot be reached, or refuses.
        """
        told = dict(facts)
        mark = hashlib.sha256(json.dumps([run_id, told], sort_keys=True).encode()).hexdigest()
        event = {"op": "upsert", "doc_id": run_id, "payload": told, "idempotency_key": mark}
        self._wire.push(self._path, {"events": [event]}, self._headers)

    def close(self) -> None:
        """Close every connection; may be called twice."""
        self._wire.close()
