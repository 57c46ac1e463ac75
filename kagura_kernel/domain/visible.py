"""Text from models, boxes and files, and names of hosts, made safe to look at, wherever they are shown. Pure.

Everything that such text could use to pose as something else is turned into something visible: control characters,
bidirectional overrides, invisible characters, lone surrogates. An international name stands in its letters, and beside
it the spelling that counts.
"""

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


# Zero-width joiners stay: emoji and several scripts are written with them.
_ODD = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"
    "\u00ad\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0"
    "\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e007f]"
)
_COLOUR = re.compile(r"\x1b\[[0-9;:]*m")


def visible(text: str) -> str:
    """The text with every character that cannot be seen written out, `⟨U+202E⟩`; line ends and tabs stay."""
    return _ODD.sub(lambda found: f"⟨U+{ord(found[0]):04X}⟩", text)


def printed(text: str) -> str:
    """Output of a program: colours are dropped, a lone carriage return is a new line, the rest as in `visible`."""
    plain = _COLOUR.sub("", text).replace("\r\n", "\n").replace("\r", "\n")
    return visible(plain)


_HALVES = re.compile("[\ud800-\udfff]")


def is_whole(text: str) -> bool:
    """Whether a text has no half of a character (a lone surrogate), which no file, pipe or variable can hold."""
    return text.isascii() or _HALVES.search(text) is None


def whole(text: str) -> str:
    """The text with � in the place of each half of a character."""
    return text if is_whole(text) else _HALVES.sub("\ufffd", text)


_ERASED = re.compile(r"\x1b\[[0-2]?K")
_STATES = 3
"""Of one line, that all are shown."""


def settled(text: str) -> str:
    """Output of a program with the last state of each progress bar, and how many there were before it."""
    return "\n".join(map(_settled, text.split("\n"))) if "\r" in text else text


def _settled(line: str) -> str:
    states = [state for state in _ERASED.sub("", line).split("\r") if state.strip()]
    # What a line has gone back over was read by the agent all the same: nothing of it is left out without a word.
    before = len(states) - 1
    return line if before < _STATES else f"… {before:,} earlier states of this line …\n{states[-1]}"


_RIGHT_TO_LEFT = frozenset({"R", "AL", "AN"})
_WORD = re.compile(r"(?P<host>[^:\s]+)(?::(?P<port>[0-9]{1,5}))?")


def place(host: str, port: int) -> str:
    """`example.org:443`, `[2001:db8::1]:443`."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def shown_place(host: str, port: int) -> str:
    """`example.org:443`; `bücher.example (xn--bcher-kva.example:443)` where letters stand for an `xn--` name."""
    counts = host if host.isascii() else _encoded(host) or host
    plain = place(counts, port)
    letters = _letters(counts)
    return f"{letters} ({plain})" if letters else plain


def shown_word(word: str) -> str:
    """A word after `--net` with both spellings of its host; what names no international host comes back as it is."""
    if word.isascii() and "xn--" not in word.lower():
        return word
    found = _WORD.fullmatch(word)
    counts = _encoded(found["host"]) if found else ""
    if found is None or not counts:
        return word
    plain = f"{counts}:{found['port']}" if found["port"] else counts
    letters = _letters(counts)
    return f"{letters} ({plain})" if letters else plain


def _letters(host: str) -> str:
    """What an ASCII name stands for; empty when that is itself, or cannot be shown without misleading."""
    if "xn--" not in host:
        return ""
    import idna

    try:
        letters = idna.decode(host)
    except (UnicodeError, IndexError):
        return ""
    # Letters that run the other way move what stands beside them, and nobody could tell name and port apart.
    if any(unicodedata.bidirectional(letter) in _RIGHT_TO_LEFT for letter in letters):
        return ""
    return letters if letters != host else ""


def _encoded(host: str) -> str:
    """The ASCII spelling of a name, as the membrane compares it; empty when it has none."""
    import idna

    try:
        plain = idna.uts46_remap(host, std3_rules=False, transitional=False)
        return plain if plain.isascii() else idna.encode(plain, strict=True).decode("ascii")
    except (UnicodeError, IndexError):
        return ""
