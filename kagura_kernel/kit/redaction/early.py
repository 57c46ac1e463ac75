"""How much of an unfinished text may be seen at once: plain words, up to the first that could be part of a secret."""

from __future__ import annotations

import re

from kagura_kernel.kit.redaction.regions import says_something
from kagura_kernel.kit.redaction.rules.seeds import is_seed_word

_CJK = r"\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3"
_WORD = re.compile(
    r"(?P<open>\(|\[|\*\*|`|\"|'|)"
    r"(?:[A-Za-zÀ-ÖØ-öø-ɏ][a-zà-öø-ɏ]{0,23}(?:['’][a-z]{1,2})?|[A-Z]{1,12}s?|(?:[A-Z]++[a-z]*+){1,3}+|[a-z]{1,15}(?:[-_./][a-z]{1,15}){1,2}"
    r"|\d{1,5}(?:[.,/-]\d{1,5}){0,3}(?:%|[a-zA-Z]{1,3})?|)"
    r"(?P<close>[.,;:!?…]*(?:\)|\]|\*\*|`|\"|'|)[.,;:!?…]*)"
)
_SIGNS = re.compile(r"[-–—*#•·+…✓✗✔✘→←▸▹■□█▉▊▋▌▍▎▏░▒▓|=.]{1,60}")
_ASIAN = re.compile(rf"[{_CJK}。、，！？：；・ー（）]+")
_PIECES = re.compile(r"\S+|\s+")
_BOUNDARY = re.compile(r"\s|[。、，！？]")
_STOP = re.compile(
    r"(?i)echo|printf|seed|phrase|wallet|metamask|ledger|trezor|bip.?39|words|emergency|rescue|scratch|one-?time|2fa|mfa|codes?\b|account|"
    r"credential|kind\s*:|insert|copy|BEGIN|private|host|user|begin|コード|シード|助记词|ニーモニック|復元|リカバリ|恢复|备用"
)
_CLOSES = {"(": ")", "[": "]"}
_LONGEST_WORD = 40
_MOST_SEED_WORDS = 11
_BACK = 24
"""Characters before what is new that may belong to a word which stops."""


def plain_length(text: str, begin: int) -> int:
    """Up to where a text may be seen, whatever follows: to the end of a word, behind its space.

    Args:
        text: What came by now, a line or its beginning.
        begin: Up to where it has been seen already.

    Returns:
        A place from `begin` on; -1 when nothing more of this line may be seen before its end.
    """
    new = text[max(0, begin - _BACK) :]
    said = _STOP.search(new) is not None or says_something(new.encode("utf-8", "surrogatepass"))
    if said:
        return -1
    safe, at, seeds = begin, begin, 0
    for piece in _PIECES.findall(text[begin:]):
        at += len(piece)
        if piece.isspace():
            safe = at if not seeds else safe
            continue
        if at == len(text):
            break
        if not _plain(piece):
            return -1 if safe == begin else safe
        letters = piece.strip("\"'`*()[].,;:!?…")
        seeds = seeds + 1 if is_seed_word(letters) else seeds if not letters.isalpha() else 0
        if seeds > _MOST_SEED_WORDS:
            return -1
    return safe


def _plain(piece: str) -> bool:
    """Whether a word is one that neither is a secret nor part of one."""
    if len(piece) > _LONGEST_WORD and not _SIGNS.fullmatch(piece):
        return False
    if _SIGNS.fullmatch(piece) or _ASIAN.fullmatch(piece):
        return True
    found = _WORD.fullmatch(piece)
    if found is None:
        return False
    opened, closed = found["open"], found["close"].strip(".,;:!?…")
    return closed == _CLOSES.get(opened, opened)
