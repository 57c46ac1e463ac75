"""SCRAM-SHA-256 as a client (RFC 5802, RFC 7677): both sides prove that they know the password, nobody tells it. Pure.

Without channel binding: the address was checked before, and who wants the server's name checked asks for verify-full.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
import stringprep
import unicodedata

from kagura_kernel.membrane.credentials.secret import Secret

MECHANISM = "SCRAM-SHA-256"
MOST_ITERATIONS = 1_000_000
"""Under half a second of work; a server's default is 4,096. More than that is asked for to keep us busy."""

_FIRST = re.compile(r"r=([\x21-\x2b\x2d-\x7e]+),s=([A-Za-z0-9+/=]+),i=([1-9][0-9]{0,9})(?:,.*)?", re.ASCII)
_FINAL = re.compile(r"v=([A-Za-z0-9+/=]+)(?:,.*)?", re.ASCII)
_MAPPED_TO_NOTHING = stringprep.in_table_b1
_PROHIBITED = (
    stringprep.in_table_a1,
    stringprep.in_table_c12,
    stringprep.in_table_c21_c22,
    stringprep.in_table_c3,
    stringprep.in_table_c4,
    stringprep.in_table_c5,
    stringprep.in_table_c6,
    stringprep.in_table_c7,
    stringprep.in_table_c8,
    stringprep.in_table_c9,
)


class ScramBroken(Exception):
    """The server broke the exchange, or does not know the password; the text is half a sentence."""


class ScramExchange:
    """One exchange: `first`, then `answer`, then `check`, each once and in this order.

    Args:
        password: As the person wrote it.
        nonce: Ours, fresh and printable.
    """

    def __init__(self, password: Secret, nonce: str) -> None:
        self._password = password
        self._nonce = nonce
        self._expected = b""

    @property
    def first(self) -> bytes:
        """The client's first message. The user name stands in the startup packet and is ignored here."""
        return f"n,,{self._bare}".encode("ascii")

    def answer(self, challenge: bytes) -> bytes:
        """The client's final message for the server's first one; computes for up to half a second.

        Raises:
            ScramBroken: the challenge is none, or none to this exchange.
        """
        text = _ascii(challenge)
        found = _FIRST.fullmatch(text)
        if found is None or not found[1].startswith(self._nonce) or len(found[1]) == len(self._nonce):
            raise ScramBroken("sent a SCRAM challenge that is none")
        iterations = int(found[3])
        if iterations > MOST_ITERATIONS:
            raise ScramBroken(f"asks for {iterations} rounds of SCRAM, more than {MOST_ITERATIONS}")
        salted = hashlib.pbkdf2_hmac("sha256", prepare(self._password.reveal()), _base64(found[2]), iterations)
        without_proof = f"c=biws,r={found[1]}"
        said = f"{self._bare},{text},{without_proof}".encode("ascii")
        client_key = _hmac(salted, b"Client Key")
        signature = _hmac(hashlib.sha256(client_key).digest(), said)
        proof = bytes(one ^ other for one, other in zip(client_key, signature, strict=True))
        self._expected = _hmac(_hmac(salted, b"Server Key"), said)
        return f"{without_proof},p={base64.b64encode(proof).decode('ascii')}".encode("ascii")

    def check(self, final: bytes) -> None:
        """Check the server's final message: only who knows the password can have made it.

        Raises:
            ScramBroken: it did not.
        """
        found = _FINAL.fullmatch(_ascii(final))
        if not self._expected or found is None or not hmac.compare_digest(_base64(found[1]), self._expected):
            raise ScramBroken("does not know the password itself: its SCRAM signature is wrong")

    @property
    def _bare(self) -> str:
        return f"n=,r={self._nonce}"


def prepare(password: str) -> bytes:
    """The password as both sides hash it: by SASLprep (RFC 4013), or as it is where that refuses it, as servers do."""
    if password.isascii():
        # Control letters are refused, the rest stays as it is: either way these very bytes.
        return password.encode("ascii")
    mapped = "".join(
        " " if stringprep.in_table_c12(sign) else sign for sign in password if not _MAPPED_TO_NOTHING(sign)
    )
    text = unicodedata.normalize("NFKC", mapped)
    refused = not text or any(table(sign) for sign in text for table in _PROHIBITED) or not _one_direction(text)
    return (password if refused else text).encode("utf-8")


def _one_direction(text: str) -> bool:
    """Whether letters that run from right to left stand alone and at both ends (RFC 3454, section 6)."""
    if not any(map(stringprep.in_table_d1, text)):
        return True
    ends = stringprep.in_table_d1(text[0]) and stringprep.in_table_d1(text[-1])
    return ends and not any(map(stringprep.in_table_d2, text))


def _ascii(data: bytes) -> str:
    try:
        return data.decode("ascii")
    except UnicodeDecodeError as error:
        raise ScramBroken("sent a SCRAM message that is none") from error


def _base64(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise ScramBroken("sent a SCRAM message that is none") from error


def _hmac(key: bytes, data: bytes) -> bytes:
    return hmac.digest(key, data, "sha256")
