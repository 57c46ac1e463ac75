"""Ed25519 keys, and signatures over a hash, as `plugin.sig` holds them."""

from __future__ import annotations

import base64
import json
import os
import re
import stat
from pathlib import Path
from typing import TYPE_CHECKING

from kagura_kernel.domain.errors import SignatureInvalid
from kagura_kernel.domain.late_dataclass import dataclass
from kagura_kernel.plugins.text import NotReadable, read_document, reason, unseen

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

SIGNATURE = "plugin.sig"
BROKEN = "broken-signature"
"""The rule of the finding about a signature that does not hold."""

MAX_AUTHOR = 100
_MAX_BYTES = 4096
_PREFIX = "ed25519:"
_HASH = re.compile(r"[0-9a-f]{64}", re.ASCII)
_KEYS = frozenset({"author", "publicKey", "hash", "signature"})
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class Signature:
    """A signature that holds. Whether its author is to be trusted is another question."""

    author: str  # As they call themselves
    key: str  # Their public key, `ed25519:…`
    signed_hash: str  # What they signed: the hash of all files but the signature's own


def make_key(path: Path) -> str:
    """Make a key pair, and keep its secret half in a new file of mode 0600: the public half, `ed25519:…`.

    Raises `SignatureInvalid`: the file is there already, or cannot be written.
    """
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    key = Ed25519PrivateKey.generate()
    text = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    try:
        with os.fdopen(os.open(path, _NEW, 0o600), "wb") as file:
            file.write(text)
    except FileExistsError as error:
        raise SignatureInvalid(f"{path} is there already; a key is never overwritten.") from error
    except OSError as error:
        raise SignatureInvalid(f"The key {path} cannot be written: {reason(error)}.") from error
    return _public_text(key.public_key())


def check_key(text: str) -> str:
    """A public key in its one spelling. Raises `SignatureInvalid`: it is none."""
    return _public_text(_public_key(text))


def make_signature(signed_hash: str, key_path: Path, author: str) -> tuple[Signature, bytes]:
    """A signature of files with this hash, and the bytes of `plugin.sig` that hold it.

    Raises `SignatureInvalid`: the key is none, others may read it, or the author's name cannot be shown.
    """
    check_author(author)
    key = secret_key(key_path)
    signature = Signature(author, _public_text(key.public_key()), signed_hash)
    document = {
        "author": author,
        "publicKey": signature.key,
        "hash": signed_hash,
        "signature": base64.b64encode(key.sign(_message(author, signed_hash))).decode("ascii"),
    }
    return signature, (json.dumps(document, indent=2, ensure_ascii=False) + "\n").encode()


def check_signature(data: bytes, signed_hash: str) -> Signature:
    """The signature in these bytes of `plugin.sig`, for files with this hash.

    Raises `SignatureInvalid`: it does not hold; the text says why.
    """
    from cryptography.exceptions import InvalidSignature

    document = _document(data)
    if document["hash"] != signed_hash:
        raise SignatureInvalid(
            "Its files are not those that were signed; its author signs them anew with `plugin sign`."
        )
    key = _public_key(document["publicKey"])
    try:
        raw = base64.b64decode(document["signature"], validate=True)
        key.verify(raw, _message(document["author"], signed_hash))
    except (InvalidSignature, ValueError) as error:
        raise SignatureInvalid("The signature was not made with the key that stands beside it.") from error
    return Signature(document["author"], _public_text(key), signed_hash)


def _document(data: bytes) -> dict[str, str]:
    try:
        document, problems = read_document(data, _MAX_BYTES)
    except NotReadable as error:
        raise SignatureInvalid(f"{SIGNATURE} {error}.") from error
    if problems:
        raise SignatureInvalid(f"{SIGNATURE}: {problems[0]}.")
    if set(document) != _KEYS or not all(isinstance(value, str) for value in document.values()):
        raise SignatureInvalid(f"{SIGNATURE} holds the texts {', '.join(sorted(_KEYS))}, and nothing else.")
    if not _HASH.fullmatch(document["hash"]):
        raise SignatureInvalid(f"{SIGNATURE} holds no hash.")
    check_author(document["author"])
    return document


def check_author(author: str) -> None:
    """Refuse a name that cannot be shown. Raises `SignatureInvalid`: it cannot."""
    if not author.strip() or len(author) > MAX_AUTHOR:
        raise SignatureInvalid(f"An author's name has 1 to {MAX_AUTHOR} letters.")
    if sign := unseen(author):
        raise SignatureInvalid(f"The author's name holds {sign}, which a reader would not see.")


def _message(author: str, signed_hash: str) -> bytes:
    # The first line keeps a signature of something else from ever being one of a plugin.
    return f"kagura plugin signature 1\n{author}\n{signed_hash}\n".encode()


def _public_text(key: Ed25519PublicKey) -> str:
    return _PREFIX + base64.b64encode(key.public_bytes_raw()).decode("ascii")


def _public_key(text: str) -> Ed25519PublicKey:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        raw = base64.b64decode(text.strip().removeprefix(_PREFIX), validate=True)
        return Ed25519PublicKey.from_public_bytes(raw)
    except ValueError as error:
        raise SignatureInvalid(
            f"That is no public key; one begins with {_PREFIX} and `plugin sign` prints it."
        ) from error


def secret_key(path: Path) -> Ed25519PrivateKey:
    """The secret half in a file. Raises `SignatureInvalid`: it is none, or others may read it."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        key = load_pem_private_key(_secret_bytes(path), password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise SignatureInvalid(
            f"{path} holds no key that can be used: an Ed25519 key in PEM, without a password."
        ) from error
    if not isinstance(key, Ed25519PrivateKey):
        raise SignatureInvalid(f"{path} holds a key of another kind; signatures are made with Ed25519 keys.")
    return key


def _secret_bytes(path: Path) -> bytes:
    try:
        handle = os.open(path, _READ)
    except OSError as error:
        raise SignatureInvalid(f"The key {path} cannot be read: {reason(error)}.") from error
    with os.fdopen(handle, "rb") as file:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode):
            raise SignatureInvalid(f"The key {path} is no plain file.")
        if found.st_mode & 0o077:
            raise SignatureInvalid(f"Others may read the key {path}; run `chmod 600` on it.")
        return file.read(_MAX_BYTES + 1)
