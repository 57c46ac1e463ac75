"""Chance that comes out the same each time, so that no token needs to be stored."""

from __future__ import annotations

import base64
import string
from random import Random

_ALNUM = string.ascii_letters + string.digits
_ROOM = 8
_URL_SAFE = _ALNUM + "-_"


class Chance(Random):
    """A seeded source of what tokens are made of."""

    def of(self, letters: str, count: int) -> str:
        """So many of these letters."""
        return "".join(self.choice(letters) for _ in range(count))

    def alnum(self, count: int) -> str:
        """Letters of both cases and digits; with at least one of each where there is room."""
        while True:
            text = self.of(_ALNUM, count)
            mixed = any(c.isdigit() for c in text) and any(c.isupper() for c in text) and any(c.islower() for c in text)
            if mixed or count < _ROOM:
                return text

    def lower(self, count: int) -> str:
        """Small letters and digits."""
        return self.of(string.ascii_lowercase + string.digits, count)

    def upper(self, count: int) -> str:
        """Capital letters and digits."""
        return self.of(string.ascii_uppercase + string.digits, count)

    def digits(self, count: int) -> str:
        """Digits; the first is not 0."""
        return self.of("123456789", 1) + self.of(string.digits, count - 1)

    def hex(self, count: int) -> str:
        """Hexadecimal digits, small."""
        return self.of("0123456789abcdef", count)

    def url_safe(self, count: int) -> str:
        """Letters, digits, `-` and `_`; a letter at both ends."""
        return self.alnum(1) + self.of(_URL_SAFE, count - 2) + self.alnum(1)

    def base64(self, count: int) -> str:
        """So many bytes, in base64."""
        return base64.b64encode(self.randbytes(count)).decode()

    def base64_url(self, count: int) -> str:
        """So many bytes, in the base64 of URLs and without padding."""
        return base64.urlsafe_b64encode(self.randbytes(count)).decode().rstrip("=")

    def uuid(self) -> str:
        """Version 4."""
        text = self.hex(32)
        return f"{text[:8]}-{text[8:12]}-4{text[13:16]}-{self.of('89ab', 1)}{text[17:20]}-{text[20:]}"
