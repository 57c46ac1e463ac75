"""What installs commands, and the packages that it is asked for. Pure.

A package is named in a definition that may come from anywhere, and its name becomes an argument of an installer. So a
name is only ever a name: no option, no address, no path, no range of versions (`kit.toolsets.parse_pin`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import get_args

from kagura_kernel.kit.definitions.toolsets import Installer, parse_pin

INSTALLERS: tuple[Installer, ...] = get_args(Installer)
"""All of them."""


@dataclass(frozen=True, slots=True)
class Package:
    """Something that an installer can be asked for.

    Attributes:
        installer: Which.
        name: As the installer knows it: `mcp-server-time`, `@scope/name`, a Go package's path, a crate, OWNER/REPO.
        version: Exactly this one (of a release its tag); empty for the newest.
    """

    installer: Installer
    name: str
    version: str = ""

    def __str__(self) -> str:
        return f"{self.installer}:{self.name}{f'@{self.version}' if self.version else ''}"

    def at(self, version: str) -> Package:
        """The same in this version."""
        return replace(self, version=version)


def parse_package(text: str) -> Package:
    """`INSTALLER:PACKAGE[@VERSION]`.

    Raises:
        ValueError: it is not written so; the text is half a sentence that does not repeat it.
    """
    pin = parse_pin(text)
    if not pin.installer:
        raise ValueError("must be written INSTALLER:PACKAGE[@VERSION], as in pip:mcp-server-time")
    return Package(pin.installer, pin.package, pin.version)
