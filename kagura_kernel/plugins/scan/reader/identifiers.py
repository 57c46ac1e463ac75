"""Names in a source that are not what they look like."""

from __future__ import annotations

import builtins
import io
import keyword
import tokenize
import unicodedata
from collections.abc import Iterator

from .gate import Report
from .modules import STANDARD

# Letters of other scripts that look like a Latin one; a map of what is used to deceive, not of all that resembles.
_CYRILLIC = dict(zip("аеорсухіјѕһԁԛԝвкмнтАЕОРСУХІЈЅВКМНТЗԌ", "aeopcyxijshdqwbkmhtAEOPCYXIJSBKMHT3G", strict=True))
_GREEK = dict(zip("οαινρτυχΟΑΒΕΖΗΙΚΜΝΡΤΥΧ", "oaivptuxOABEZHIKMNPTYX", strict=True))
_OTHERS = dict(zip("օոսհցաɑɡıӏⅼ", "onuhgaagill", strict=True))
_LOOKALIKES = str.maketrans({**_CYRILLIC, **_GREEK, **_OTHERS})
_KNOWN = frozenset(dir(builtins)) | frozenset(keyword.kwlist) | STANDARD | {"system", "popen", "self", "cls", "config"}


def check(text: str, report: Report) -> None:
    """Report identifiers that change under NFKC, mix scripts, or look like another one of the file."""
    if text.isascii():
        return
    plain: set[str] = set()
    foreign: dict[str, int] = {}
    for name, line in _names(text):
        if name.isascii():
            plain.add(name)
        else:
            foreign.setdefault(name, line)
    for name, line in foreign.items():
        shown = ascii(name)[1:-1]
        if unicodedata.normalize("NFKC", name) != name:
            report("changing-name", f"Python reads the name {shown} as another one.", line)
        elif (like := name.translate(_LOOKALIKES)) in plain or like in _KNOWN or _is_mixed(name):
            report("confusable-name", f"The name {shown} looks like another one.", line)
        else:
            report("foreign-name", f"The name {shown} has letters outside ASCII.", line)


def _names(text: str) -> Iterator[tuple[str, int]]:
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.NAME or (token.type == tokenize.ERRORTOKEN and not token.string.isascii()):
                yield token.string, token.start[0]
    except (tokenize.TokenError, IndentationError):
        return  # what does not parse is reported by the parser


def _is_mixed(name: str) -> bool:
    """Whether Latin and Cyrillic letters stand in one name; Greek ones do in honest formulas."""
    scripts = {unicodedata.name(letter, "").partition(" ")[0] for letter in name if letter.isalpha()}
    return "LATIN" in scripts and bool(scripts & {"CYRILLIC", "ARMENIAN", "CHEROKEE", "LISU", "COPTIC"})
