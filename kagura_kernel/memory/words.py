"""What a text is found by: words folded and stemmed, runs of characters, and the days that a question names.

Spellings that a reader takes for the same become the same: case, half and full width, diacritics of Latin letters, ß,
hiragana and katakana, and the long vowel mark. What is folded is for finding alone; what is kept and shown is the
text as it was written.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterable, Iterator
from datetime import date
from functools import cache, lru_cache

from kagura_kernel.domain.late_dataclass import dataclass
from kagura_kernel.domain.late_pattern import late_pattern

_LATIN = ((0x00C0, 0x0250), (0x1E00, 0x1F00))
_ALSO = {"ø": "o", "æ": "ae", "œ": "oe", "ł": "l", "đ": "d", "ð": "d", "þ": "th", "ı": "i", "ħ": "h", "ŧ": "t"}
_KATAKANA = (0x30A1, 0x30F6)
_TO_HIRAGANA = 0x60
_UMLAUTS = {"ä": "ae", "ö": "oe", "ü": "ue"}
_DROPPED = (0x30FC, 0xFF70, 0x00AD, 0x200B, 0x200C, 0x200D, 0x2060, 0xFEFF)
"""The long vowel mark, the soft hyphen, and marks that have no width."""


def fold(text: str) -> str:
    """Text for comparing: `Straße` is `STRASSE`, `café` is `cafe`, `サーバー` is `さば`, and `ｶﾞ` is `が`."""
    if text.isascii():
        return text.lower()
    plain = unicodedata.normalize("NFKC", text).casefold()
    return unicodedata.normalize("NFKC", plain).translate(_table())


def unfold_umlauts(word: str) -> str:
    """The word, in lower case, with ä, ö and ü written as two letters; the same word where it has none."""
    if word.isascii():
        return word
    plain = unicodedata.normalize("NFKC", word).casefold()
    return fold("".join(_UMLAUTS.get(letter, letter) for letter in plain))


@cache
def _table() -> dict[int, str | None]:
    table: dict[int, str | None] = dict.fromkeys(_DROPPED)
    table.update(dict.fromkeys(range(0x0300, 0x0370)))
    for first, last in _LATIN:
        for point in range(first, last):
            base = unicodedata.normalize("NFD", chr(point))[0]
            if base != chr(point):
                table[point] = base.lower()
    table.update({ord(letter): plain for letter, plain in _ALSO.items()})
    for point in range(_KATAKANA[0], _KATAKANA[1] + 1):
        table[point] = chr(point - _TO_HIRAGANA)
    return table


_C = "(?:[^aeiou](?:[^aeiouy])*)"
_V = "(?:[aeiouy](?:[aeiou])*)"
_MEASURED = late_pattern(f"^{_C}?{_V}{_C}")
_TWICE = late_pattern(f"^{_C}?{_V}{_C}{_V}{_C}")
_ONCE = late_pattern(f"^{_C}?{_V}{_C}{_V}?$")
_HAS_VOWEL = late_pattern(f"^{_C}?{_V}")
_DOUBLED = late_pattern(r"([^aeiouylsz])\1$")
_SHORT_END = late_pattern(f"^{_C}[aeiouy][^aeiouwxy]$")

_STEP_2 = {
    "ational": "ate",
    "tional": "tion",
    "enci": "ence",
    "anci": "ance",
    "izer": "ize",
    "bli": "ble",
    "alli": "al",
    "entli": "ent",
    "eli": "e",
    "ousli": "ous",
    "ization": "ize",
    "ation": "ate",
    "ator": "ate",
    "alism": "al",
    "iveness": "ive",
    "fulness": "ful",
    "ousness": "ous",
    "aliti": "al",
    "iviti": "ive",
    "biliti": "ble",
    "logi": "log",
}
_STEP_3 = {"icate": "ic", "ative": "", "alize": "al", "iciti": "ic", "ical": "ic", "ful": "", "ness": ""}
_STEP_4 = dict.fromkeys(
    [
        *("al", "ance", "ence", "er", "ic", "able", "ible", "ant", "ement", "ment", "ent"),
        *("ou", "ism", "ate", "iti", "ous", "ive", "ize"),
    ],
    "",
)
_SHORTEST = 3


def _longest(endings: dict[str, str]) -> re.Pattern[str]:
    return re.compile(f"^(.+?)({'|'.join(sorted(endings, key=len, reverse=True))})$")


_FIND_2, _FIND_3, _FIND_4 = _longest(_STEP_2), _longest(_STEP_3), _longest(_STEP_4)


def english_stem(word: str) -> str:
    """The stem of a folded word: `deployed`, `deploys` and `deploying` are one."""
    if len(word) < _SHORTEST or not word.isascii() or not word.isalpha():
        return word
    first = "Y" + word[1:] if word[0] == "y" else word
    stem = _past_and_gerund(_plural(first))
    if stem.endswith("y") and _HAS_VOWEL.match(stem[:-1]):
        stem = stem[:-1] + "i"
    stem = _replaced(stem, _FIND_2, _STEP_2)
    stem = _replaced(stem, _FIND_3, _STEP_3)
    return _final_letters(_without_fourth(stem)).lower()


def _plural(word: str) -> str:
    if word.endswith(("sses", "ies")) and word not in {"sses", "ies"}:
        return word[:-2]
    return word[:-1] if word.endswith("s") and not word.endswith("ss") and len(word) > _SHORTEST - 1 else word


def _past_and_gerund(word: str) -> str:
    if word.endswith("eed"):
        return word[:-1] if _MEASURED.match(word[:-3]) else word
    for ending in ("ed", "ing"):
        if word.endswith(ending) and _HAS_VOWEL.match(word[: -len(ending)]):
            return _mended(word[: -len(ending)])
    return word


def _mended(stem: str) -> str:
    if stem.endswith(("at", "bl", "iz")):
        return stem + "e"
    if _DOUBLED.search(stem):
        return stem[:-1]
    return stem + "e" if _SHORT_END.match(stem) else stem


def _replaced(word: str, pattern: re.Pattern[str], endings: dict[str, str]) -> str:
    found = pattern.match(word)
    if found and _MEASURED.match(found[1]):
        return found[1] + endings[found[2]]
    return word


def _without_fourth(word: str) -> str:
    if word.endswith("ion"):
        return word[:-3] if word[-4:-3] in {"s", "t"} and _TWICE.match(word[:-3]) else word
    found = _FIND_4.match(word)
    return found[1] if found and _TWICE.match(found[1]) else word


def _final_letters(word: str) -> str:
    if word.endswith("e"):
        stem = word[:-1]
        if _TWICE.match(stem) or (_ONCE.match(stem) and not _SHORT_END.match(stem)):
            word = stem
    return word[:-1] if word.endswith("ll") and _TWICE.match(word) else word


_LONGEST_KEPT = 3
_BEFORE_S = frozenset("bdfghklmnt")


def german_stem(word: str) -> str:
    """The stem of a folded word: `server`, `servers` and `servern` are one."""
    if not word.isalpha():
        return word
    return _second(_first(word))


def _first(word: str) -> str:
    for ending in ("ern", "em", "en", "er", "es"):
        if word.endswith(ending) and len(word) - len(ending) >= _LONGEST_KEPT:
            return word[: -len(ending)]
    if word.endswith("e") and len(word) > _LONGEST_KEPT:
        return word[:-1]
    if word.endswith("s") and len(word) > _LONGEST_KEPT + 1 and word[-2] in _BEFORE_S:
        return word[:-1]
    return word


def _second(word: str) -> str:
    for ending in ("est", "er", "en"):
        if word.endswith(ending) and len(word) - len(ending) >= _LONGEST_KEPT + 1:
            return word[: -len(ending)]
    if word.endswith("st") and len(word) > _LONGEST_KEPT + 2 and word[-3] in _BEFORE_S:
        return word[:-2]
    return word


_ENGLISH_WORDS = """
a about above after again all also am an and any are as at be because been before being below between both but
by can could d did do does doing don done down during each else ever few for from further get gets getting got
had has have having he hence her here hers herself him himself his how i if in into is isn it its itself just
let ll m me more most much must my myself no nor not now of off on once only or other our ours ourselves out
over own re s same shall she should so some such t than that the their theirs them themselves then there these
they this those through to too under until up upon us ve very was wasn we were what when where whether which
while who whom whose why will with would yes you your yours yourself yourselves
"""
ENGLISH = frozenset(_ENGLISH_WORDS.split())

_GERMAN_WORDS = """
aber alle allem allen aller alles als also am an auch auf aus bei beim bin bis bist da dabei dadurch dafur
damit danach dann daran darauf darin das dass dein deine deinem deinen deiner dem den denn der deren des
dessen dich die dies diese diesem diesen dieser dieses dir doch dort du durch ein eine einem einen einer eines
er es etwa etwas euch euer eure fur gegen gibt hab habe haben hat hatte hatten hattest hier hin ich ihm ihn
ihnen ihr ihre ihrem ihren ihrer im in ins ist ja jede jedem jeden jeder jedes jener kann kein keine keinem
keinen keiner konnen konnte machen man manche mein meine meinem meinen meiner mich mir mit muss musste nach
nicht nichts noch nun nur ob oder ohne schon sehr sein seine seinem seinen seiner seit selbst sich sie sind so
sollte sondern sonst uber um und uns unser unsere unter vom von vor wann war waren warum was weil welche
welchem welchen welcher welches wem wen wenn wer werde werden wie wieder wieso will wir wird wo wofur woran
wollte worden wurde wurden zu zum zur zwar zwischen
"""
GERMAN = frozenset(_GERMAN_WORDS.split())

_SAYING_WORDS = """
say says said tell tells told talk talked mention mentioned
sagen sagt sagte gesagt erzahlen erzahlt erzahlte erwahnt erwahnte
"""
_SAYING = frozenset(_SAYING_WORDS.split())
"""What a question says of whoever spoke, and what they said does not."""

_ONLY_ENGLISH = ENGLISH - GERMAN
_ONLY_GERMAN = GERMAN - ENGLISH


def is_german(words: Collection[str]) -> bool:
    """Whether folded words speak for German rather than for English; where nothing speaks, they do not."""
    if _ONLY_GERMAN.isdisjoint(words):
        return False
    balance = 0
    for word in words:
        if word in _ONLY_GERMAN:
            balance += 1
        elif word in _ONLY_ENGLISH:
            balance -= 1
    return balance > 0


GRAM_WEIGHTS = {1: 0.35, 2: 1.0, 3: 0.6}
"""How much a run of so many characters counts beside a word."""

_UNSPACED = (
    "\u3040-\u30ff\u3005-\u3007\u3400-\u9fff\uf900-\ufaff\uac00-\ud7af\U00020000-\U0003ffff"
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"
)
_PIECE = late_pattern(f"[{_UNSPACED}]+|(?:(?![{_UNSPACED}])[^\\W_]|[\u0900-\u0dff])+")
_SPACED_PIECE = late_pattern("(?:[^\\W_]|[\u0900-\u0dff])+")
_ASCII = bytes(code if chr(code).isalnum() else ord(" ") for code in range(128)) + bytes(128)
_IS_UNSPACED = late_pattern(f"[{_UNSPACED}]")
_HONORIFIC = late_pattern("(?<=[\u3400-\u9fff])(?:さん|さま|様|くん|君|ちゃん)")
_IS_IDEOGRAPH = late_pattern("[\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]")
_WORD = late_pattern(r"[\w\u0308]+")
_UMLAUT = late_pattern(r"[äöüÄÖÜ]|[aouAOU]\u0308")
_MOST_WORD = 64
_COMMON_GRAMS_WORDS = """
した ます です いつ どこ なに って のは から まし して いる ある こと もの ので ため され
れた ても でも だっ った には とは では ての との する すか たか てい いま せん たの のか
なか かっ れて よう うに なっ なる 何を 何が 誰が は何 はい を教 教え えて てく くだ ださ
さい ました ですか ますか ている いつで こです たのは はなに はどこ
"""
_COMMON_GRAMS = frozenset(_COMMON_GRAMS_WORDS.split())


@dataclass(frozen=True, slots=True)
class Term:
    """One thing that a question asks for."""

    label: str  # As it stands in the question, folded
    forms: tuple[str, ...]  # What it is indexed as, one or the other
    weight: float = 1.0  # How much it counts; a word counts 1


def index_terms(text: str) -> list[str]:
    """Everything that a text is found by, as often as it is in it."""
    words, runs = _pieces(text)
    stem = _german if is_german(words) else _english
    terms = list(map(stem, words))
    for run in runs:
        terms.extend(gram for size in GRAM_WEIGHTS for gram in _grams(run, size))
    if not text.isascii():
        terms.extend(stem(other) for other in _umlauts_written_out(text))
    return terms


def query_terms(text: str) -> list[Term]:
    """What a question asks for, each thing once; words that say nothing only where there is no other."""
    words, runs = _pieces(text)
    stopped = GERMAN if is_german(words) else ENGLISH
    telling = [word for word in words if word not in stopped and word not in _SAYING]
    grams = list(_gram_terms(part for run in runs for part in _HONORIFIC.split(run) if part))
    if not telling and not grams:
        telling = words
    return _each_once([*(_word_term(word) for word in telling), *grams])


def ascii_words(folded: str) -> list[str]:
    """The words of a folded text that is all ASCII."""
    return folded.encode().translate(_ASCII).decode().split()


def _pieces(text: str) -> tuple[list[str], list[str]]:
    """The folded words of a text, and its runs of a script without spaces."""
    folded = fold(text)
    # Most texts need neither pattern; they cost many times what these do.
    if folded.isascii():
        return ascii_words(folded), []
    if _IS_UNSPACED.search(folded) is None:
        return _SPACED_PIECE.findall(folded), []
    pieces = _PIECE.findall(folded)
    runs = [piece for piece in pieces if _IS_UNSPACED.match(piece)]
    return [piece for piece in pieces if not _IS_UNSPACED.match(piece)], runs


def _word_term(word: str) -> Term:
    forms = dict.fromkeys((_english(word), _german(word)))
    return Term(word, tuple(forms))


def _gram_terms(runs: Iterable[str]) -> Iterator[Term]:
    for run in runs:
        for size, weight in GRAM_WEIGHTS.items():
            for gram in _grams(run, size):
                if gram not in _COMMON_GRAMS:
                    yield Term(gram, (gram,), weight if len(run) > 1 else 1.0)


def _each_once(terms: Iterable[Term]) -> list[Term]:
    found: dict[str, Term] = {}
    for term in terms:
        known = found.setdefault(term.forms[0], term)
        if known is not term:
            forms = tuple(dict.fromkeys((*known.forms, *term.forms)))
            found[term.forms[0]] = Term(known.label, forms, known.weight)
    return list(found.values())


def _grams(run: str, size: int) -> Iterator[str]:
    if size == 1:
        # A lone kana says nothing, unless it is all there is.
        yield from (letter for letter in run if len(run) == 1 or _IS_IDEOGRAPH.match(letter))
        return
    for start in range(len(run) - size + 1):
        yield run[start : start + size]


def _umlauts_written_out(text: str) -> Iterator[str]:
    if _UMLAUT.search(text) is None:
        return
    for word in _WORD.findall(text):
        if _UMLAUT.search(word) is not None:
            yield from _PIECE.findall(unfold_umlauts(word))


@lru_cache(maxsize=1 << 16)
def _english(word: str) -> str:
    return english_stem(word[:_MOST_WORD])


@lru_cache(maxsize=1 << 16)
def _german(word: str) -> str:
    return german_stem(word[:_MOST_WORD])


_MONTHS = {
    name: number
    for number, names in enumerate(
        (
            "january jan januar",
            "february feb februar",
            "march mar marz",
            "april apr",
            "may mai",
            "june jun juni",
            "july jul juli",
            "august aug",
            "september sep sept",
            "october oct oktober okt",
            "november nov",
            "december dec dezember dez",
        ),
        1,
    )
    for name in names.split()
}
_NAMES = "|".join(sorted(_MONTHS, key=len, reverse=True))
_YEAR = r"(?:19|20)\d\d"
_DAY = r"[0-3]?\d"
_ISO = late_pattern(rf"\b({_YEAR})[-/.](\d\d?)(?:[-/.]({_DAY}))?\b")
_DOTTED = late_pattern(rf"\b({_DAY})\.\s?(\d\d?)\.(?:\s?({_YEAR}))?")
_DAY_FIRST = late_pattern(rf"\b({_DAY})(?:st|nd|rd|th|\.)?(?:\s+of)?\s+({_NAMES})\b\.?(?:,?\s+({_YEAR}))?")
_MONTH_FIRST = late_pattern(rf"\b({_NAMES})\b\.?(?:\s+({_DAY})(?:st|nd|rd|th)?\b(?!\d))?(?:,?\s+({_YEAR})\b)?")
_ASIAN = late_pattern(rf"(?:({_YEAR})年)?\s?(?:(\d\d?)月)(?:\s?({_DAY})日)?")
_ASIAN_YEAR = late_pattern(rf"({_YEAR})年")
_ALONE = late_pattern(rf"(?<!\d)({_YEAR})(?!\d)")
_AMBIGUOUS = frozenset({"may", "mar", "march", "mai"})
_BEFORE_MONTH = late_pattern(
    r"\b(?:in|of|on|during|since|until|by|early|late|mid|last|this|im|seit|bis|ende|anfang)\s$"
)
_MONTHS_A_YEAR, _DAYS_A_MONTH = 12, 31


def marks_of(moment: date) -> tuple[str, ...]:
    """What a day is found by: its year, its month in any year, its month, and its day in any year."""
    return (
        f"y{moment.year:04}",
        f"m{moment.month:02}",
        f"t{moment.year:04}{moment.month:02}",
        f"x{moment.month:02}{moment.day:02}",
    )


def marks_in(folded: str) -> tuple[str, ...]:
    """What the dates in a folded question are found by, the narrowest that each names."""
    marks: dict[str, None] = {}
    for year, month, day in _dates(folded):
        if month and not 1 <= month <= _MONTHS_A_YEAR:
            continue
        if month and 1 <= day <= _DAYS_A_MONTH:
            marks[f"x{month:02}{day:02}"] = None
        if year and month:
            marks[f"t{year:04}{month:02}"] = None
        elif month and not day:
            marks[f"m{month:02}"] = None
        elif year:
            marks[f"y{year:04}"] = None
    return tuple(marks)


def names_date(word: str) -> bool:
    """Whether a folded word of a question that names a date may be a part of it."""
    return word in _MONTHS or word[:-2].isdigit() or word.isdigit()


def _dates(text: str) -> Iterator[tuple[int, int, int]]:
    rest = text
    for pattern, order in ((_ISO, (1, 2, 3)), (_DOTTED, (3, 2, 1)), (_ASIAN, (1, 2, 3)), (_DAY_FIRST, (3, 2, 1))):
        for found in pattern.finditer(rest):
            yield _number(found[order[0]]), _number(found[order[1]]), _number(found[order[2]])
        rest = pattern.sub(" ", rest)
    for found in _MONTH_FIRST.finditer(rest):
        if found[1] not in _AMBIGUOUS or found[2] or found[3] or _BEFORE_MONTH.search(rest[: found.start()]):
            yield _number(found[3]), _MONTHS[found[1]], _number(found[2])
    rest = _MONTH_FIRST.sub(" ", rest)
    for pattern in (_ASIAN_YEAR, _ALONE):
        for found in pattern.finditer(rest):
            yield int(found[1]), 0, 0


def _number(text: str | None) -> int:
    return _MONTHS.get(text) or int(text) if text else 0
