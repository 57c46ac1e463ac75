"""The user's credential providers, from the file beside the settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING

from kagura_kernel.journal.place import settings_file, text_of
from kagura_kernel.membrane.credentials.secret import SecretReader

if TYPE_CHECKING:
    from kagura_kernel.membrane.credentials.provider import CredentialProvider
    from kagura_kernel.membrane.credentials.registry import Registry


def load_registry(environ: Mapping[str, str]) -> Registry:
    """The user's credential providers, from `credentials.toml` beside the settings; empty where there is none.

    Raises:
        ConfigurationError: with every problem; values are never repeated.
    """
    path = settings_file(environ).with_name("credentials.toml")
    from kagura_kernel.membrane.credentials.registry import Registry, parse_registry

    if not path.exists():
        return Registry(source=str(path))

    return parse_registry(text_of(path), SecretReader(environ), str(path))


def kept_registry(environ: Mapping[str, str]) -> Callable[[], Registry]:
    """Reads the credential providers when they are first needed, and anew when their file has changed since.

    What is made raises as `load_registry`, for as long as the file is wrong.
    """
    path = settings_file(environ).with_name("credentials.toml")

    @lru_cache(maxsize=1)
    def read(stamp: tuple[int, ...]) -> Registry:
        del stamp
        return load_registry(environ)

    def registry() -> Registry:
        try:
            found = path.stat()
        except OSError:
            return read(())
        return read((found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns))

    return registry


def load_providers(environ: Mapping[str, str]) -> Mapping[str, CredentialProvider]:
    """Where the user's credentials come from, by name; raises as `load_registry`."""
    return load_registry(environ).providers
