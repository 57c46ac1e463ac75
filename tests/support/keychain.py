"""A keychain that lives as long as its process."""

from __future__ import annotations

from keyring.backend import KeyringBackend


class Keychain(KeyringBackend):
    """Keeps secrets in memory."""

    priority = 1

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # keyring's is untyped
        self.kept: dict[tuple[str, str], str] = {}

    def get_password(self, service: str, username: str) -> str | None:
        return self.kept.get((service, username))

    def set_password(self, service: str, username: str, password: str) -> None:
        self.kept[service, username] = password
