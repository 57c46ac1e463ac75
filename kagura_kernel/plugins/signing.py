"""Who wrote a plugin: its signature, `plugin.sig`. A signature never makes up for a danger in the source."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from kagura_kernel.domain.errors import PluginRefused
from kagura_kernel.plugins.content import PluginContent
from kagura_kernel.plugins.signature import (
    BROKEN,
    SIGNATURE,
    Signature,
    check_signature,
    make_key,
    make_signature,
    public_key,
)

__all__ = ["Signature", "make_key", "public_key", "sign", "verify"]

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def sign(content: PluginContent, key_path: Path, author: str) -> Signature:
    """Sign a plugin as it was read, and put the signature into its directory as `plugin.sig`.

    Raises:
        SignatureInvalid: the key is none, others may read it, or the author's name cannot be shown.
        PluginRefused: the plugin holds what no plugin may hold, or its directory cannot be written to.
    """
    odd = [finding for finding in content.oddities if finding.rule != BROKEN]
    if odd:
        raise PluginRefused(content.name, f"cannot be signed: {odd[0].message.rstrip('.')}")
    signature, data = make_signature(content.signed_hash, key_path, author)
    _put(content, data)
    return signature


def verify(content: PluginContent) -> Signature | None:
    """The signature of a plugin; None when it has none.

    Raises:
        SignatureInvalid: it has one that does not hold.
    """
    data = content.files.get(SIGNATURE)
    return None if data is None else check_signature(data, content.signed_hash)


def _put(content: PluginContent, data: bytes) -> None:
    temporary = f".{SIGNATURE}.{secrets.token_hex(4)}"
    try:
        directory = os.open(content.root, _DIRECTORY)
        try:
            with os.fdopen(os.open(temporary, _NEW, 0o644, dir_fd=directory), "wb") as file:
                file.write(data)
            os.rename(temporary, SIGNATURE, src_dir_fd=directory, dst_dir_fd=directory)
        finally:
            os.close(directory)
    except OSError as error:
        why = (error.strerror or "unknown reason").lower()
        raise PluginRefused(content.name, f"cannot be signed: its directory says {why}") from error
