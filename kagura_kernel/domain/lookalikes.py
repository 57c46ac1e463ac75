"""Letters that look like those of ASCII, and signs with nothing to see. Pure."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

_ROWS = (
    # Cyrillic, Greek, Armenian
    ("аеорсухіјѕһԁԛԝӏкмтвнгь", "aeopcyxijshdqwlkmtbhrb"),
    ("АВЕКМНОРСТУХІЈЅЬӀ", "abekmhopctyxijsbl"),
    ("αονρτυχικεηωγ", "aovptuxikenwy"),
    ("ΑΒΕΖΗΙΚΜΝΟΡΤΥΧϜ", "abezhikmnoptyxf"),
    ("օսհոց", "ouhng"),
    # Lisu, Cherokee, Coptic
    ("ꓐꓑꓓꓔꓖꓗꓙꓚꓜꓝꓟꓠꓡꓢꓣꓦꓧꓪꓫꓬꓮꓰꓲꓳꓴ", "bpdtgkjczfmnlsrvhwxyaeiou"),
    ("ᎪᎬᎥᏞᎷᏒᎢᎩᏔᏚᏢᏟᎠᎻᏦᏙᏃᏴᏀᎫ", "aeilmrtywspcdhkvzbgj"),
    ("ⲁⲃⲉⲓⲕⲙⲟⲣⲥⲧⲩⲭ", "abeikmopctyx"),
)
LOOKALIKES = {letter: plain for letters, plains in _ROWS for letter, plain in zip(letters, plains, strict=True)}
"""Letters of other scripts of which a whole name can be made that looks like one of ASCII, with what they look like."""

LATIN_LOOKALIKES = dict(zip("ıȷɑɡɩɪɴʀʏʙɢʜʟꜱꜰᴀᴄᴅᴇᴊᴋᴍᴏᴘᴛᴜᴠᴡᴢ", "ijagiinrybghlsfacdejkmoptuvwz", strict=True))
"""Letters of Latin itself that a name shows like those of ASCII."""

_BLANKS = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")
# With a hook, a stroke, in a square, as a flag: what Unicode does not decompose, it still names by its letter.
_NAMED = re.compile(r"(?:LATIN|REGIONAL).* LETTER (?:SMALL CAPITAL |OPEN |SCRIPT )?([A-Z])(?: WITH .*)?")


@lru_cache(maxsize=4096)
def skeleton(letter: str) -> str:
    """What a letter looks like, in small letters of ASCII where it looks like some; empty for what nobody sees.

    Accents are left out; a ligature is its letters; every white space is one.
    """
    if letter.isspace():
        return " "
    return "".join(_plain(part) for part in unicodedata.normalize("NFKD", letter))


def _plain(letter: str) -> str:
    if letter in _BLANKS or unicodedata.category(letter)[0] in "CM":
        return ""
    known = LOOKALIKES.get(letter) or LATIN_LOOKALIKES.get(letter)
    if known or letter.isascii():
        return known or letter.lower()
    named = _NAMED.search(unicodedata.name(letter, ""))
    if named:
        return named[1].lower()
    folded = letter.casefold()
    return LOOKALIKES.get(folded, folded)
