"""Whether a value could be a secret: what stands where a secret would stand is mostly a placeholder, a name or code."""

from __future__ import annotations

import math
import re
from collections import Counter
from operator import ne, sub

from kagura_kernel.domain.late_pattern import late_pattern
from kagura_kernel.kit.redaction.chance import CLASSES, CODE, SAID, drawn, once, strewn
from kagura_kernel.kit.redaction.false_positives import named, openly
from kagura_kernel.kit.redaction.patterns import Lazy

# Python's own engine stands here only for patterns that cannot go back over what they read, on short values.
_LONGEST = 4096
"""Bytes; what is longer is no placeholder."""

_REFERENCE = late_pattern(
    rb"""(?x)
    \$.* | [abglstvw]:[A-Za-z_]\w*(?:[.\[(].*)? | %[A-Za-z_][\w]*%.* | %\([\w.]+\)[sd] | .*%(?:\d+\$)?[-.\d]{0,4}[sduxif](?:[^A-Za-z0-9].*)? | .*%0A.* | %[sdrv] | %\w+ | @[A-Za-z_.]+@ | &\w+; | \{[\w.]*\}.* | \{\{.* | \{%.*
    | <.* | &lt;.* | \[.*\] | \[A-Z.* | \(.*\) | `.*` | ~.* | \#.* | !.*vault.* | !.*secret.* | !(?:Ref|Sub|GetAtt|ENV)\b.*
    | (?:env|secret|secrets|vault|ssm|op|keyring|file|arn|ref|awssm|gcpsm|vals|var|local|data|module|input|inputs
        |params|config|cfg|settings|self|this|process|os|ctx|context|props|state|options|opts|args|request|req|env_var
        |values|steps|github|inputs|credentials|System|Environment|ENV|kwargs)(?:[.:\[(]|->).*
    | %\{.* | %%.*%% | __\w+__ | @@.*@@ | \#\{.* | \[\[.* | /.* | \.{1,2}/.* | [A-Za-z]:\\.* | [\w$]+(?:\.[\w$]+)*\(.* | [\w$]+\[["'\w$].* | \*+ | [-_=+.\#~?]+ | \\.* | .*\$\{.*
    | @Microsoft\.KeyVault\(.*
    | .*\{\{.* | .*\$\(.* | .*<[\w \-]+>.* | .*\{[A-Za-z_][\w.]*\}.*
    """
)
"""What leads to a value and is none itself: `${TOKEN}`, `<your-token>`, `os.environ["TOKEN"]`, a path, a call."""

_EMPTY_WORDS = frozenset(
    b"""
    true false yes no on off none null nil undefined nan void unset empty default required optional enabled disabled
    string str text int integer number float bool boolean bytes object array list dict any unknown varchar char uuid
    input output hidden masked redacted removed omitted secret secrets password passwd passphrase pass pwd passw0rd
    p4ssw0rd pa55word pa55w0rd p@ssword p@ssw0rd p@$$w0rd password1 password123 passw0rd123 pass123 pass1234 secret123
    mysecret mypassword mypass mytoken mykey thepassword yourpassword yourtoken yourkey userpassword dbpassword
    dbpass rootpassword rootpass adminpassword adminpass admin123 root123 user123 test123 test1234 testpass testpassword
    testing tester test demo guest user username root admin administrator postgres mysql mongo redis rabbitmq elastic
    changeme changeit changethis change_me change-me changeme123 changemenow letmein qwerty qwerty123 welcome welcome1
    hello world foo bar baz qux foobar foobared foobarbaz foopass barpass abc abcd abc123 abcdef abcdefg abcdefgh 123
    1234 12345 123456 1234567 12345678 123456789 1234567890 0000 000000 1111 111111 iloveyou monkey dragon sunshine
    example sample placeholder dummy fake mock bogus invalid wrong incorrect correct expired missing valid todo fixme
    arg1 arg2 arg3 user1 user2 service1 service2 value1 value2 test1 test2 param1 param2 token1 token2 secret1 secret2 pass1 pass2
    user:password user:pass username:password username:pass
    tbd xxx n/a na value values key token tokens apikey api_key api-key secretkey secret_key secret-key auth bearer basic
    client_secret client-secret credentials credential private public login session cookie hash hashed encrypted
    plain plaintext encoded md5 sha1 sha256 sha512 bcrypt scrypt argon2 pbkdf2 hmac rsa ed25519 ecdsa aes scram-sha-256
    trust peer ident reject prompt ask interactive stdin env environment file vault keychain manager generated random
    development production staging local localhost notset not-set not_set nopassword no-password none. blank
    snakeoil vagrant raspberry toor ansible jenkins docker minioadmin sa nobody anonymous correcthorsebatterystaple
    hunter tiger tomcat s3cret pass@word1 notasecret not-a-secret supersecret super-secret topsecret top-secret
    verysecret very-secret my-secret my-secret-pw my_secret my-password my_password my-token my_token somepassword
    some-password somesecret some-secret sometoken some-token shhh keyboard passcode pin otp code
    """.lower().split()
)
"""Whole values that are no secret, or one that everybody knows."""

_HINT = Lazy(
    r"example|placeholder|change[-_ ]?(?:me|this|it)|dummy|\bsample|redacted|your[-_ ]|[-_ <]your|replace[-_ ]?(?:me|with|this)"
    r"|insert[-_ ]|enter[-_ ]|[-_]here\b|goes[-_ ]?here|x{5,}|\*{3,}|\.{3,}|_{5,}|\?{3,}|fixme|tbd\b|todo\b|notreal|not[-_]a?[-_]?real|not[-_]?used|"
    r"1234567890|0123456789|123456789|abcdefgh|deadbeef|cafebabe|qwertyui|lorem|ipsum|foobar|\bfoo\b|\bdummy|\bfake|fake[-_]|"
    r"<[a-z_ -]+>|\\u2026|…|[-_]goes[-_]|some[-_](?:secret|password|token|key)|my[-_](?:secret|password|token|api|key)|"
    r"(?:secret|password|token|key)[-_](?:here|value|name|goes)|test[-_](?:password|secret|token|key|value)|\b(?:wrong|invalid|incorrect|bad)[-_ ]?(?:pass(?:word|wd|phrase)?|pwd?|secret|token|(?:api[-_]?)?key|credential)|do[-_]not[-_]use|"
    r"\bnone\b|unsafe[-_]|\binsecure[-_ ]?(?:secret|password|key|token)|for[-_]testing|abc123|abcd1234|1a2b3c|xyz123|xyz789|aaaaaa|000000|111111|bbbbbb|ffffffff"
)
"""What only placeholders have in them."""

_NAMED_PARTS = late_pattern(
    rb"(?i)(?:(?:my|your|db|fw|ftp|ssh|proxy)?(?:user|login|pass|passwd|password|pwd)[@:/])+(?:my|your|db|fw|ftp|ssh|proxy)?(?:pass|passwd|password|pwd)"
)
"""What names the parts of a login that stand there, as in `PASS pass@fwpass` for one through a firewall."""

_PUBLISHED = frozenset(
    {
        b"AKIAIOSFODNN7EXAMPLE",
        b"sk_test_4eC39HqLyjWDarjtT1zdp7dc",
        b"sk_test_BQokikJOvBiI2HlWgH4olfQ2",
        b"sk_test_26PHem9AhJZvU623DfE1x4sd",
        b"pk_test_TYooMQauvdEDq54NiTphI7jx",
        b"mF_9.B5f-4.1JqM",
        b"QWxhZGRpbjpvcGVuIHNlc2FtZQ==",
        b"QWxhZGRpbjpPcGVuU2VzYW1l",
        b"Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==",
        b"C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw==",
        b"JBSWY3DPEHPK3PXP",
        b"GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ",
        b"tGzv3JOkF0XG5Qx2TlKWIA",
        b"2YotnFZFEjr1zCsicMWpAA",
        b"SlAV32hkKG",
        b"SplxlOBeZQQYbYS6WxSbIA",
        b"dGhlIHNhbXBsZSBub25jZQ==",
        b"s3cr3t",
        b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11",
        b"Tr0ub4dor&3",
        b"czZCaGRSa3F0MzpnWDFmQmF0M2JW",
        b"czZCaGRSa3F0Mzo3RmpmcDBaQnIxS3REUmJuZlZkbUl3",
    }
)
"""Values that standards and makers print in their own documentation."""


_BITS = tuple(count * math.log2(count) if count else 0.0 for count in range(_LONGEST))
"""What a byte that stands there so many times takes from the chance of a value."""


def entropy(value: bytes) -> float:
    """Bits per byte, by Shannon."""
    total = len(value)
    if not total:
        return 0.0
    counts = Counter(value).values()
    if total < _LONGEST:
        return math.log2(total) - sum(map(_BITS.__getitem__, counts)) / total
    return -sum(count / total * math.log2(count / total) for count in counts)


def chance(value: bytes, bits: float) -> bool:
    """Whether it has at least so many bits per byte; for most values the number of different bytes says it."""
    total, different = len(value), len(set(value))
    if not 0 < total < _LONGEST:
        return entropy(value) >= bits
    # Least, when one byte stands there again and again and every other one once; most, when all do equally often.
    if math.log2(total) - _BITS[total - different + 1] / total >= bits:
        return True
    return math.log2(different) >= bits and entropy(value) >= bits


@once
def placeholder(value: bytes) -> bool:
    """Whether this stands for a value and is none: `changeme`, `<token>`, `${TOKEN}`, `xxxxx`, an example of a standard."""
    value = value.strip()
    if not value or len(value) > _LONGEST:
        return not value
    if value.lower().strip(b"\"'.,;:!?") in _EMPTY_WORDS or value in _PUBLISHED:
        return True
    if _HINT.search(value) or _NAMED_PARTS.fullmatch(value) or len(set(value)) <= max(2, min(4, len(value) // 6)):
        return True
    return _repeats(value) or _climbs(value)


def reference(value: bytes) -> bool:
    """Whether this leads to a value kept elsewhere, or is code that makes one."""
    value = value.strip()
    return _REFERENCE.fullmatch(value) is not None and not (strewn(value) or (value[:1] == b"/" and drawn(value, CODE)))


def _repeats(value: bytes) -> bool:
    """A short unit again and again: `abcabcabc`, `12121212`."""
    size = len(value)
    if size < 6:
        return False
    longest = min(size // 3, 12)
    unit = value.find(value[:1], 1, longest + 1)
    while unit > 0:
        if value.startswith(value[unit:]):
            return True
        unit = value.find(value[:1], unit + 1, longest + 1)
    return False


_ONE_STEP = frozenset({1, -1})


def _climbs(value: bytes) -> bool:
    """Mostly one step after the other, up or down: `abcdef1234567`, `0xA1B2…` of a keyboard."""
    if len(value) < 6:
        return False
    steps = sum(map(_ONE_STEP.__contains__, map(sub, value[1:], value)))
    return steps >= 0.7 * (len(value) - 1)


_WORDS = late_pattern(rb"[A-Za-z]+")
# What is possessive here has one way to match: otherwise a few dozen letters keep the kernel busy for hours.
_IDENTIFIER = late_pattern(rb"[A-Za-z_$]++(?:[.\-/][A-Za-z_$]++)*+")
_CAMEL = late_pattern(rb"(?:[A-Z]?[a-z]{2,}+|[A-Z]{2,5}(?=[A-Z][a-z]|$))++")
_CALL = late_pattern(rb"[A-Za-z_$][\w$.]*(?:\(|\[|::|->|=>)")
_VERSION = late_pattern(rb"(?:\d:)?[v^~<>=]*\d+(?:\.\d+){1,3}(?:[-+.\w]*)?")
_NUMBER = late_pattern(rb"[-+]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?%?|0x[0-9a-fA-F]{1,8}")
_DATE = late_pattern(
    rb"\d{4}-\d\d-\d\d(?:[T ][\d:.]+(?:Z|[+-]\d\d:?\d\d)?)?|\d+(?:/\d+)+|CVE-\d{4}-\d+"
    rb"|(?i:\d{1,2}[- ]?(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]{0,6}[- ]?(?:\d{2}|\d{4}))"
)
_MAIL = late_pattern(rb"[\w.+-]+@[\w-]+(?:\.[\w-]+)+")
_URL = late_pattern(rb"[a-z][a-z0-9+.-]*://@?[^\s@]*")
_HOST = late_pattern(
    rb"(?:[a-z0-9](?:[a-z0-9-]*[a-z0-9])?\.)+(?:com|org|net|io|dev|local|internal|svc|co|de|jp|cn|example|test)(?::\d+)?(?:/.*)?"
)
_HASH = late_pattern(
    rb"(?:sha\d{1,3}|md5|blake2[bs]|h1|gitsha1)[-:=][\w+/=:-]{16,}|git\+.*|(?:npm|workspace|file|link|patch):.*"
)
_PACKAGE = late_pattern(rb"@?[\w./-]+@(?:npm:)?[\^~>=<v]*\d+[\w.+-]*")
_OPEN_KEY = late_pattern(
    rb"(?:LS0tLS1CRUdJTiBDRVJU|LS0tLS1CRUdJTiBQVUJM|LS0tLS1CRUdJTiBTU0gyIFBVQk|MIIBIjAN|MIICIjAN|MFkwEwYHKoZI|MCowBQYDK2V|AAAA[BCE]3NzaC1|"
    rb"pk_(?:live|test)_|ssh-|ecdsa-|pub-|-----BEGIN (?:CERT|PUBLIC|RSA PUBLIC|SSH2? PUBLIC)|age1[a-z0-9]{20}|npub1|xpub|[yz]pub6).*",
    re.DOTALL,
)
"""What everybody may see: certificates, public keys, keys made to be published."""
_TITLE = late_pattern(rb"[A-Z]?[a-z]+(?:\s+[A-Za-z][a-z']*)*[.!?]?")
_FILE = late_pattern(
    rb"[\w.-]+\.(?:pem|key|crt|cer|txt|json|ya?ml|toml|env|py|js|ts|go|rs|java|md|html?|cfg|conf|ini|p12|jks|gpg|asc|xml|sh|diff|patch|symbols|csv|log|rst)"
)


def is_word(value: bytes) -> bool:
    """A name or plain words: `required`, `my-secret`, `SecretManager`, `the user`."""
    if drawn(value, SAID if value.isalpha() else CODE):
        return False
    return bool(
        _IDENTIFIER.fullmatch(value)
        and (
            value.islower()
            or value.isupper()
            or _CAMEL.fullmatch(re.sub(rb"[.\-_/$]", b"", value))
            or b"_" in value
            or named(value)
        )
    ) or bool(_TITLE.fullmatch(value))


_FACT = late_pattern(
    b"|".join(
        b"(?:%s)" % form.pattern for form in (_NUMBER, _VERSION, _DATE, _MAIL, _URL, _HOST, _FILE, _HASH, _PACKAGE)
    )
    + b"|(?s:%s)" % _OPEN_KEY.pattern
)


def is_fact(value: bytes) -> bool:
    """A number, a date, a version, an address, a file: said openly everywhere."""
    return _FACT.fullmatch(value) is not None


def classes(value: bytes) -> int:
    """How many of lower case, upper case, digits and others there are in it."""
    return len(set(value.translate(CLASSES)))


@once
def password(value: bytes, *, certain: bool = False) -> bool:
    """Whether this may be a password.

    Args:
        value: Without quotes.
        certain: Whether nothing but a password can stand there, as behind `sshpass -p`; then plain words count too.
    """
    if (
        not 4 <= len(value) <= 512
        or (value.endswith(b"=") and value[:-1].isalpha())
        or value.startswith((b").", b"),", b");"))
        or placeholder(value)
        or reference(value)
    ):
        return False
    if certain:
        return True
    if _NAMES.fullmatch(value) or (
        is_fact(value) and not (value.isdigit() and len(value) >= 6 and len(set(value)) >= 4)
    ):
        return False
    if is_word(value):
        return _passphrase(value)
    if _sentence(value) or (_CALL.match(value) and value.endswith((b")", b"]", b"(", b"{", b","))):
        return False
    return classes(value) >= 2 or (len(value) >= 8 and value.isdigit()) or drawn(value, SAID)


def _sentence(value: bytes) -> bool:
    """Words alone, with what stands between words."""
    return b" " in value and all(word.strip(b".,:;!?()'").isalpha() for word in value.split())


def _passphrase(value: bytes) -> bool:
    """Four words or more in a row that are no sentence: `copper-lantern-orbit-seven`."""
    words = _WORDS.findall(value)
    return (
        len(words) >= 4
        and len(value) >= 18
        and value.islower()
        and b" " not in value
        and b"." not in value
        and b"/" not in value
    )


_LONG = 200
_RUN = late_pattern(rb"[\w+/=.:%~,\-]+")
"""What long tokens are made of; tables of a program have other signs too."""
_NAMES = late_pattern(
    rb"[A-Z]{2,}\d?(?:_[A-Z]{2,}\d?)+|[A-Z][A-Za-z]{3,}(?:\.[A-Z][A-Za-z]{2,})+|[a-z][a-z0-9-]{1,30}:(?:[A-Z][a-z]+){2,}+\*?"
    rb"|@[a-z][\w.\-]*/[\w.\-]+:[A-Z][A-Za-z]+|(?:com|org|net|io|javax?|sun)(?:\.[A-Za-z_][A-Za-z_]*+\d?[A-Za-z_]*+){1,8}"
)
"""Constants, operations, permissions and packages: `OAUTH2_CREDENTIALS`, `IdentityService.ConfirmSignUp`, `ecr:PutImage`."""


@once
def token(value: bytes, least: int = 12) -> bool:
    """Whether this may be a key or a token: long, and nothing that a person would say.

    Args:
        value: Without quotes.
        least: Bytes it must have.
    """
    if not least <= len(value) <= 16384 or b" " in value or placeholder(value) or reference(value):
        return False
    if is_word(value) or is_fact(value) or _CALL.match(value) or openly(value) or named(value):
        return False
    if value.isdigit() or _NAMES.fullmatch(value) or (len(value) > _LONG and not _RUN.fullmatch(value)):
        return False
    letters = len(set(value))
    if letters < 7 or not chance(value, 2.6):
        return False
    return drawn(value, SAID) or _mixed(value)


def _mixed(value: bytes) -> bool:
    """Whether digits or cases are strewn over it, as chance does and people do not."""
    if classes(value) >= 3:
        return not _spoken(value)
    kinds = value.translate(CLASSES)
    changes = sum(map(ne, kinds[1:], kinds))
    digits = kinds.count(2)
    if digits and changes >= 3:
        return not _spoken(value)
    return len(value) >= 20 and entropy(value) >= 3.6 and not _spoken(value) and b"-" not in value and b"_" not in value


_PARTS = late_pattern(rb"[^A-Za-z0-9]+")
_SPOKEN_PART = late_pattern(rb"[A-Z]?[a-z]{2,}|[A-Z]{2,}|\d{1,4}|v\d+|[a-z]+\d{1,2}|[A-Za-z]|")


def _spoken(value: bytes) -> bool:
    """Words, small numbers and what separates them, as in `prod-db-password-2024` or `com.example.Token2`."""
    parts = _PARTS.split(value)
    return len(parts) >= 2 and all(_SPOKEN_PART.fullmatch(part) for part in parts)


_CRYPTED = late_pattern(
    rb"\$(?:2[abxy]|1|5|6|7|y|gy|apr1|argon2(?:id|i|d)|scrypt|pbkdf2[\w-]*)\$[\w./$,=+-]{16,}"
    rb"|\{(?:S?SHA(?:256|512)?|SMD5|MD5|CRYPT|BCRYPT|PBKDF2[\w-]*)\}[\w+/=.$]{16,}|SCRAM-SHA-256\$\S{40,}|\*[0-9A-F]{40}"
)
_VALIDATION = late_pattern(rb"[a-z_]+(?::[\w,.]+)?(?:\|[a-z_]+(?::[\w,./^$-]+)?)+")
_NAME = rb"(?>[A-Za-z_][A-Za-z_.]*+\d{0,2}[A-Za-z]*+)"
_TYPE = late_pattern(rb"%s(?:(?:<|\||&lt;?|\[\]|\):?)%s?)++[>\])};,:]*" % (_NAME, _NAME))


def crypted(value: bytes) -> bool:
    """Whether this is a password as systems keep it, which may be guessed from: `$2b$…`, `{SSHA}…`."""
    return _CRYPTED.fullmatch(value) is not None


def validation(value: bytes) -> bool:
    """Whether this is a rule for a field or a type: `required|min:8`, `Promise<Token>`."""
    return _VALIDATION.fullmatch(value) is not None or _TYPE.fullmatch(value) is not None


def published(value: bytes) -> bool:
    """Whether this is made for everybody's eyes: a certificate, a public key."""
    return _OPEN_KEY.match(value) is not None
