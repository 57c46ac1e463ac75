"""Where the cloud is, and the key for it; the key is never shown.

The order is that of the service's public client: what the caller names, `KAGURA_API_KEY`, the profile that
`kagura auth login` has left in `~/.kagura/credentials.json`, and `.kagura.json` in the home directory. A `.kagura.json`
in a project is not read unless the caller names its directory: whoever writes there, a box for one, would choose which
server is asked for trusted memories.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from kagura_kernel.domain.errors.memory import MemoryUnavailable

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

    def __post_init__(self) -> None:
        """Refuse an address that would show the key to others.

        Raises:
            MemoryUnavailable: it is neither HTTPS nor on this machine, it is no address, or the key cannot be sent.
        """
        check_address(self.url)
        if not self.key.isascii() or not self.key.isprintable() or " " in self.key or not self.key:
            raise unavailable(place_of(self.url), f"the key from {self.source} is no API key", _GET_A_KEY)


@dataclass(frozen=True, slots=True)
class Named:
    """What the caller names; everything is optional."""

    url: str = ""  # See `CloudAccess`
    context_id: str = ""
    key: str = field(default="", repr=False)  # The API key; not shown


def find_access(
    named: Named,
    environ: Mapping[str, str],
    home: Path,
    *,
    project: Path | None = None,
    now: datetime | None = None,
) -> CloudAccess:
    """How to reach the cloud, by the first source that has a key.

    Args:
        named: What the caller names; its address and its context win whatever the key's source is.
        environ: `KAGURA_API_KEY`, `KAGURA_MCP_URL`, `KAGURA_CONTEXT_ID`, `KAGURA_PROFILE`.
        home: The person's home directory.
        project: Where a `.kagura.json` may be that is read before the home's.
        now: For the profile's expiry; the machine's own time unless a test says otherwise.

    Raises:
        MemoryUnavailable: there is no key or no context, a file cannot be read, or the sign-in has expired.
    """
    config, config_name = _config(home, project)
    context = named.context_id or environ.get("KAGURA_CONTEXT_ID", "") or _text(config, "context_id")
    url, key, source = _key(named, environ, home, (config, config_name), now or datetime.now(UTC))
    url = named.url or url or CLOUD
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


def _key(
    named: Named, environ: Mapping[str, str], home: Path, config: tuple[Mapping[str, Any], str], now: datetime
) -> tuple[str, str, str]:
    if named.key.strip():
        return environ.get("KAGURA_MCP_URL", ""), named.key.strip(), "the given key"
    if key := environ.get("KAGURA_API_KEY", "").strip():
        return environ.get("KAGURA_MCP_URL", ""), key, "KAGURA_API_KEY"
    profile = _profile(home / ".kagura" / "credentials.json", environ.get("KAGURA_PROFILE", ""), now)
    if profile is not None:
        return _text(profile, "mcp_url"), _text(profile, "access_token"), "~/.kagura/credentials.json"
    return _text(config[0], "mcp_url"), _text(config[0], "api_key"), config[1]


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


def _config(home: Path, project: Path | None) -> tuple[Mapping[str, Any], str]:
    for directory in (project, home):
        path = directory / ".kagura.json" if directory else None
        if path is not None and path.is_file():
            return _object(path), ".kagura.json"
    return {}, ""


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
