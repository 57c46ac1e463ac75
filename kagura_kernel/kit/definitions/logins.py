"""What a person has to show to hosts that do not give a definition to everybody; never told to any other host.

GitHub's hosts take the token in `GITHUB_TOKEN` or `GH_TOKEN`; any host the entry of its name in `~/.netrc`; a registry
what `docker login` or `podman login` has left, kept in a file or by their helper program.
"""

from __future__ import annotations

import base64
import json
import netrc
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

_GITHUB = frozenset({"github.com", "api.github.com", "raw.githubusercontent.com", "codeload.github.com"})
_TOKENS = ("GITHUB_TOKEN", "GH_TOKEN")
# Docker's own registry goes by other names, in files and where it gives tokens out.
_DOCKER = "registry-1.docker.io"
_ALIASES = {_DOCKER: ("https://index.docker.io/v1/", "index.docker.io", "docker.io")}
_TOKEN_SERVICES = {_DOCKER: "auth.docker.io"}
_HELPER_SECONDS = 10.0
_OF_HELPERS = ("PATH", "HOME", "DISPLAY", "XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS")


class Logins:
    """Looks a login up when it is needed; nothing is kept.

    Args:
        environ: Variables.
    """

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ

    def of_host(self, host: str) -> str:
        """The value of `Authorization` for a host, `HOST[:PORT]`; empty where there is none."""
        name = host.partition(":")[0]
        if is_github(host):
            for variable in _TOKENS:
                if (token := self._environ.get(variable, "").strip()) and token.isascii() and token.isprintable():
                    return f"Bearer {token}"
        return self._netrc(name)

    def of_registry(self, host: str) -> str:
        """The value of `Authorization` for a registry, or its token service; empty where there is none."""
        for path in self._registry_files():
            found = _read(path)
            for name in (host, f"https://{host}", *_ALIASES.get(host, ())):
                if login := self._stored(found, name):
                    return login
        return self._netrc(host.partition(":")[0])

    def _netrc(self, name: str) -> str:
        path = Path(self._environ.get("NETRC") or self._home() / ".netrc")
        try:
            # The entry for every other host is not looked at: it would be told to whoever is asked.
            entry = netrc.netrc(str(path)).hosts.get(name)
        except (OSError, netrc.NetrcParseError, UnicodeDecodeError):
            return ""
        return _basic(entry[0], entry[2] or "") if entry is not None else ""

    def _registry_files(self) -> Iterator[Path]:
        if named := self._environ.get("REGISTRY_AUTH_FILE"):
            yield Path(named)
        yield Path(self._environ.get("DOCKER_CONFIG") or self._home() / ".docker") / "config.json"
        yield Path(self._environ.get("XDG_CONFIG_HOME") or self._home() / ".config") / "containers" / "auth.json"

    def _stored(self, found: Mapping[str, Any], name: str) -> str:
        helper = _table(found, "credHelpers").get(name) or found.get("credsStore")
        entry = _table(found, "auths").get(name)
        if isinstance(entry, dict) and isinstance(entry.get("auth"), str) and entry["auth"]:
            return f"Basic {entry['auth'].strip()}"
        known = name in _table(found, "credHelpers") or entry is not None
        return self._helped(helper, name) if known and isinstance(helper, str) else ""

    def _helped(self, helper: str, name: str) -> str:
        if not helper.replace("-", "").replace("_", "").isalnum():
            return ""
        environ = {key: self._environ[key] for key in _OF_HELPERS if key in self._environ}
        try:
            told = subprocess.run(  # noqa: S603 - the program that the person's own configuration names
                [f"docker-credential-{helper}", "get"],
                input=name.encode(),
                capture_output=True,
                check=True,
                timeout=_HELPER_SECONDS,
                env=environ,
            )
            answer = json.loads(told.stdout)
        except (OSError, subprocess.SubprocessError, ValueError):
            return ""
        secret = answer.get("Secret") if isinstance(answer, dict) else None
        return _basic(str(answer.get("Username", "")), secret) if isinstance(secret, str) else ""

    def _home(self) -> Path:
        return Path(self._environ.get("HOME") or "/nowhere")


def is_github(host: str) -> bool:
    """Whether a host, `HOST[:PORT]`, is one of GitHub's that give files out."""
    return host.removesuffix(":443") in _GITHUB


def serves(registry: str, service: str) -> bool:
    """Whether a registry's login may be told to the host that gives its tokens out."""
    return service in (registry, _TOKEN_SERVICES.get(registry))


def _basic(user: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


def _read(path: Path) -> Mapping[str, Any]:
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _table(found: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    table = found.get(name)
    return table if isinstance(table, dict) else {}
