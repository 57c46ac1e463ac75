"""A small document from somebody else, YAML or TOML, read as data: whatever could be read in two ways is refused."""

from __future__ import annotations

import re
import tomllib
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ValidationError

from kagura_kernel.domain.nesting import one_level_in

if TYPE_CHECKING:
    from yaml import Loader, Node, SafeLoader


_UNSEEN = frozenset({"Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp"})
_BLANKS = "\n\t"
# Emoji and several scripts are written with these two.
_JOINERS = "\u200c\u200d"


def hint(word: str, known: Iterable[str]) -> str:
    """`, did you mean 'this'?`, or an empty text."""
    near = get_close_matches(word.lower(), list(known), n=1, cutoff=0.6)
    return f", did you mean {near[0]!r}?" if near else ""


def one_line(text: str) -> str:
    """The first control character of a text, as `U+000A`; empty for one line."""
    return next((f"U+{ord(sign):04X}" for sign in text if unicodedata.category(sign) in {"Cc", "Zl", "Zp"}), "")


def unseen(text: str, *, lines: bool = False) -> str:
    """The first character that a reader would not see, as `U+202E`; empty when there is none.

    Args:
        text: Whatever a person or a brain will read.
        lines: Whether it may have several lines and tabs.
    """
    for sign in text:
        if unicodedata.category(sign) in _UNSEEN and sign not in _JOINERS and not (lines and sign in _BLANKS):
            return f"U+{ord(sign):04X}"
    return ""


_WORDS: Mapping[str, str] = {
    "missing": "it is missing",
    "string_type": "must be a text, in quotes",
    "int_type": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_type": "must be a number",
    "finite_number": "must be a number",
    "bool_type": "must be true or false",
    "dict_type": "must be a mapping",
    "model_type": "must be a mapping",
    "model_attributes_type": "must be a mapping",
    "tuple_type": "must be a list",
    "union_tag_not_found": "its `type` is missing: it must be mcp or lsp",
    "union_tag_invalid": "its `type` must be mcp or lsp",
    "invalid_key": "a key must be a text",
    "recursion_loop": "must not lie in itself",
}
_BOUNDS: Mapping[str, tuple[str, str, str]] = {
    "greater_than": ("gt", "must be more than {}", ""),
    "greater_than_equal": ("ge", "must be at least {}", ""),
    "less_than": ("lt", "must be less than {}", ""),
    "less_than_equal": ("le", "must be at most {}", ""),
    "too_long": ("max_length", "must have at most {}", "entry"),
    "too_short": ("min_length", "must have at least {}", "entry"),
}
# Below these keys a choice between models adds its own label to the place of an error.
_CHOICES = frozenset({"toolsets", "agents"})
MAX_PROBLEMS = 50


def problems_of(
    error: ValidationError, keys: Iterable[type[BaseModel]], within: Sequence[int | str] = ()
) -> tuple[str, ...]:
    """Every problem as one line, `toolsets[1].command: it is missing`; at most 50, then how many more.

    Args:
        error: What the check found.
        keys: The models whose keys may have been meant by an unknown one.
        within: Where what was checked stands in its document.
    """
    known = sorted({name for model in keys for name in model.model_fields})
    found = error.errors(include_input=False, include_url=False)
    lines = list(
        dict.fromkeys(
            _line((*within, *one["loc"]), one["type"], one.get("ctx", {}), one["msg"], known) for one in found
        )
    )
    more = len(lines) - MAX_PROBLEMS
    return (*lines[:MAX_PROBLEMS], *([f"and {more} more"] if more > 0 else []))


def place_of(location: Sequence[int | str]) -> str:
    """Where something stands, `toolsets[1].env.TZ`; empty for the whole."""
    parts: list[str] = []
    for part in _without_choices(location):
        parts.append(f"[{part}]" if isinstance(part, int) else f"{'.' if parts else ''}{shown_key(part)}")
    return "".join(parts)


def _line(location: Sequence[int | str], kind: str, facts: Mapping[str, Any], message: str, known: list[str]) -> str:
    place = place_of(location)
    if kind == "extra_forbidden":
        word = str(location[-1])
        return f"{place}: there is no such key{hint(word, known)}"
    if kind == "value_error":
        words = str(facts["error"])
    elif kind in _BOUNDS:
        bound, form, of = _BOUNDS[kind]
        words = form.format(_amount(facts[bound], of))
    else:
        words = _WORDS.get(kind) or message[:1].lower() + message[1:]
    return f"{place}: {words}" if place else words


def _amount(number: float, of: str) -> str:
    """`0` and not `0.0`; of things, how many: `1 entry`, `2 entries`."""
    told = f"{int(number):,}" if number == int(number) else f"{number:g}"
    return told if not of else f"{told} {of if number == 1 else f'{of[:-1]}ies'}"


def _without_choices(location: Sequence[int | str]) -> list[int | str]:
    kept: list[int | str] = []
    for at, part in enumerate(location):
        if at >= 2 and location[at - 2] in _CHOICES and part in {"mcp", "lsp", "inline", "reference"}:  # noqa: PLR2004
            continue
        if part == "[key]":
            continue
        kept.append(part)
    return kept


def shown_key(key: str) -> str:
    """A key as it stands in a message: it is the document's own word, so bounded, and nothing in it breaks the line."""
    plain = key if key.isascii() and key.isprintable() else ascii(key)[1:-1]
    return plain if len(plain) <= 64 else f"{plain[:63]}…"  # noqa: PLR2004 - a line of a message


MAX_BYTES = 256 * 1024
MAX_DEPTH = 16
MAX_NODES = 20_000
"""Values in one document, those that aliases repeat counted each time."""

# What the library remembers of a dotted key grows with the square of its length.
_LONG_KEY = re.compile(
    r"""(?:(?<![A-Za-z0-9_-])[A-Za-z0-9_-]++|"[^"\n]{0,200}"|'[^'\n]{0,200}')"""
    r"""(?:[ \t]*+\.[ \t]*+(?:[A-Za-z0-9_-]++|"[^"\n]{0,200}"|'[^'\n]{0,200}')){64}"""
)
_NO_SUCH_VALUE = "it holds a date or a number that does not exist, or a tag that does not fit its value"
_TOML = re.compile(r"(?:\ufeff)?(?:[ \t]*(?:#[^\n]*)?\n)*[ \t]*(?:\[|[A-Za-z0-9_.\"'-]+[ \t]*=)")


class NotReadable(Exception):
    """The bytes are no such document; the text is a whole clause and repeats no value."""


def read_document(data: bytes, source: str) -> tuple[dict[str, Any], list[str]]:
    """What a document says, and what is wrong with it although it can be read: keys that stand twice.

    Keys without a value count as not written.

    Args:
        data: The document; UTF-8, with or without a byte order mark.
        source: Its suffix tells the form (`.toml`, or `.yaml`, `.yml`, `.json`); else the text does.

    Raises:
        NotReadable: it is too large, no UTF-8, neither YAML nor TOML, no mapping, or lies too deep.
    """
    if len(data) > MAX_BYTES:
        raise NotReadable(f"it is larger than {MAX_BYTES >> 10} KiB")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise NotReadable(f"it is not UTF-8: byte {error.start + 1} is part of no character") from error
    suffix = PurePosixPath(source.partition("#")[0].partition("?")[0]).suffix.lower()
    toml = suffix == ".toml" or (suffix not in {".yaml", ".yml", ".json"} and _TOML.match(text) is not None)
    twice: list[str] = []
    try:
        found = _toml(text) if toml else _yaml(text, twice.append)
    except RecursionError as error:
        raise NotReadable("it lies too deep in itself") from error
    if not isinstance(found, dict):
        raise NotReadable("it is no mapping: write `name: my-agent` on its first line")
    _check_depth(found)
    return {key: value for key, value in found.items() if value is not None}, twice


def _toml(text: str) -> Any:
    if _LONG_KEY.search(text):
        raise NotReadable(f"it lies more than {MAX_DEPTH} levels deep in itself")
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        # What stands behind the place is not repeated: the message names no value of the document.
        raise NotReadable(f"it is not TOML: {_without_values(str(error))}") from error
    except ValueError as error:
        raise NotReadable(_NO_SUCH_VALUE) from error


def _yaml(text: str, tell: Callable[[str], None]) -> Any:
    import yaml

    # The loader written in Python, not the one in C, so that depth ends in an exception.
    try:
        loader = yaml.SafeLoader(text)
        try:
            root = loader.get_single_node()
            if root is None:
                raise NotReadable("it is empty")
            _Count(tell).size(root)
            return _loaded(loader, root)
        finally:
            loader.dispose()
    except yaml.reader.ReaderError as error:
        raise NotReadable("it holds a control character, which YAML does not allow") from error
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f" (line {mark.line + 1}, column {mark.column + 1})" if mark else ""
        why = "an anchor stands in it twice" if error.problem == "second occurrence" else error.problem or ""
        raise NotReadable(f"it is not YAML that can be used: {_without_values(why)}{where}") from error


def _loaded(loader: Loader | SafeLoader, root: Node) -> Any:
    try:
        return loader.construct_document(root)
    except (ValueError, LookupError, AttributeError, ArithmeticError, TypeError) as error:
        # What a tag says a text is and it is not, the library answers with whatever its own code stumbles over.
        raise NotReadable(_NO_SUCH_VALUE) from error


def _without_values(message: str) -> str:
    """A parser's message without what it quotes from the text; signs of the language itself stay."""
    return re.sub(r"'([^']*)'", lambda found: found[0] if len(found[1]) <= 1 or found[1][0] == "<" else "'…'", message)


class _Count:
    """How many values stand in a document, those that aliases repeat counted each time; tells of keys that stand twice.

    Args:
        tell: Is given a problem.
    """

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self._sizes: dict[int, int] = {}
        self._under_way: set[int] = set()

    def size(self, node: Node, depth: int = 0) -> int:
        """Values in a node.

        Raises:
            NotReadable: there are too many, they lie too deep, or in themselves.
        """
        if id(node) in self._under_way:
            raise NotReadable("an alias stands within what it repeats")
        if depth > MAX_DEPTH:
            raise NotReadable(f"it lies more than {MAX_DEPTH} levels deep in itself")
        if id(node) not in self._sizes:
            self._under_way.add(id(node))
            total = 1 + sum(self.size(inner, depth + 1) for inner in self._inner(node))
            self._under_way.discard(id(node))
            if total > MAX_NODES:
                raise NotReadable(f"it holds more than {MAX_NODES:,} values")
            self._sizes[id(node)] = total
        return self._sizes[id(node)]

    def _inner(self, node: Node) -> list[Node]:
        from yaml import MappingNode, ScalarNode, SequenceNode

        if isinstance(node, SequenceNode):
            return list(node.value)
        if not isinstance(node, MappingNode):
            return []
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, ScalarNode) and key.value in seen:
                mark = key.start_mark
                self._tell(f"line {mark.line + 1}, column {mark.column + 1}: this key stands twice in one mapping")
            seen.add(key.value if isinstance(key, ScalarNode) else "")
        return [inner for pair in node.value for inner in pair]


def _check_depth(found: Any) -> None:
    level: list[object] = [found]
    for _ in range(MAX_DEPTH + 1):
        level = one_level_in(level)
        if not level:
            return
        if len(level) > MAX_NODES:
            raise NotReadable(f"it holds more than {MAX_NODES:,} values")
    raise NotReadable(f"it lies more than {MAX_DEPTH} levels deep in itself")
