"""`--mcp-config FILE`: the usual JSON with `mcpServers`, read into toolsets for one run."""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kagura_kernel.domain.errors import McpConfigInvalid
from kagura_kernel.kit.definitions.document import problems_of, shown_key
from kagura_kernel.kit.definitions.toolsets import McpToolset, given_texts

if TYPE_CHECKING:
    from kagura_kernel.kit.definitions.toolsets import Toolset

MAX_BYTES = 256 * 1024
MAX_SERVERS = 32

_SERVERS = "mcpServers"
_TYPES = ("stdio", "http", "streamable-http")
_OTHER = re.compile(r"[^a-z0-9]+")
# What other programs put into the same file, and means nothing for what a run is given.
_PASSED_OVER = frozenset({"type", "disabled", "description", "autoApprove", "alwaysAllow"})
_REFERS = re.compile(r"\$\{[^}]*\}|\$env:")

HoldsSecret = Callable[[str], bool]


def read_mcp_config(path: Path, *, holds_secret: HoldsSecret | None = None) -> tuple[McpToolset, ...]:
    """The toolsets of such a file, in its order; servers that are switched off there are left out.

    Args:
        path: The file; a link is followed, for a person typed it.
        holds_secret: Whether a text holds one; such a file is refused, for what is in it is shown and enters the box.

    Raises:
        McpConfigInvalid: it cannot be read or used; all problems at once, each without a value.
    """
    try:
        data = _read(path)
    except OSError as error:
        raise McpConfigInvalid(str(path), [f"it cannot be read: {(error.strerror or str(error)).lower()}"]) from error
    return parse_mcp_config(data, str(path), holds_secret=holds_secret)


def parse_mcp_config(data: bytes, source: str, *, holds_secret: HoldsSecret | None = None) -> tuple[McpToolset, ...]:
    """The toolsets in such a text, in its order; `source` names it in errors.

    Raises:
        McpConfigInvalid: it cannot be used; all problems at once, each without a value.
    """
    problems: list[str] = []
    servers = _servers(data, source, problems)
    found: dict[str, McpToolset] = {}
    for number, (word, said) in enumerate(servers.items()):
        if number >= MAX_SERVERS:
            problems.append(f"{_SERVERS}: must have at most {MAX_SERVERS} entries")
            break
        place = f"{_SERVERS}.{shown_key(word)}"
        toolset = _toolset(word, said, place, problems, holds_secret)
        if toolset is None:
            continue
        if toolset.name in found:
            problems.append(f"{place}: it would be called {toolset.name}, and so is another one")
        found[toolset.name] = toolset
    if problems:
        raise McpConfigInvalid(source, problems)
    return tuple(found.values())


def with_mcp_config(own: Sequence[Toolset], added: Sequence[McpToolset], *, strict: bool) -> tuple[Toolset, ...]:
    """The toolsets of one run: a definition's own, and those of a file.

    A file's server takes the place of the definition's of the same name, and stands where that stood.

    Args:
        own: The definition's.
        added: The file's.
        strict: Whether the file's MCP servers are the only ones; language servers stay.
    """
    new = {one.name: one for one in added}
    kept = [new.pop(one.name, one) for one in own if one.name in new or one.type == "lsp" or not strict]
    return (*kept, *new.values())


def _read(path: Path) -> bytes:
    # Not blocking: what was named may be a pipe that nobody writes to.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError("it is no regular file")
        return file.read(MAX_BYTES + 1)


def _servers(data: bytes, source: str, problems: list[str]) -> Mapping[str, Any]:
    """What stands below `mcpServers`.

    Raises:
        McpConfigInvalid: nothing in it can be looked at.
    """

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            problems.append("a key stands twice in one object")
        return found

    if len(data) > MAX_BYTES:
        raise McpConfigInvalid(source, [f"it is larger than {MAX_BYTES >> 10} KiB"])
    try:
        said = json.loads(data.decode("utf-8-sig"), object_pairs_hook=once)
    except UnicodeDecodeError as error:
        raise McpConfigInvalid(source, ["it is not UTF-8"]) from error
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise McpConfigInvalid(source, [f"it is not JSON: {error.msg} ({where})"]) from error
    except (RecursionError, ValueError) as error:
        raise McpConfigInvalid(source, ["it is not JSON that can be used"]) from error
    servers = said.get(_SERVERS) if isinstance(said, dict) else None
    if not isinstance(servers, dict):
        raise McpConfigInvalid(
            source, [*problems, f'it has no object `{_SERVERS}`: {{"{_SERVERS}": {{"NAME": {{"command": …}}}}}}']
        )
    return servers


def _toolset(
    word: str, said: Any, place: str, problems: list[str], holds_secret: HoldsSecret | None
) -> McpToolset | None:
    """One server; None where it is switched off, or has problems, which are added."""
    from pydantic import ValidationError

    if not isinstance(said, dict):
        problems.append(f"{place}: must be an object")
        return None
    if said.get("disabled") is True:
        return None
    kind = said.get("type", "stdio" if "command" in said else "http")
    wrong = [] if kind in _TYPES else [f"{place}: its `type` must be one of {', '.join(_TYPES)}"]
    if kind in _TYPES and (kind == "stdio") != ("command" in said):
        wrong.append(f"{place}: a server of type stdio must have a `command`, and any other a `url`")
    values = {key: value for key, value in said.items() if key not in _PASSED_OVER}
    for place_in_it, name, text in given_texts(values):
        if _REFERS.search(text):
            wrong.append(
                f"{place}.{place_in_it}: variables of this machine are not put in; write the value, or leave it out"
            )
        if holds_secret is not None and holds_secret(f"{name}={text}"):
            wrong.append(
                f"{place}.{place_in_it}: it holds a secret, and what stands here is shown and enters the box; grant a "
                "credential to the run instead (`--grant`)"
            )
    try:
        toolset = McpToolset.model_validate({**values, "type": "mcp", "name": _name(word)})
    except ValidationError as error:
        wrong += problems_of(error, [McpToolset], (_SERVERS, word))
        toolset = None
    problems += wrong
    return None if wrong else toolset


def _name(word: str) -> str:
    """A server's name as toolsets are called: `My_Server` is `my-server`."""
    return _OTHER.sub("-", word.lower()).strip("-")
