"""What a request asks for, read from its words. Pure; what cannot be understood is told in a sentence."""

from __future__ import annotations

from typing import Any

from kagura_kernel.domain.approvals import Verdict
from kagura_kernel.domain.errors import UsageError

MOST_ROWS, MOST_EVENTS, MOST_DAYS = 500, 1000, 366
TEXT_CHARACTERS = 500
ANSWER_CHARACTERS = 10_000
DECISION_FIELDS = frozenset({"verdict", "answer"})
NO_FIELDS: frozenset[str] = frozenset()

_VERDICTS = {"allow": Verdict.ALLOW, "deny": Verdict.DENY, "abort": Verdict.ABORTED}


def number(name: str, text: str, default: int, most: int) -> int:
    """A number from 1 to `most`; the default where nothing is said.

    Raises:
        UsageError: it is none.
    """
    if not text:
        return default
    found = int(text) if text.isascii() and text.isdigit() and len(text) <= len(str(most)) else 0
    if not 1 <= found <= most:
        raise UsageError(f"`{name}` is a number from 1 to {most}.")
    return found


def one_of(name: str, text: str, choices: tuple[str, ...]) -> str | None:
    """One of these words; None where nothing is said.

    Raises:
        UsageError: it is another one.
    """
    if not text:
        return None
    if text not in choices:
        raise UsageError(f"`{name}` is one of {', '.join(choices)}.")
    return text


def short(name: str, text: str) -> str:
    """A text that may be looked for.

    Raises:
        UsageError: it is too long for that.
    """
    if len(text) > TEXT_CHARACTERS:
        raise UsageError(f"`{name}` has at most {TEXT_CHARACTERS} characters.")
    return text


def decision(fields: dict[str, Any]) -> tuple[Verdict, str]:
    """A verdict and its remark.

    Raises:
        UsageError: the verdict is none that a person can give, or the answer is no text, or too long.
    """
    said, answer = fields.get("verdict"), fields.get("answer", "")
    verdict = _VERDICTS.get(said) if isinstance(said, str) else None
    if verdict is None:
        raise UsageError(f"`verdict` is one of {', '.join(_VERDICTS)}.")
    if not isinstance(answer, str):
        raise UsageError("`answer` is a text.")
    if len(answer) > ANSWER_CHARACTERS:
        raise UsageError(f"`answer` has at most {ANSWER_CHARACTERS} characters.")
    return verdict, answer
