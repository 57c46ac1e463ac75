"""A small document from somebody else, YAML or TOML, read as data: whatever could be read in two ways is refused."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from kagura_kernel.domain.nesting import one_level_in

if TYPE_CHECKING:
    from yaml import Loader, Node, SafeLoader

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
        raise NotReadable(f"it is not YAML that can be used: {_without_values(error.problem or '')}{where}") from error


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
