"""What is no secret: by how it is written, and by what stands around it."""

from __future__ import annotations

import re

from kagura_kernel.domain.late_pattern import late_pattern
from kagura_kernel.kit.redaction.chance import SAID, drawn, once, strewn
from kagura_kernel.kit.redaction.spans import Span, line_start

# Python's own engine sees short values here, and no pattern can go back over what it read.
_LONGEST = 300
_WIDEST = 2000
_CHORD = late_pattern(
    rb"(?i)(?:(?:ctrl|control|cmd|command|alt|altgr|option|opt|shift|meta|super|win|hyper|cmdorctrl|commandorcontrol|mod|fn|\xe2\x8c\x98|\xe2\x87\xa7|\xe2\x8c\xa5)[ ]?[+\-][ ]?)+\S{1,12}"
)
"""Keys that are pressed together: `Ctrl+Alt+K`."""
_POINTER = late_pattern(rb"0x(?:[0-9a-fA-F]{1,12}|(?:0000|[fF]{4})[0-9a-fA-F]{12})")
_ENTRY_POINT = late_pattern(
    rb"[A-Za-z_][A-Za-z_]*+\d{0,2}(?:\.[A-Za-z_]++\d{0,2}(?:_[a-z]++)*+)++:[A-Za-z_]++(?:\.[A-Za-z_]++)*+"
)
"""What a package starts: `tools.password:run`."""
_SCOPED = late_pattern(rb"[A-Za-z_]\w*+(?:::[A-Za-z_]\w*+)++|[a-z]+:[a-z]+(?:[A-Z][a-z]+)*")
_SEGMENT = late_pattern(rb"[A-Za-z]+\d{0,4}(?:[-_.][A-Za-z0-9]{1,20}){0,8}|\d{1,14}|v\d+|[*{}$:\w]{1,3}")
_WORD = late_pattern(rb"[a-z]{4,}")
_PROGRAM = late_pattern(
    rb"(?:\./)?(?:node|nodemon|npm|npx|pnpm|yarn|bun|bunx|deno|tsx|ts-node|python[23]?|py|poetry|uv|bash|sh|zsh|pwsh|make|just|cargo|go|php|ruby|rake|perl|java|docker|kubectl|"
    rb"echo|cat|sudo|env|cross-env|rimraf|tsc|vite|webpack|jest|vitest|mocha|eslint|prettier|openssl|gpg|curl|wget|git|pass|vault|aws|gcloud|az|op|bw|read|grep|sed|awk) .*"
)
"""A command that somebody wrote down to be run."""
_GRAMMAR = late_pattern(rb"\d*\*\(?[A-Za-z\"].*|%[xd][0-9A-F].*")
"""A rule of a grammar: `1*tchar`."""
_TERNARY = late_pattern(rb"[^?]{1,80}? ?\?\??[ ]?(?:'[^']*'|\"[^\"]*\"|[\w.$\[\]()]+)[ ]?:.*")
_CODE_END = late_pattern(
    rb"[\w.$]++[)\]]++[\[(.,;:].*|[A-Za-z_$][\w.$]*+!?[\[({][\w.]*+|[)\]}]++[|.,;:(\[?*+)&=].*|[A-Za-z_]\w*+(?:\.\w++)*+\[[\w\"'\[\].:+\-]*+\]?"
)
"""An expression that was cut at its brackets: `len)[-1`, `state[`."""
_ISSUE = late_pattern(rb"[\w.\-/]*#\d{1,7}")
_REGEX = late_pattern(
    rb"\(\?[:=!<Pi]|\[[^\]\[]{0,40}(?:a-z|A-Z|0-9)[^\]\[]{0,40}\]|\[\^?(?:A-Z|a-z|0-9|\\w|[^\]\[]{0,20}-\])[^\]]*\][+*{?]|\\[wdsbSWD][+*{\[)]|\\x[0-9A-Fa-f]{2}-\\x[0-9A-Fa-f]{2}|\[[a-z\-]+ (?:[a-z]+|\d+)\]|\[\d+ [a-z]+\]|\[A-Z\]|\[[a-z]\][^\]]{0,4}\[|\(\.[*+]?\)"
)
"""What only a regular expression has, or what stands for so many letters: `[20 alnum]`."""
_ALGORITHM = late_pattern(
    rb"(?i)(?:aws4-)?(?:hmac|rsa|ecdsa|rsassa|ecdh|pbkdf2|aes|dsa)[-_]?(?:with[-_]?)?(?:\d{3}[-_])?(?:sha|gcm|cbc|ctr|es|oaep|pss|pkcs)[-_\w]*|argon2(?:id|i|d)?|rsa-?\d{4}|(?-i:(?:[A-Z0-9]+[-_])+(?:SHA\d*|POLY1305|CCM\d*|GCM|CBC|MD5))"
    rb"|(?-i:[-+!@]?[A-Z]{3,}\d{0,3}(?:[-+:][-+!@]?[A-Z]{3,}\d{0,3})*:[-+!@]?[A-Z]{3,}\d{0,3})"
)
_FLAG = late_pattern(
    rb"(?:[a-z_]+\d?|[a-z]*+(?:[A-Z][a-z]+)+|[A-Z_]+)=(?:\d{1,6}|[a-z_]+(?:\.[A-Za-z_]+)*|(?:[A-Z][a-z]+)+)"
)
_FIELD = late_pattern(rb":?[A-Za-z_]++\d?::?")
_CLASS = late_pattern(
    rb"\*{0,2}_{0,2}(?:[A-Z]+\d*_)?k?(?:[A-Z][a-z]*+\d{0,5})*?(?:Token|Key|Secret|Password|Passphrase|Credential|Auth|Certificate|Cookie|Session|Type|Class|Error|Exception|Store|Backend|Provider|Handler|Helper|"
    rb"Response|Request|Config|Option|Setting|Format|Manager|Service|Client|Factory|Model|View|Form|Field|Input|Schema|Spec|Params|Args|Protocol|Algorithm|Method|Builder|Parser|Codec|Cipher|Hash|Policy|Resource|Controller|Context)"
    rb"(?:s|es)?(?:\[\]|\?|\.\w+)?"
)
"""Names of classes and types: `Curve448PrivateKey`."""
_CONSTANT = late_pattern(rb"[A-Z][A-Z0-9]*+(?:_[A-Z0-9]++)++(?:=\]?)?")
_PIECES = late_pattern(rb"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+")
_NAME_SIGNS = late_pattern(rb"[A-Za-z0-9_.:/@$\-]+")
_VOWELS = late_pattern(rb"(?i)[aeiouy]")
_HARD = late_pattern(rb"(?i)[^aeiouy]{5}")
_VERSIONED = late_pattern(rb"[A-Za-z]+[-_]v?\d+(?:\.\d+)+[\w.~\-/]*")


_OPENLY = late_pattern(
    b"|".join(
        b"(?i:%s)" % form.pattern.removeprefix(b"(?i)") if form.pattern.startswith(b"(?i)") else b"(?:%s)" % form.pattern
        for form in (
            _CHORD, _POINTER, _ENTRY_POINT, _SCOPED, _PROGRAM, _FLAG, _FIELD, _CLASS, _ISSUE, _ALGORITHM, _VERSIONED,
        )
    )
)  # fmt: skip


@once
def openly(value: bytes) -> bool:
    """Whether nobody would take this for a secret, wherever it stands: `Ctrl+Alt+K`, `projects/4001/secrets/mail`."""
    if not value or len(value) > _LONGEST:
        return False
    value = value.strip(b" `").rstrip(b")")
    return (
        _OPENLY.fullmatch(value) is not None
        or (_GRAMMAR.fullmatch(value) is not None and not strewn(value))
        or _REGEX.search(value) is not None
        or _resource(value)
        or value.endswith(b"/aws4_request")
        or _constant(value)
        or (b" " in value and _written(value))
    )


def _resource(value: bytes) -> bool:
    """A path of words and numbers: `projects/4001/secrets/mail-pass/versions/2`, `user:42:perm`."""
    sign = b"/" if b"/" in value else b":"
    if value.count(sign) < 2 or value.endswith(b"=") or b"+" in value:
        return False
    segments = value.strip(sign).split(sign)
    return all(_SEGMENT.fullmatch(one) for one in segments) and sum(
        _WORD.match(one) is not None for one in segments
    ) * 2 >= len(segments)


def _constant(value: bytes) -> bool:
    """`CRT_S3_CLIENT`: most of its parts are letters alone."""
    if _CONSTANT.fullmatch(value) is None:
        return False
    parts = value.rstrip(b"=]").split(b"_")
    return sum(part.isalpha() and len(part) > 1 for part in parts) * 2 >= len(parts)


_OPERATORS = frozenset(b"* + - / = == === != < > <= >= && || | ? : ?? => ->".split())
_VARIABLE = late_pattern(rb"(?:\A|\s)[\"']?\$[A-Za-z_]\w{2,}")
_ODD = late_pattern(rb"[A-Za-z][\d!@$%^&*~|+]|\d[A-Za-z!@$%^&*~|+]|[!@$%^&*~|+][A-Za-z\d]")
"""What no word of a sentence has."""
_SAID_OF = late_pattern(rb"\\*[\"'=]")
_PUNCTUATION = b".,:;!?()[]{}\"'`\\<>"


def _written(value: bytes) -> bool:
    """Whether this is an expression or a sentence, by its words."""
    words = value.replace(b"\\n", b" ").replace(b"\\t", b" ").split()
    if any(word in _OPERATORS for word in words[1:-1]) or _TERNARY.fullmatch(value) or _VARIABLE.search(value):
        return True
    if len(words) >= 3 and not any(_ODD.search(_SAID_OF.sub(b"", word).strip(_PUNCTUATION)) for word in words):
        return not all(word.isalpha() and word.islower() for word in words)
    plain = sum(word.strip(_PUNCTUATION).replace(b"'", b"").replace(b"-", b"").isalpha() for word in words)
    return len(words) >= 3 and plain == len(words) and not all(word.isalpha() and word.islower() for word in words)


def expression(value: bytes) -> bool:
    """Whether a value without quotes is a piece of a program: cut at its brackets, or with calls and blocks in it."""
    return len(value) <= _WIDEST and (
        _CODE_END.fullmatch(value) is not None
        or _CODE.search(value) is not None
        or _CHOICE.fullmatch(value) is not None
        or _TYPE.fullmatch(value) is not None
        or (_MEMBER.fullmatch(value) is not None and named(value))
    )


_OPERAND = rb"[!+]{0,2}[A-Za-z_$]++\d{0,2}(?:\??\.[A-Za-z_$]++\d{0,2}|\[[\w$]*+\]?|\([A-Za-z_$.,]*+\)?)*+|\"\"|''"
_CHOICE = late_pattern(
    rb"(?=.*(?:\.[A-Za-z_$]|\(|:(?:void|null|![01])\Z))!?[A-Za-z_$]{1,3}(?:\??\.[A-Za-z_$][\w$]*+)*+"
    rb"(?:(?:&&|\|\||\?\?|[=!]==?|\?(?=[^?]*:)|:)(?:%b)?)++" % _OPERAND
)
"""What a program without spaces takes of two: `n?n.key:void`, `b?.c??d`, `e.s&&e.s.v`."""
_MEMBER = late_pattern(rb"_?[A-Za-z]{3,}+\d{0,2}[A-Za-z_]*+(?:\.[A-Za-z_]{3,}+\d?[A-Za-z_]*+)++(?<![0-9])")
"""A member of a module: `oauth2_parameters.credentials`."""
_TYPE = late_pattern(rb"(?:[A-Z][a-z]+){2,}<\[[A-Za-z]*")
"""A type cut at its bracket: `SyncBailHook<[`."""
_CODE = late_pattern(
    rb"\)\{|\(\)[{};.,)]|\.[A-Za-z]{3,}\(|[=!]==|[\w\])][=!]=[\w(\[!]|\bthis\.|\)(?:&&|\|\|)\(?|&&\(|\A[\w$]{1,3}\}|\A[\w$]+(?:\.[\w$]+)+=\Z|\b[A-Za-z_$][\w$]*\([A-Za-z_$][\w$]*\.[A-Za-z_$]|\A\([a-z]+ [&|]|\b[A-Za-z_$][\w$]*\([A-Za-z_$][\w$]*\([A-Za-z_$][\w$]*,|\}\}\([a-z]\|\||\A[\w$]{1,3}=[\w$]{1,3}[+*|&-]+\("
)


@once
def named(value: bytes) -> bool:
    """Whether a key or a token could not read like this: words in a row, with few digits, as names of programs have."""
    if _NAME_SIGNS.fullmatch(value) is None or drawn(value, SAID):
        return False
    pieces = _PIECES.findall(value)
    digits = [piece for piece in pieces if piece.isdigit()]
    words = [piece for piece in pieces if not piece.isdigit()]
    letters = sum(map(len, words))
    if len(words) < 2 or len(digits) > 2 or sum(map(len, digits)) * 4 > len(value):
        return False
    if b"_" not in value and b"-" not in value and (value.isupper() or value.islower()):
        return False
    spoken = sum(len(word) for word in words if len(word) >= 3 and _VOWELS.search(word) and not _HARD.search(word))
    return spoken >= 0.8 * letters and letters >= 4 * len(words) * 0.85


_GIVEN_AWAY = frozenset(
    {"password", "secret", "token", "api-key", "session", "private-key", "command-password", "connection-string"}
)
"""Kinds that a word nearby gave away; what says itself that it is a secret needs no doubts."""
_REACH = 2000
_QUOTES = b"\"'`"
_OPENS = rb"(?<![0-9A-Za-z\\])[bBrRuUfFN]{0,2}"
CLOSED = late_pattern(_OPENS + rb"(?:\"(?:[^\"\\\n]|\\.)*+\"|'(?:[^'\\\n]|\\.)*+'|`[^`\n]*+`)")
_JOINED = late_pattern(
    rb"(?:[!=]==?|\|\||&&|\)[).,;:\]]|[+,?:\]])[^\"'`]*?(?:[(=|&,+:?\[{]|\b(?:in|return|case|typeof) ?)"
)
"""What a program has between two texts."""
_DIGEST = late_pattern(
    rb"(?:[0-9a-fA-F]{32}|[0-9a-fA-F]{40}|[0-9a-fA-F]{56}|[0-9a-fA-F]{64}|[0-9a-fA-F]{96}|[0-9a-fA-F]{128})"
)
_OF_A_FILE = late_pattern(
    rb"(?i)(?<!hmac-)(?<!hmac)(?<!hmac_)\b(?:sha-?\d{1,3}(?:sum)?|sha3[-_]\d{3}|md5(?:sum)?|blake\w{1,3}|check-?sums?|digests?|hash(?:es)?|finger-?prints?|thumbprint|e-?tag|integrity|commits?|revision|sri|crc\d*)\b|-hash\b|_hash\b"
)
_CACHED = late_pattern(rb"(?i)\b(?:cache[ds]?|restored?|saved?|hit|miss)\b")
_CACHE_KEY = late_pattern(rb"(?:[\w.]+[-:/|@])+[0-9a-zA-Z]+")
_KEY_ID = late_pattern(rb"(?:0x)?(?:[0-9A-Fa-f]{8}|[0-9A-Fa-f]{16}|[0-9A-Fa-f]{32}|[0-9A-Fa-f]{40})!?")
_OF_PGP = late_pattern(
    rb"(?i)(?:gpg|gnupg|pgp|signing[-_ ]?key\b|recv-keys?|key-?id|key_id|default-key|trusted-key|local-user)"
)
_COMPARED = late_pattern(rb"[=!]==?[ \t]*\Z")
_PSEUDO = late_pattern(
    rb":?(?:hover|focus|focus-within|focus-visible|active|visited|link|before|after|first-child|last-child|first-of-type|last-of-type|nth-[a-z-]+|not|is|where|has|host|root|target|empty|disabled|enabled|checked|"
    rb"required|optional|valid|invalid|placeholder|placeholder-shown|selection|autofill|read-only|-webkit-[a-z-]+|-moz-[a-z-]+|-ms-[a-z-]+)(?:[{,:.(\[>~+#\s].*|)",
    re.DOTALL,
)
_CUT_SHORT = 16
"""Bytes of a beginning that is shown with an ellipsis."""
_CALLED = late_pattern(rb"_*[a-z][a-z0-9]*_[a-z0-9_]+")
_OF_TWO = late_pattern(rb"\A[ \t]*\*?[A-Za-z_]\w*[ \t]*,[ \t]*[A-Za-z_]\w*[ \t]*=[ \t]*[bBrRuU]?[\"']\Z")
_NEXT_TEXT = late_pattern(rb"[\"'][ \t]*,[ \t]*[bBrRuU]?[\"']")
"""Of two names with two values the first value is of the first name."""
_NEAR = 100
_UNSET = late_pattern(rb"\$\{\w+(?:\[[^\]\n]*\])?:?\Z")


def false_positive(data: bytes, span: Span) -> bool:
    """Whether what stands there is no secret after all, by its form and by what is around it."""
    if span.kind not in _GIVEN_AWAY:
        return False
    value = data[span.start : span.end]
    quoted = data[span.start - 1 : span.start] in {b'"', b"'", b"`"} and span.start > 0
    if openly(value) or (not quoted and expression(value)):
        return True
    if len(value) < _CUT_SHORT and data.startswith((b"...", b"\xe2\x80\xa6"), span.end):
        return True
    if not quoted and _CALLED.fullmatch(value) and data[span.end : span.end + 20].lstrip(b" \t")[:1] == b"(":
        return True
    if data[max(0, span.start - 11) : span.start] == b".svg?token=":
        return True
    begin = line_start(data, span.start, _REACH)
    before = data[begin : span.start]
    return (
        (quoted and _between_texts(data, begin, span))
        or (quoted and _OF_TWO.search(before) is not None and _NEXT_TEXT.match(data, span.end) is not None)
        or (not quoted and _COMPARED.search(before) is not None)
        or (before[-1:] == b":" and _PSEUDO.fullmatch(value) is not None)
        or (value[:1] == b"?" and _UNSET.search(before) is not None)
        or _digest(data, begin, before, value)
        or (_KEY_ID.fullmatch(value) is not None and _OF_PGP.search(before[-_NEAR:]) is not None)
        or (_CACHE_KEY.fullmatch(value) is not None and _CACHED.search(before) is not None)
    )


def named_openly(data: bytes, span: Span) -> bool:
    """Whether the name right before a value of a known format says that everybody may see it."""
    return _OPEN_NAME.search(data[max(0, span.start - _NEAR) : span.start]) is not None


_OPEN_NAME = late_pattern(
    rb"(?i)(?:site_?-?key|(?:public|publishable|client)_?-?key|client_?-?id|app(?:lication)?_?-?id|check-?sum|digest|commit|revision|e-?tag|finger-?print|sha-?(?:1|256|512)|integrity)[\"']?[ \t]{0,9}[:=][ \t]{0,9}[\"']?\Z"
)


def _between_texts(data: bytes, begin: int, span: Span) -> bool:
    """Whether the quote before it ends a text, so that it stands in none: `get("Password")).to("type")`."""
    if _JOINED.fullmatch(data, span.start, span.end) is not None:
        return True
    end = data.find(b"\n", span.end, span.end + _REACH)
    end = min(end if end >= 0 else len(data), span.end + _REACH)
    # With an odd number of them, or on an endless line, a text may have begun before.
    if span.start - begin >= _REACH or data.count(data[span.start - 1 : span.start], begin, end) % 2:
        return False
    return any(found.end() == span.start for found in CLOSED.finditer(data, begin, span.start))


def within_text(data: bytes, at: int) -> bool:
    """Whether the text that begins there stands in a longer one, as in `x="a ? 'b' : 'c'" y="d"`."""
    begin = line_start(data, at, _REACH)
    if at - begin >= _REACH:
        return False
    end = data.find(b"\n", at, at + _REACH)
    found = CLOSED.finditer(data, begin, end if end >= 0 else min(len(data), at + _REACH))
    return any(one.start() < at - 2 and at < one.end() for one in found)


def _digest(data: bytes, begin: int, before: bytes, value: bytes) -> bool:
    """Whether this is the checksum of something, which the line says, or the one above it."""
    if _DIGEST.fullmatch(value) is None:
        return False
    if not before.strip(b" \t\"'`*>|-"):
        above = data.rfind(b"\n", max(0, begin - _REACH), max(0, begin - 1)) + 1
        before = data[above:begin]
    return _OF_A_FILE.search(before) is not None
