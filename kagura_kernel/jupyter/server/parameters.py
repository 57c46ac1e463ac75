"""What a request may say: each word of a query and each field of a body, how it is read, and how OpenAPI has it.

A function that answers a route names them as its keyword arguments, `limit: Annotated[int, Number(50, 500)]`. Pure;
what cannot be understood is told in a sentence.
"""

from __future__ import annotations

import inspect
import re
import shlex
from collections.abc import Callable, Mapping
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from kagura_kernel.domain.approvals import Verdict
from kagura_kernel.domain.errors import UsageError
from kagura_kernel.domain.late_dataclass import dataclass

TEXT_CHARACTERS = 500

_HASH = re.compile(r"[0-9a-f]{64}", re.ASCII)
# The same that is masked wherever configuration is shown.
_SECRET = re.compile(
    r"(?:passw(?:or)?d|passphrase|secret|token|api_?key|access_?key|private_?key|credential)[^=\s]{0,40}=[^\s]"
    r"|://[^/?#@\s:]{0,200}:[^\s]{0,500}@",
    re.IGNORECASE,
)
_VERDICTS = {"allow": Verdict.ALLOW, "deny": Verdict.DENY, "abort": Verdict.ABORTED}


@dataclass(frozen=True, kw_only=True)
class Word:
    """One word of a query, or one field of a body."""

    says: str = ""  # What OpenAPI says of it

    def read(self, name: str, given: Any) -> Any:
        """Its value from what was given: a text of a query, anything of a body; empty where it is missing.

        Raises:
            UsageError: it is no such value.
        """
        raise NotImplementedError

    def schema(self) -> dict[str, Any]:
        """What may be given, as JSON schema."""
        raise NotImplementedError


@dataclass(frozen=True)
class Number(Word):
    """A number from 1 on."""

    default: int
    most: int

    def read(self, name: str, given: Any) -> int:
        """The number; the default where nothing is said."""
        text = str(given or "")
        if not text:
            return self.default
        found = int(text) if text.isascii() and text.isdigit() and len(text) <= len(str(self.most)) else 0
        if not 1 <= found <= self.most:
            raise UsageError(f"`{name}` is a number from 1 to {self.most}.")
        return found

    def schema(self) -> dict[str, Any]:
        """An integer with its bounds."""
        return {"type": "integer", "minimum": 1, "maximum": self.most, "default": self.default}


@dataclass(frozen=True)
class Choice(Word):
    """One of a few words; None where nothing is said."""

    words: tuple[str, ...]

    def read(self, name: str, given: Any) -> str | None:
        """The word as it was given."""
        if not given:
            return None
        if given not in self.words:
            raise UsageError(f"`{name}` is one of {', '.join(self.words)}.")
        return str(given)

    def schema(self) -> dict[str, Any]:
        """An enumeration."""
        return {"enum": list(self.words)}


@dataclass(frozen=True)
class Truth(Choice):
    """Whether something is wanted; no, where nothing is said."""

    words: tuple[str, ...] = ("true", "false")

    def read(self, name: str, given: Any) -> Any:
        """Whether it is."""
        return super().read(name, given) == "true"

    def schema(self) -> dict[str, Any]:
        """A word of a query is a text."""
        return super().schema() | {"default": "false"}


@dataclass(frozen=True)
class Said(Word):
    """A verdict that a person can give."""

    def read(self, name: str, given: Any) -> Verdict:
        """The verdict."""
        found = _VERDICTS.get(given) if isinstance(given, str) else None
        if found is None:
            raise UsageError(f"`{name}` is one of {', '.join(_VERDICTS)}.")
        return found

    def schema(self) -> dict[str, Any]:
        """An enumeration."""
        return {"enum": list(_VERDICTS)}


@dataclass(frozen=True)
class Text(Word):
    """A text that has an end."""

    most: int = TEXT_CHARACTERS
    pattern: str = ""  # What OpenAPI says of its form; what reads it judges by itself

    def read(self, name: str, given: Any) -> str:
        """The text; empty where nothing is said."""
        if not isinstance(given, str):
            raise UsageError(f"`{name}` is a text.")
        if len(given) > self.most:
            raise UsageError(f"`{name}` has at most {self.most} characters.")
        return given

    def schema(self) -> dict[str, Any]:
        """A string with its form, or its length."""
        return {"type": "string"} | ({"pattern": self.pattern} if self.pattern else {"maxLength": self.most})


@dataclass(frozen=True)
class Cursor(Text):
    """The `next` of the page before."""

    says: str = "The cursor of the page before."

    def schema(self) -> dict[str, Any]:
        """A string that nobody makes."""
        return {"type": "string"}


@dataclass(frozen=True)
class SessionName(Text):
    """The session that is to do it."""

    def read(self, name: str, given: Any) -> str:
        """The session's id."""
        if not isinstance(given, str) or not given:
            raise UsageError(f"`{name}` names the session that is to do it.")
        return super().read(name, given)


@dataclass(frozen=True)
class ContentHash(Text):
    """A hash of a plugin's files; empty where nothing is said."""

    pattern: str = "^[0-9a-f]{64}$"
    needed: bool = False

    def read(self, name: str, given: Any) -> str:
        """The hash."""
        if not given and self.needed:
            raise UsageError(f"`{name}` names the files whose audit was shown.")
        if not isinstance(given, str):
            raise UsageError(f"`{name}` is a text.")
        if given and _HASH.fullmatch(given) is None:
            raise UsageError(f"`{name}` is a SHA-256 in 64 hexadecimal digits.")
        return given


@dataclass(frozen=True)
class Configuration(Text):
    """Settings of a plugin, each `field=value`."""

    most: int = 4_000

    def read(self, name: str, given: Any) -> Any:
        """Its words; what looks like a password is refused, since the journal keeps it until the kernel hears it."""
        if not isinstance(given, str) or len(given) > self.most:
            raise UsageError(f"`{name}` is a text of at most {self.most} characters.")
        if _SECRET.search(given):
            raise UsageError(
                "The configuration seems to hold a password, and what is asked for here is kept in the journal until "
                "the kernel hears it. Enable the plugin in its notebook: `%kagura plugin enable`."
            )
        try:
            words = tuple(shlex.split(given))
        except ValueError as error:
            raise UsageError("The configuration ends inside of a quoted text.") from error
        if odd := next((word for word in words if "=" not in word), None):
            raise UsageError(
                f"{odd[:80]!r} is no setting: write `field=value`, and quote a value that has blanks in it."
            )
        return words


@dataclass(frozen=True)
class Object(Word):
    """An object of a body, whose fields the function judges."""

    def read(self, name: str, given: Any) -> dict[str, Any]:
        """The object."""
        if not isinstance(given, dict):
            raise UsageError(f"`{name}` is an object.")
        return given

    def schema(self) -> dict[str, Any]:
        """An object of whatever fields."""
        return {"type": "object"}


@dataclass(frozen=True)
class Words:
    """What one function may be asked with, and what it answers."""

    known: Mapping[str, Word]  # By its keyword argument
    needed: frozenset[str]  # Those without a default
    taken: frozenset[str]  # All of its arguments
    answer: Any  # The type of its answer

    @classmethod
    def of(cls, function: Callable[..., Any]) -> Words:
        """What a function says of itself."""
        hints = get_type_hints(function, include_extras=True)
        arguments = inspect.signature(function).parameters
        known = {
            name: word
            for name, hint in hints.items()
            if get_origin(hint) is Annotated
            for word in get_args(hint)[1:]
            if isinstance(word, Word)
        }
        needed = frozenset(name for name in known if arguments[name].default is inspect.Parameter.empty)
        return cls(known, needed, frozenset(arguments), hints["return"])

    def read(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """The values of what was given; what was not has its default.

        Raises:
            UsageError: something cannot be understood.
        """
        wanted = {name: word for name, word in self.known.items() if name in given or name in self.needed}
        return {name: word.read(name, given.get(name, "")) for name, word in wanted.items()}
