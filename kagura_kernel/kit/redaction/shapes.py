"""What is no secret by how it is written: names of programs, shortcuts, paths of resources, commands, expressions."""

from __future__ import annotations

import re

from kagura_kernel.kit.redaction.letters import SAID, drawn, strewn
from kagura_kernel.kit.redaction.verdicts import once

# Python's own engine sees short values here, and no pattern can go back over what it read.
_LONGEST = 300
_WIDEST = 2000
_CHORD = re.compile(
    rb"(?i)(?:(?:ctrl|control|cmd|command|alt|altgr|option|opt|shift|meta|super|win|hyper|cmdorctrl|commandorcontrol|mod|fn|\xe2\x8c\x98|\xe2\x87\xa7|\xe2\x8c\xa5)[ ]?[+\-][ ]?)+\S{1,12}"
)
"""Keys that are pressed together: `Ctrl+Alt+K`."""
_POINTER = re.compile(rb"0x(?:[0-9a-fA-F]{1,12}|(?:0000|[fF]{4})[0-9a-fA-F]{12})")
_ENTRY_POINT = re.compile(
    rb"[A-Za-z_][A-Za-z_]*+\d{0,2}(?:\.[A-Za-z_]++\d{0,2}(?:_[a-z]++)*+)++:[A-Za-z_]++(?:\.[A-Za-z_]++)*+"
)
"""What a package starts: `tools.password:run`."""
_SCOPED = re.compile(rb"[A-Za-z_]\w*+(?:::[A-Za-z_]\w*+)++|[a-z]+:[a-z]+(?:[A-Z][a-z]+)*")
_SEGMENT = re.compile(rb"[A-Za-z]+\d{0,4}(?:[-_.][A-Za-z0-9]{1,20}){0,8}|\d{1,14}|v\d+|[*{}$:\w]{1,3}")
_WORD = re.compile(rb"[a-z]{4,}")
_PROGRAM = re.compile(
    rb"(?:\./)?(?:node|nodemon|npm|npx|pnpm|yarn|bun|bunx|deno|tsx|ts-node|python[23]?|py|poetry|uv|bash|sh|zsh|pwsh|make|just|cargo|go|php|ruby|rake|perl|java|docker|kubectl|"
    rb"echo|cat|sudo|env|cross-env|rimraf|tsc|vite|webpack|jest|vitest|mocha|eslint|prettier|openssl|gpg|curl|wget|git|pass|vault|aws|gcloud|az|op|bw|read|grep|sed|awk) .*"
)
"""A command that somebody wrote down to be run."""
_GRAMMAR = re.compile(rb"\d*\*\(?[A-Za-z\"].*|%[xd][0-9A-F].*")
"""A rule of a grammar: `1*tchar`."""
_TERNARY = re.compile(rb"[^?]{1,80}? ?\?\??[ ]?(?:'[^']*'|\"[^\"]*\"|[\w.$\[\]()]+)[ ]?:.*")
_CODE_END = re.compile(
    rb"[\w.$]++[)\]]++[\[(.,;:].*|[A-Za-z_$][\w.$]*+!?[\[({][\w.]*+|[)\]}]++[|.,;:(\[?*+)&=].*|[A-Za-z_]\w*+(?:\.\w++)*+\[[\w\"'\[\].:+\-]*+\]?"
)
"""An expression that was cut at its brackets: `len)[-1`, `state[`."""
_ISSUE = re.compile(rb"[\w.\-/]*#\d{1,7}")
_REGEX = re.compile(
    rb"\(\?[:=!<Pi]|\[[^\]\[]{0,40}(?:a-z|A-Z|0-9)[^\]\[]{0,40}\]|\[\^?(?:A-Z|a-z|0-9|\\w|[^\]\[]{0,20}-\])[^\]]*\][+*{?]|\\[wdsbSWD][+*{\[)]|\[[a-z\-]+ (?:[a-z]+|\d+)\]|\[\d+ [a-z]+\]|\[A-Z\]|\[[a-z]\][^\]]{0,4}\[|\(\.[*+]?\)"
)
"""What only a regular expression has, or what stands for so many letters: `[20 alnum]`."""
_ALGORITHM = re.compile(
    rb"(?i)(?:aws4-)?(?:hmac|rsa|ecdsa|rsassa|ecdh|pbkdf2|aes|dsa)[-_]?(?:with[-_]?)?(?:\d{3}[-_])?(?:sha|gcm|cbc|ctr|es|oaep|pss|pkcs)[-_\w]*|argon2(?:id|i|d)?|rsa-?\d{4}|(?-i:(?:[A-Z0-9]+[-_])+(?:SHA\d*|POLY1305|CCM\d*|GCM|CBC|MD5))"
    rb"|(?-i:[-+!@]?[A-Z]{3,}\d{0,3}(?:[-+:][-+!@]?[A-Z]{3,}\d{0,3})*:[-+!@]?[A-Z]{3,}\d{0,3})"
)
_FLAG = re.compile(
    rb"(?:[a-z_]+\d?|[a-z]*+(?:[A-Z][a-z]+)+|[A-Z_]+)=(?:\d{1,6}|[a-z_]+(?:\.[A-Za-z_]+)*|(?:[A-Z][a-z]+)+)"
)
_FIELD = re.compile(rb":?[A-Za-z_]++\d?::?")
_CLASS = re.compile(
    rb"\*{0,2}_{0,2}(?:[A-Z]+\d*_)?k?(?:[A-Z][a-z]*+\d{0,5})*?(?:Token|Key|Secret|Password|Passphrase|Credential|Auth|Certificate|Cookie|Session|Type|Class|Error|Exception|Store|Backend|Provider|Handler|Helper|"
    rb"Response|Request|Config|Option|Setting|Format|Manager|Service|Client|Factory|Model|View|Form|Field|Input|Schema|Spec|Params|Args|Protocol|Algorithm|Method|Builder|Parser|Codec|Cipher|Hash|Policy|Resource|Controller|Context)"
    rb"(?:s|es)?(?:\[\]|\?|\.\w+)?"
)
"""Names of classes and types: `Curve448PrivateKey`."""
_CONSTANT = re.compile(rb"[A-Z][A-Z0-9]*+(?:_[A-Z0-9]++)++(?:=\]?)?")
_PIECES = re.compile(rb"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+")
_NAME_SIGNS = re.compile(rb"[A-Za-z0-9_.:/@$\-]+")
_VOWELS = re.compile(rb"(?i)[aeiouy]")
_HARD = re.compile(rb"(?i)[^aeiouy]{5}")
_VERSIONED = re.compile(rb"[A-Za-z]+[-_]v?\d+(?:\.\d+)+[\w.~\-/]*")


_OPENLY = re.compile(
    b"|".join(
        b"(?i:%s)" % form.pattern.removeprefix(b"(?i)") if form.flags & re.IGNORECASE else b"(?:%s)" % form.pattern
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


_OPERATORS = frozenset(
    [
        b"*",
        b"+",
        b"-",
        b"/",
        b"=",
        b"==",
        b"===",
        b"!=",
        b"<",
        b">",
        b"<=",
        b">=",
        b"&&",
        b"||",
        b"|",
        b"?",
        b":",
        b"??",
        b"=>",
        b"->",
    ]
)
_VARIABLE = re.compile(rb"(?:\A|\s)[\"']?\$[A-Za-z_]\w{2,}")
_ODD = re.compile(rb"[A-Za-z][\d!@$%^&*~|+]|\d[A-Za-z!@$%^&*~|+]|[!@$%^&*~|+][A-Za-z\d]")
"""What no word of a sentence has."""
_SAID_OF = re.compile(rb"\\*[\"'=]")
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
    return len(value) <= _WIDEST and (_CODE_END.fullmatch(value) is not None or _CODE.search(value) is not None)


_CODE = re.compile(
    rb"\)\{|\(\)[{};.,)]|\.[A-Za-z]{3,}\(|[=!]==|[\w\])][=!]=[\w(\[!]|\bthis\.|\)(?:&&|\|\|)\(?|&&\(|\A[\w$]{1,3}\}|\A[\w$]+(?:\.[\w$]+)+=\Z|\b[A-Za-z_$][\w$]*\([A-Za-z_$][\w$]*\.[A-Za-z_$]|\A\([a-z]+ [&|]"
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
