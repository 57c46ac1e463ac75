"""How a setting is checked and written into the person's file of settings."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from kagura_kernel.assembly.settings import check_settings_text
from kagura_kernel.domain.errors import ConfigurationError
from kagura_kernel.journal.place import read_shared, settings_file, text_of
from kagura_kernel.journal.settings_text import Value, replace_file, with_setting

KEYCHAIN = "kagura-kernel"
"""The service under which keys and tokens are kept in the keychain; the user name is the endpoint's, or the chat's and
the token's."""


def write_setting(environ: Mapping[str, str], name: str, value: Value, *, table: str = "") -> Path:
    """Set one setting, as `write_settings` does."""
    return write_settings(environ, {name: value}, table=table)


def write_settings(environ: Mapping[str, str], values: Mapping[str, Value], *, table: str = "") -> Path:
    """Set what belongs together, all or nothing, and say where it was written.

    The file is made for this user alone where there is none.

    Args:
        environ: Says which file; a variable that overrides the setting is not touched.
        values: What each setting is to be.
        table: In which table they stand, such as `endpoints.mine`; empty for none.

    Raises:
        ConfigurationError: the file cannot be used, or would not be right with it; then nothing was written.
    """
    path = settings_file(environ)
    changed = text_of(path) if path.exists() else ""
    # Each goes to the head of its table, so that the first is the last to go there.
    for name, value in reversed(list(values.items())):
        changed = with_setting(changed, name, value, table=table)
    check_settings_text(changed, str(path), read_shared(environ))
    try:
        replace_file(path, changed.encode())
    except OSError as error:
        raise ConfigurationError(str(path), [f"it cannot be written: {(error.strerror or '').lower()}"]) from error
    return path
