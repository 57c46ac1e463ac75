"""What stands in the slots of templates: passwords as people and generators make them, keys, phrases, and fillers."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from urllib.parse import quote

from tests.support.redaction_corpus.chance import Chance
from tests.support.redaction_corpus.tokens import TOKENS, Maker

_SYLLABLES = "ba be bo da dor fen gal hi ka kel lo lu ma mi nor pa ra rin sa sol ta tem ur va ve wen yo zi".split()
_BASE58 = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
_SYMBOLS = "!#%*+-_=^~?"

# Words of BIP-39's English list and their places in it: enough of them to make phrases whose checksum is right.
_PHRASE_LIST = """
ability:1 add:25 all:51 always:60 anger:69 annual:75 apology:83 arctic:89 attend:116 author:123 average:126
aware:130 awful:133 bacon:138 barrel:150 battle:154 blame:185 blast:187 boy:213 breeze:220 brush:233 cable:255
calm:260 cash:282 chat:310 cheese:313 chicken:317 citizen:330 client:342 cloth:350 cloud:351 code:360 collect:364
combine:367 cook:381 copy:384 coral:385 couple:393 crack:398 cradle:399 crew:410 curious:431 defense:459 denial:467
design:478 diamond:489 dish:505 domain:519 donate:520 earth:555 economy:561 effort:565 emotion:582 endorse:590
enforce:593 enhance:596 excuse:632 expose:645 extend:647 fame:659 fat:667 final:692 flag:705 flavor:709 frost:747
galaxy:759 gas:768 gaze:773 give:787 glance:789 glare:790 glimpse:793 good:803 gossip:807 grace:811 grass:815
grocery:822 help:856 hidden:859 improve:912 item:950 key:976 lady:996 latin:1003 laugh:1004 lemon:1022 lens:1025
letter:1028 list:1043 lobster:1049 magnet:1071 march:1086 margin:1087 marine:1088 matrix:1097 mean:1102 merit:1116
middle:1122 minor:1129 mirror:1132 monster:1146 mystery:1171 neglect:1184 neutral:1191 never:1192 nice:1195
opera:1242 orange:1246 orient:1252 original:1253 paper:1279 pepper:1303 phone:1308 physical:1311 pitch:1324
post:1349 price:1363 profit:1374 promote:1377 quit:1406 report:1463 reveal:1475 review:1476 rhythm:1478 ribbon:1480
rich:1482 ride:1483 ring:1488 roof:1501 sad:1517 sadness:1519 sail:1521 sample:1528 save:1534 scene:1540
scorpion:1545 scout:1546 second:1555 secret:1556 shrug:1594 slight:1629 slogan:1631 smart:1636 sphere:1675 spin:1679
split:1681 stadium:1695 subject:1727 submit:1728 sudden:1732 sunny:1739 surge:1746 swing:1760 symptom:1764 tank:1773
three:1800 ticket:1805 tiger:1807 toddler:1819 token:1823 tongue:1827 top:1831 toward:1840 train:1848 transfer:1849
trash:1851 undo:1895 unique:1900 upset:1913 useless:1920 valid:1926 valve:1928 vendor:1937 vessel:1944 virtual:1955
visa:1957 vital:1960 vocal:1962 waste:1981 weapon:1986 weasel:1988 weird:1993 whale:1997 what:1998 when:2001
where:2002 wing:2013 winner:2015 wood:2025 wrestle:2034 wrong:2037 zone:2046
"""
_PHRASE_WORDS: Mapping[str, int] = {
    word: int(place) for word, place in (pair.split(":") for pair in _PHRASE_LIST.split())
}


def password(chance: Chance) -> str:
    """One of three styles: a generator's, a careful person's, and that of a person in a hurry."""
    style = chance.randrange(3)
    if style == 0:
        return f"{chance.alnum(8)}{chance.of(_SYMBOLS, 1)}{chance.alnum(chance.randint(3, 9))}"
    first, second = _name(chance, 3).capitalize(), _name(chance, 2)
    if style == 1:
        return f"{first}{chance.of('-_+', 1)}{second}{chance.of('-_+', 1)}{chance.digits(3)}{chance.of('!?*', 1)}"
    return f"{first}{second}{chance.digits(chance.randint(2, 4))}"


def word(chance: Chance) -> str:
    """A password of letters and digits, which needs no quoting anywhere."""
    return chance.alnum(chance.randint(11, 20))


def url_password(chance: Chance) -> str:
    """A password as it stands in a URI, its symbols as percents."""
    return quote(f"{chance.alnum(6)}{chance.of('!#@/$&:', 1)}{chance.alnum(chance.randint(5, 8))}", safe="")


def _name(chance: Chance, syllables: int) -> str:
    return "".join(chance.choice(_SYLLABLES) for _ in range(syllables))


def phrase(chance: Chance) -> str:
    """A seed phrase of twelve words whose checksum is right."""
    at = {place: name for name, place in _PHRASE_WORDS.items()}
    while True:
        places = [chance.choice(list(at)) for _ in range(11)]
        head = 0
        for place in places:
            head = head << 11 | place
        for rest in range(128):
            entropy = (head << 7 | rest).to_bytes(16, "big")
            last = rest << 4 | hashlib.sha256(entropy).digest()[0] >> 4
            if last in at:
                return " ".join(at[place] for place in [*places, last])


def _lines(text: str, width: int = 64) -> str:
    return "\n".join(text[start : start + width] for start in range(0, len(text), width))


def _der(start: str, count: int) -> Maker:
    """The base64 body of a key: how its kind begins, then chance, in lines of 64."""
    return lambda chance: _lines(start + chance.base64(count))


def _base64_password(chance: Chance) -> str:
    return base64.b64encode(password(chance).encode()).decode()


def _basic(chance: Chance) -> str:
    return base64.b64encode(f"{_name(chance, 2)}:{password(chance)}".encode()).decode()


def _codes(chance: Chance) -> str:
    return "\n".join(f"{chance.lower(5)}-{chance.lower(5)}" for _ in range(8))


def _numbered(chance: Chance) -> str:
    return "  ".join(f"{place}. {name}" for place, name in enumerate(phrase(chance).split(), start=1))


def _docker_json(chance: Chance) -> str:
    auths = {"auths": {"registry.example.com": {"username": "ci", "password": password(chance)}}}
    return base64.b64encode(json.dumps(auths).encode()).decode()


def _export(chance: Chance) -> str:
    return base64.b64encode(f"export GITHUB_TOKEN={TOKENS['github-classic'].make(chance)}\n".encode()).decode()


VALUES: Mapping[str, Maker] = {
    **{kind: token.make for kind, token in TOKENS.items()},
    "password": password,
    "word": word,
    "url": url_password,
    "phrase": phrase,
    "hex7": lambda c: c.hex(7),
    "hex8": lambda c: c.hex(8),
    "hex12": lambda c: c.hex(12),
    "hex20": lambda c: c.hex(20),
    "lower6": lambda c: c.lower(6),
    "hex16": lambda c: c.hex(16),
    "hex32": lambda c: c.hex(32),
    "hex40": lambda c: c.hex(40),
    "hex64": lambda c: c.hex(64),
    "hex128": lambda c: c.hex(128),
    "alnum9": lambda c: c.alnum(9),
    "alnum11": lambda c: c.alnum(11),
    "alnum14": lambda c: c.alnum(14),
    "alnum23": lambda c: c.alnum(23),
    "alnum10": lambda c: c.alnum(10),
    "alnum16": lambda c: c.alnum(16),
    "alnum22": lambda c: c.alnum(22),
    "alnum20": lambda c: c.alnum(20),
    "alnum24": lambda c: c.alnum(24),
    "alnum32": lambda c: c.alnum(32),
    "alnum40": lambda c: c.alnum(40),
    "alnum68": lambda c: c.alnum(68),
    "alnum43": lambda c: c.alnum(43),
    "upper7": lambda c: c.upper(7),
    "upper10": lambda c: c.upper(10),
    "b64-16": lambda c: c.base64(16),
    "b64-20": lambda c: c.base64(20),
    "b64-fingerprint": lambda c: c.base64(32).rstrip("="),
    "b64-24": lambda c: c.base64(24),
    "b64-32": lambda c: c.base64(32),
    "b64-48": lambda c: c.base64(48),
    "b64-128": lambda c: c.base64(128),
    "b64-64": lambda c: c.base64(64),
    "b64-256": lambda c: c.base64(256),
    "b64url-32": lambda c: c.base64_url(32),
    "b64url-128": lambda c: c.base64_url(128),
    "b64url-256": lambda c: c.base64_url(256),
    "b64-lines": lambda c: _lines(c.base64(400), 76),
    "numbered-phrase": _numbered,
    "comma-phrase": lambda c: phrase(c).replace(" ", ", "),
    "url-signature": lambda c: quote(c.base64(32), safe=""),
    "fernet": lambda c: base64.urlsafe_b64encode(c.randbytes(32)).decode(),
    "wif": lambda c: f"K{c.of('wxyz', 1)}{c.of(_BASE58, 50)}",
    "bech58": lambda c: c.of("qpzry9x8gf2tvdw0s3jn54khce6mua7l", 58),
    "docker-json": _docker_json,
    "b64-export": _export,
    "b64-password": _base64_password,
    "basic": _basic,
    "codes": _codes,
    "otp-seed": lambda c: c.of("ABCDEFGHIJKLMNOPQRSTUVWXYZ234567", 32),
    "rsa-body": _der("MIIEpAIBAAKCAQEA", 1180),
    "pkcs8-body": _der("MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQ", 1150),
    "ec-body": _der("MHcCAQEEI", 112),
    "encrypted-body": _der("MIIFHDBOBgkqhkiG9w0BBQ0wQTApBgkqhkiG9w0BBQwwHAQI", 900),
    "openssh-body": _der("b3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9uZQAAAAAAAAABAAAAMwAAAAtzc2gtZWQyNTUxOQAAAC", 300),
    "openssh-one-line": lambda c: (
        "b3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9uZQAAAAAAAAABAAAAMwAAAAtzc2gt" + c.base64(240)
    ),
    "pgp-body": _der("lQVYBGVk", 900),
    "putty-body": _der("AAAA", 480),
    "key-rest": _der("", 900),
    "rsa-one-line": lambda c: "MIIEpAIBAAKCAQEA" + c.base64(1180),
    "rsa-escaped": lambda c: _lines("MIIEvQIBADANBgkqhkiG9w0BAQEFAASC" + c.base64(1150)).replace("\n", "\\n"),
    "bcrypt": lambda c: f"$2y$10${c.of('./ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789', 53)}",
    "cisco7": lambda c: f"0{c.randint(2, 9)}{c.of('0123456789ABCDEF', 18)}",
    "uuid": lambda c: c.uuid(),
    "digits6": lambda c: c.digits(6),
    "digits18": lambda c: c.digits(18),
    "digits12": lambda c: c.digits(12),
    "name": lambda c: _name(c, 3),
    "access-key-id": lambda c: f"AKIA{c.of('ABCDEFGHIJKLMNOPQRSTUVWXYZ234567', 16)}",
}
"""Every maker that a slot may name."""
