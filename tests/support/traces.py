"""Looking for secrets byte by byte, in every form in which somebody may have written one down."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from urllib.parse import quote, quote_plus

from kagura_kernel.membrane.credentials.needles import needles
from kagura_kernel.membrane.credentials.secret import Secret


def forms(value: str) -> set[bytes]:
    """Plain, hexadecimal, quoted, escaped, UTF-16 both ways, base64 at every offset, and what a scrubber looks for.

    Made here once more, so that a scrubber's blind spot is not the search's.
    """
    data = value.encode()
    escaped = json.dumps(value)[1:-1]
    found = {value, data.hex(), data.hex().upper(), quote(value, safe=""), quote_plus(value), escaped}
    found |= {json.dumps(escaped)[1:-1], *needles([Secret(value)])}
    every = {form.encode() for form in found} | {value.encode("utf-16-le"), value.encode("utf-16-be")}
    for offset in range(3):
        # Of the digits around it, the first and the last few hang on what stands beside it.
        digits = base64.b64encode(bytes(offset) + data + bytes(-(offset + len(data)) % 3))
        core = digits[4 if offset else 0 : -4]
        every |= {core, core.translate(bytes.maketrans(b"+/", b"-_"))}
    return every


class Wanted:
    """Secrets to look for.

    Args:
        secrets: By a name that may be shown.
    """

    def __init__(self, secrets: Mapping[str, str]) -> None:
        self._forms = {name: forms(value) for name, value in secrets.items()}

    def found_in(self, data: bytes) -> set[str]:
        """The names of those that stand in there, in whichever form."""
        # Many plain searches are much faster than one pattern of many alternatives.
        return {name for name, every in self._forms.items() if any(form in data for form in every)}
