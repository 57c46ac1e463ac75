"""What foreign tools are called, take and answer, cut for a brain; and a person's word before one is called.

A brain's program checks arguments against a server's schema in the kernel's own process: so no patterns (they can take
for ever), no reference to anything outside, and no reference that leads in a circle or multiplies.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from kagura_kernel.domain.approvals import ApprovalKind
from kagura_kernel.domain.late_dataclass import KW_ONLY, dataclass
from kagura_kernel.plugins import frames
from kagura_kernel.runtime.router import Asker, require_allowed

_LONGEST_WORD = 200


def word(value: Any) -> str:
    """A short text in one line, readable."""
    return " ".join(readable(value, _LONGEST_WORD).split())


def readable(value: Any, most: int) -> str:
    """A text without what nobody would see, at most so long; empty for what is no text."""
    if not isinstance(value, str):
        return ""
    shown = "".join(sign if sign.isprintable() or sign in "\n\t" else "?" for sign in value[: most + 1])
    return shown if len(shown) <= most else f"{shown[: most - 1]}…"


_LONGEST_HEAD = 4096
_LENGTH = b"content-length:"
_DIGITS = 9


class Breach(Exception):
    """No good server would have sent this; the text says what it was, half a sentence."""


class Lines:
    """A message is a line of JSON.

    Args:
        most: Bytes of one.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._buffer = bytearray()
        self._seen = 0

    def feed(self, data: bytes) -> list[bytes]:
        """The lines that are whole now, without their ends; empty ones are passed over."""
        buffer = self._buffer
        buffer += data
        found: list[bytes] = []
        begin = 0
        while (end := buffer.find(b"\n", max(begin, self._seen))) >= 0:
            self._require(end - begin)
            if line := bytes(memoryview(buffer)[begin:end]).strip():
                found.append(line)
            begin = self._seen = end + 1
        del buffer[:begin]
        self._seen = len(buffer)
        self._require(len(buffer))
        return found

    def wrap(self, body: bytes) -> bytes:
        """The body as a line; JSON without blanks holds no line's end."""
        return body + b"\n"

    def _require(self, count: int) -> None:
        if count > self._most:
            raise Breach(f"it sent a message longer than {self._most:,} bytes")


class Headed:
    """A message has a head with its length, as in HTTP.

    Args:
        most: Bytes of one.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._buffer = bytearray()
        self._length: int | None = None

    def feed(self, data: bytes) -> list[bytes]:
        """The bodies that are whole now."""
        buffer = self._buffer
        buffer += data
        found: list[bytes] = []
        while True:
            if self._length is None and not self._head():
                return found
            length = self._length or 0
            if len(buffer) < length:
                return found
            found.append(bytes(memoryview(buffer)[:length]))
            del buffer[:length]
            self._length = None

    def wrap(self, body: bytes) -> bytes:
        """The body behind its head."""
        return b"Content-Length: %d\r\n\r\n" % len(body) + body

    def _head(self) -> bool:
        end = self._buffer.find(b"\r\n\r\n", 0, _LONGEST_HEAD)
        if end < 0:
            if len(self._buffer) >= _LONGEST_HEAD:
                raise Breach("it sent a message without a length")
            return False
        lengths = [
            line[len(_LENGTH) :].strip()
            for line in bytes(self._buffer[:end]).lower().split(b"\r\n")
            if line.startswith(_LENGTH)
        ]
        if len(lengths) != 1 or not lengths[0].isdigit() or len(lengths[0]) > _DIGITS:
            raise Breach("it sent a message without a length")
        length = int(lengths[0])
        if length > self._most:
            raise Breach(f"it sent a message longer than {self._most:,} bytes")
        del self._buffer[: end + 4]
        self._length = length
        return True


Cutter = Lines | Headed
"""Takes bytes as they come and gives whole messages.

`feed` raises `Breach` for one that is longer than it may be, or cannot be told from the next; `wrap` gives a message of
ours as it is sent.
"""


def decode(body: bytes, most: int) -> object:
    """What a message says.

    Raises:
        Breach: it is no JSON, too deep, too much of it.
    """
    try:
        return frames.decode(body, most)
    except frames.FrameError as error:
        raise Breach(f"it sent what is no message: {error}") from error


def encode(message: object, most: int) -> bytes:
    """A message of ours, without what wraps it.

    Raises:
        ValueError: it is no JSON, too deep or too long; the text is half a sentence.
    """
    return frames.encode(message, most)[frames.HEADER.size :]


LONGEST = 50
"""Characters; what a brain's program puts before a name has to fit into the 64 that models take as well."""

_OTHER = re.compile(r"[^A-Za-z0-9]+")
_MARK = 6


def tool_name(toolset: str, tool: str, taken: Collection[str]) -> str:
    """An identifier for a tool that is none of `taken`.

    What does not fit, or would be taken for another, ends with a mark made of the whole name, so that it is the same
    in every run in which the same tools are offered.
    """
    plain = f"{toolset.replace('-', '_')}_{_OTHER.sub('_', tool).strip('_') or 'tool'}"
    if len(plain) <= LONGEST and plain not in taken:
        return plain
    number = 0
    while True:
        mark = hashlib.sha256(f"{toolset}\0{tool}\0{number}".encode("utf-8", "replace")).hexdigest()[:_MARK]
        name = f"{plain[: LONGEST - _MARK - 1].rstrip('_')}_{mark}"
        if name not in taken:
            return name
        number += 1


MAX_NODES = 2000
MAX_DEPTH = 32
MAX_TEXT = 2048
"""Characters of one description or title in it."""

_TEXTS = frozenset({"description", "title"})
_LISTS = frozenset({"anyOf", "oneOf", "allOf", "prefixItems"})
# A model's service refuses a whole conversation for a tool whose arguments are called otherwise.
_ARGUMENT = re.compile(r"[A-Za-z0-9_.-]{1,64}", re.ASCII)
_TYPES = frozenset({"string", "number", "integer", "boolean", "object", "array", "null"})


class SchemaRefused(ValueError):
    """A schema that cannot be offered; the text says why, half a sentence."""


def clean_schema(schema: Any, *, most: int) -> dict[str, Any]:
    """The schema of an object, with what is safe of it; references to its own definitions are put in their place.

    It may have `most` bytes, before and after.

    Raises:
        SchemaRefused: it is no schema of an object, refers to something outside, or is too large.
    """
    if not isinstance(schema, Mapping) or schema.get("type", "object") != "object":
        raise SchemaRefused("its arguments are no object")
    _require_size(schema, most)
    found = _Cleaner(schema).cleaned()
    _require_size(found, most)
    return found


def _require_size(schema: Mapping[str, Any], most: int) -> None:
    if len(json.dumps(schema, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")) > most:
        raise SchemaRefused(f"its schema is longer than {most:,} bytes")


class _Cleaner:
    """One schema."""

    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root
        self._nodes = 0

    def cleaned(self) -> dict[str, Any]:
        found = self._schema(self._root, 0, ())
        properties = found.pop("properties", {})
        required = [name for name in found.pop("required", ()) if name in properties]
        if any(not _ARGUMENT.fullmatch(name) for name in properties):
            raise SchemaRefused("an argument of it has a name that cannot be offered")
        # Services that think take no alternatives at the top; its server still insists on them.
        found = {key: value for key, value in found.items() if key not in _LISTS}
        # A form of their own is what some programs take an object without `properties` for.
        return {**found, "type": "object", "properties": properties, "required": required}

    def _schema(self, schema: Any, depth: int, within: tuple[str, ...]) -> dict[str, Any]:
        self._nodes += 1
        if self._nodes > MAX_NODES:
            raise SchemaRefused("its schema is too large when its references are written out")
        if not isinstance(schema, Mapping):
            # `true` and `false` are schemas too; what is offered does not have to refuse what its server refuses.
            return {}
        reference = schema.get("$ref")
        if isinstance(reference, str):
            return self._referred(schema, reference, depth, within)
        if depth > MAX_DEPTH:
            return {}
        return {
            key: kept for key, value in schema.items() if (kept := self._kept(key, value, depth, within)) is not None
        }

    def _referred(
        self, schema: Mapping[str, Any], reference: str, depth: int, within: tuple[str, ...]
    ) -> dict[str, Any]:
        if not reference.startswith("#"):
            raise SchemaRefused("its schema refers to something outside of it")
        beside = {key: text for key, value in schema.items() if key in _TEXTS and (text := _text(value)) is not None}
        if reference in within:
            # A tree of its own kind: deeper levels may hold anything.
            return beside
        if len(within) > MAX_DEPTH:
            raise SchemaRefused("its schema refers from one place to the next without end")
        return {**self._schema(self._found(reference), depth, (*within, reference)), **beside}

    def _found(self, reference: str) -> Any:
        found: Any = self._root
        for step in reference[1:].split("/")[1:]:
            key = step.replace("~1", "/").replace("~0", "~")
            if not isinstance(found, Mapping) or key not in found:
                raise SchemaRefused("its schema refers to what it does not hold")
            found = found[key]
        return found

    def _kept(self, key: str, value: Any, depth: int, within: tuple[str, ...]) -> Any:
        """What of one keyword is kept; None for nothing."""
        if (plain := _PLAIN.get(key)) is not None:
            return plain(value)
        if key == "properties" and isinstance(value, Mapping):
            return {name: self._schema(one, depth + 1, within) for name, one in value.items()}
        if key == "items" and isinstance(value, Mapping):
            return self._schema(value, depth + 1, within)
        if key == "additionalProperties":
            return value if isinstance(value, bool) else self._schema(value, depth + 1, within)
        if key in _LISTS and isinstance(value, list) and value:
            return [self._schema(one, depth + 1, within) for one in value]
        return None


def _text(value: Any) -> str | None:
    return readable(value, MAX_TEXT) if isinstance(value, str) else None


def _names(value: Any) -> list[str] | None:
    return list(dict.fromkeys(one for one in value if isinstance(one, str))) if isinstance(value, list) else None


def _type(value: Any) -> Any:
    names = value if isinstance(value, list) else [value]
    if not names or not all(isinstance(name, str) and name in _TYPES for name in names):
        return None
    return list(dict.fromkeys(names)) if isinstance(value, list) else value


_PLAIN: dict[str, Callable[[Any], Any]] = {
    **dict.fromkeys(("description", "title"), _text),
    **dict.fromkeys(
        ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"),
        lambda value: value if isinstance(value, (int, float)) and not isinstance(value, bool) else None,
    ),
    **dict.fromkeys(
        ("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"),
        lambda value: value if type(value) is int and value >= 0 else None,
    ),
    **dict.fromkeys(("enum", "examples"), lambda value: value if isinstance(value, list) and value else None),
    **dict.fromkeys(("default", "const"), lambda value: value),
    "required": _names,
    "type": _type,
}


@dataclass(frozen=True, slots=True)
class ToolsetLimits:
    """The limits on one toolset; one that its server breaks costs the server, never the run."""

    start_seconds: float = 60.0  # From the start of its program until it has said what it offers
    call_seconds: float = 60.0  # For one call
    ping_seconds: float = 5.0  # How long a server that let a call run out may take to show that it still answers
    message_bytes: int = 4 * 2**20  # Of one message, in either direction
    rate: float = 1000.0  # Messages a second in the long run
    burst: int = 2000  # Messages that may come as fast as they like before `rate` holds
    untold_bytes: int = 16 * 2**20  # Of what it says without being asked, as fast as it likes
    untold_rate: float = 2.0**20  # Of that, bytes a second in the long run
    calls: int = 8  # Under way at once
    waiting: int = 64  # Calls that may wait for their turn; one more is answered at once, with words
    questions: int = 256  # Answers to what it asks of us that may wait until it reads them
    banner_lines: int = 20  # Lines before its first message that need be none: some programs greet
    tools: int = 128  # It may offer; the rest is withheld
    pages: int = 32  # Its list of tools may have
    description: int = 2048  # Characters of one tool's description
    schema_bytes: int = 32 * 1024  # Of one tool's schema
    offered_bytes: int = 256 * 1024  # Of all its descriptions and schemas together: a model reads them at each turn
    log_bytes: int = 16 * 1024  # Kept of what it writes to its standard error


THIS_CALL = "this call"
THIS_RUN = "this run"
OPTIONS = (THIS_CALL, THIS_RUN)
"""What a display offers. `allow` with the answer `this run` holds for that tool to the end of the run, any other
`allow` for the one call."""


def matches(tool: str, patterns: Collection[str]) -> bool:
    """Whether a tool, as its server calls it, is meant by one of these patterns."""
    return any(fnmatchcase(tool, pattern) for pattern in patterns)


@dataclass(eq=False, repr=False)
class ToolQuestions:
    """The questions about one toolset in one run."""

    toolset: str  # Its name
    patterns: Sequence[str]  # Of the tools that are asked about
    asker: Asker  # Puts them
    _: KW_ONLY
    remote: bool  # Whether its server lies outside of the box

    def __post_init__(self) -> None:
        why = (
            "Its server lies outside of the box: what a call holds is sent there."
            if self.remote
            else "The agent's toolset is set to ask before this tool is called."
        )
        self._reason = f"{why} Allowed for this run, it may be called with anything, and you are asked no more."
        self._allowed: set[str] = set()

    def asks(self, tool: str) -> bool:
        """Whether a person is asked about this tool at all."""
        return matches(tool, self.patterns)

    async def require(self, tool: str, arguments: Mapping[str, Any], call_id: str) -> None:
        """Go on only if the call may be made.

        Raises:
            ApprovalDenied: a person or the deadline said no.
            ApprovalRequired: nobody can be asked.
            ApprovalAborted: the person called the run off.
        """
        if tool in self._allowed or not self.asks(tool):
            return
        title = f"Call {tool} of the toolset {self.toolset}"
        written = json.dumps(dict(arguments), ensure_ascii=False, indent=2)
        decision = await self.asker.ask(
            ApprovalKind.TOOL,
            title,
            f"{self.toolset}: {tool}\n{written}",
            subject=f"{tool} of the toolset {self.toolset}",
            reason=self._reason,
            arguments={"toolset": self.toolset, "tool": tool, "arguments": dict(arguments)},
            call_id=call_id,
            options=OPTIONS,
        )
        require_allowed(decision, f"{tool} of the toolset {self.toolset}")
        if decision.answer == THIS_RUN:
            self._allowed.add(tool)
