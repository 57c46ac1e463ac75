"""Where an answer may lead whoever asked: to the host that a person named, or to the public network.

The person's own network may answer a stranger's question because of where it comes from. So a host that only an answer
names (a redirect, a token service, a list of files) is looked at twice: by its name, and by the address that was really
connected to, before anything is said to it. Behind a proxy the name is all that can be seen; what it reaches is the
proxy's to decide.
"""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import ip_address
from typing import Any

from kagura_kernel.membrane.egress.addresses import why_refused

_HERE = "localhost"
_LOOPBACK = ("127.0.0.1", "::1")
_FOLLOWED = "and is followed to public hosts and its own alone"


class LeadsInside(Exception):
    """An answer leads to what is no public host; the text is half a sentence without the address."""


class Redirects:
    """What may be asked because of an answer.

    Args:
        asked: The host that a person named, or their settings; it may be asked wherever it is.
    """

    def __init__(self, asked: str) -> None:
        self._asked = _plain(asked)

    def check(self, host: str) -> None:
        """Look at a host's name before it is looked up.

        Raises:
            LeadsInside: it is no public one.
        """
        name = _plain(host)
        if name != self._asked and (name == _HERE or name.endswith(f".{_HERE}")):
            raise LeadsInside(f"it leads to this machine itself, {_FOLLOWED}")
        self._check_address(name, name)

    def watch(self, host: str) -> Watch:
        """What looks at the connections of one request to a host; see `Watch`."""
        return Watch(self, _plain(host))

    def connected(self, host: str, address: str) -> None:
        """Look at the address behind a host.

        Raises:
            LeadsInside: it is no public one.
        """
        self._check_address(_plain(host), address)

    def _check_address(self, name: str, address: str) -> None:
        if name == self._asked:
            return
        try:
            found = ip_address(address)
        except ValueError:
            return
        if why := why_refused(found):
            raise LeadsInside(f"it leads to an address that is not public ({why}), {_FOLLOWED}")


class Watch:
    """Hears of the connections of a request as the library tells them, and looks at those that go straight to its host.

    Args:
        redirects: What may be asked.
        host: Whom the request is for.
    """

    def __init__(self, redirects: Redirects, host: str) -> None:
        self._redirects = redirects
        self._host = host
        self._straight = False

    def __call__(self, event: str, told: Mapping[str, Any]) -> None:
        """Hear of one step.

        Raises:
            LeadsInside: it was connected to what is no public address; nothing was said there.
        """
        if event.endswith(".connect_tcp.started"):
            host = told["host"]
            self._straight = _plain(host.decode("ascii") if isinstance(host, bytes) else host) == self._host
        elif self._straight and event.endswith(".connect_tcp.complete"):
            stream = told["return_value"]
            try:
                self._redirects.connected(self._host, stream.get_extra_info("server_addr")[0])
            except LeadsInside:
                stream.close()
                raise


def _plain(host: str) -> str:
    """A host by one name, this machine too."""
    name = host.lower().rstrip(".").removeprefix("[").removesuffix("]")
    return _HERE if name in _LOOPBACK else name
