"""What a request asks for, read from its words. Pure; what cannot be understood is told in a sentence."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kagura_kernel.domain.approvals import Verdict
from kagura_kernel.domain.errors import UsageError

if TYPE_CHECKING:
    from kagura_kernel.journal.plugin_words import Deed

MOST_ROWS, MOST_EVENTS, MOST_DAYS = 500, 1000, 366
TEXT_CHARACTERS = 500
ANSWER_CHARACTERS = 10_000
DECISION_FIELDS = frozenset({"verdict", "answer"})
PLUGIN_FIELDS = frozenset({"session_id", "content_hash", "configuration"})
NO_FIELDS: frozenset[str] = frozenset()
CONFIGURATION_CHARACTERS = 4_000

_HASH = re.compile(r"[0-9a-f]{64}", re.ASCII)
# The same that is masked wherever configuration is shown.
_SECRET = re.compile(
    r"(?:passw(?:or)?d|passphrase|secret|token|api_?key|access_?key|private_?key|credential)[^=\s]{0,40}=[^\s]"
    r"|://[^/?#@\s:]{0,200}:[^\s]{0,500}@",
    re.IGNORECASE,
)
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


@dataclass(frozen=True, slots=True)
class PluginOrder:
    """What a session is to do with a plugin."""

    deed: Deed
    session_id: str
    content_hash: str = ""  # Of the files that somebody was shown; empty where that does not matter
    words: tuple[str, ...] = ()  # Configuration, each `field=value`


def plugin_order(deed: Deed, fields: dict[str, Any]) -> PluginOrder:
    """What a session is to do with a plugin.

    Raises:
        UsageError: no session is named, or not the files that are meant where that is needed, or the configuration
            cannot be read or holds what looks like a password.
    """
    session_id, shown = fields.get("session_id", ""), fields.get("content_hash", "")
    if not isinstance(session_id, str) or not session_id:
        raise UsageError("`session_id` names the session that is to do it.")
    if not isinstance(shown, str):
        raise UsageError("`content_hash` is a text.")
    if deed in ("enable", "approve") and not shown:
        raise UsageError("`content_hash` names the files whose audit was shown.")
    told = fields.get("configuration", "")
    if deed != "enable" and told:
        raise UsageError("`configuration` belongs to `enable`.")
    return PluginOrder(deed, short("session_id", session_id), content_hash(shown), _words(told))


def content_hash(text: str) -> str:
    """A hash of a plugin's files; empty where nothing is said.

    Raises:
        UsageError: it is none.
    """
    if text and _HASH.fullmatch(text) is None:
        raise UsageError("`content_hash` is a SHA-256 in 64 hexadecimal digits.")
    return text


def _words(told: object) -> tuple[str, ...]:
    if not isinstance(told, str) or len(told) > CONFIGURATION_CHARACTERS:
        raise UsageError(f"`configuration` is a text of at most {CONFIGURATION_CHARACTERS} characters.")
    if _SECRET.search(told):
        raise UsageError(
            "The configuration seems to hold a password, and what is asked for here is kept in the journal until the "
            "kernel hears it. Enable the plugin in its notebook: `%kagura plugin enable`."
        )
    try:
        words = tuple(shlex.split(told))
    except ValueError as error:
        raise UsageError("The configuration ends inside of a quoted text.") from error
    if odd := next((word for word in words if "=" not in word), None):
        raise UsageError(f"{odd[:80]!r} is no setting: write `field=value`, and quote a value that has blanks in it.")
    return words
