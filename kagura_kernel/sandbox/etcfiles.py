"""A box's /etc: only what programs need, made of copies and constants, nothing that names the host or its people.

Standard library only: the keeper runs it, once, into a directory of its own.
"""

# ruff: noqa: PTH103, PTH110, PTH115, PTH116, PTH120, PTH123, PTH211
# The keeper starts without pathlib, and a path in a box is text.
from __future__ import annotations

import contextlib
import os
import stat

_READ, _ENTERED = 0o004, 0o005

BOX_USER = "agent"
BOX_UID = 1000

_WRITTEN = {
    "passwd": f"{BOX_USER}:x:{BOX_UID}:{BOX_UID}:agent:/home/agent:/bin/bash\n"
    "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n",
    "group": f"{BOX_USER}:x:{BOX_UID}:\nnogroup:x:65534:\n",
    "hosts": "127.0.0.1 localhost box\n::1 localhost\n",
    "hostname": "box\n",
    "resolv.conf": "",
    "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\nservices: files\nprotocols: files\n",
}

# Public data of the distribution. Links inside are kept as links, the named entries themselves are followed.
_COPIED = (
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "alternatives",
    "ssl/certs",
    "ssl/openssl.cnf",
    "ca-certificates.conf",
    "pki/tls/certs",
    "pki/ca-trust/extracted",
    "crypto-policies/back-ends",
    "localtime",
    "timezone",
    "os-release",
    "debian_version",
    "mime.types",
    "magic",
    "services",
    "protocols",
    "fonts",
    "terminfo",
    "inputrc",
    "python3",
    "ImageMagick-6",
    "ImageMagick-7",
)


def write_etc(target: str, source: str = "/etc") -> None:
    """Fill the empty directory `target`; what the host does not have, or does not let us read, is left out."""
    for name, text in _WRITTEN.items():
        _write_file(f"{target}/{name}", text.encode())
    for name in _COPIED:
        copy_public(f"{source}/{name}", f"{target}/{name}")


def copy_public(source: str, target: str) -> None:
    """Copy a file or a directory as far as everybody may read it; one that is missing is left out."""
    if os.path.exists(source):
        os.makedirs(os.path.dirname(target), exist_ok=True)
        _copy(source, target)


def _copy(source: str, target: str) -> None:
    with contextlib.suppress(PermissionError, FileNotFoundError):
        mode = os.stat(source).st_mode
        if stat.S_ISDIR(mode) and mode & _ENTERED == _ENTERED:
            os.makedirs(target, 0o755, exist_ok=True)
            with os.scandir(source) as entries:
                for entry in entries:
                    if entry.is_symlink():
                        os.symlink(os.readlink(entry.path), f"{target}/{entry.name}")
                    else:
                        _copy(entry.path, f"{target}/{entry.name}")
        # Root may read what is nobody's business; a box may not.
        elif stat.S_ISREG(mode) and mode & _READ:
            with open(source, "rb") as file:
                _write_file(target, file.read())


def _write_file(path: str, data: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
    try:
        os.write(descriptor, data)
    finally:
        os.close(descriptor)
