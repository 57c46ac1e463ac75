"""Names of plugins and of what they can be told, as they lie on this machine; nothing is written down about them."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kagura_kernel.cockpit.lines.lookup import Name
from kagura_kernel.domain.grammar import Kind
from kagura_kernel.jupyter.completion.files import files

if TYPE_CHECKING:
    from kagura_kernel.plugins.discovery import Found
    from kagura_kernel.plugins.schema import Field, Schema

_KEPT = 64

_lock = threading.Lock()
_schemas: OrderedDict[str, Schema] = OrderedDict()
"""Of plugins that were looked at, by the hash of their files: a source is read by another process, which takes longer
than anybody waits for a list of names."""


def plugins(prefix: str, given: Sequence[str]) -> Iterator[Name]:
    """All plugins that can be used; only the person's own where one is removed."""
    del prefix
    own = tuple(given[:2]) == ("plugin", "remove")
    for found in _found().values():
        if not own or found.place == "user":
            yield Name(found.name, found.manifest.description)


def settings(prefix: str, given: Sequence[str]) -> Iterator[Name]:
    """What the plugin on the line can be told, each with a sign behind it; behind the sign, paths where it is one."""
    known = _found()
    found = next((known[word] for word in given[2:] if word in known), None) if given[:1] == ("plugin",) else None
    if found is None:
        return
    schema = _schema(found)
    field, sign, value = prefix.partition("=")
    if sign:
        yield from _values(found, schema, field, value)
        return
    told = {word.partition("=")[0] for word in given if "=" in word}
    for name, field_ in sorted(schema.items(), key=lambda item: not item[1].asked):
        if name not in told:
            yield Name(f"{name}=", _summary(field_))


def _values(found: Found, schema: Mapping[str, Field], name: str, value: str) -> Iterator[Name]:
    from kagura_kernel.plugins.entries import field_of

    permissions = found.manifest.permissions
    if name in schema and schema[name].type == "boolean":
        yield from (Name(f"{name}={word}") for word in ("yes", "no"))
    elif name in map(field_of, (*permissions.read, *permissions.write)):
        for file in files(Path.cwd(), value, Kind.FILE, outside=True):
            yield Name(f"{name}={file.text}", file.summary)


def _summary(field: Field) -> str:
    needed = "needed" if field.asked and field.default is None else ""
    return f"{field.type}{f', {needed}' if needed else ''}: {field.description}"


def _found() -> Mapping[str, Found]:
    from kagura_kernel.journal.place import data_home
    from kagura_kernel.plugins.discovery import discover, plugin_places

    return discover(plugin_places(data_home(os.environ), Path.cwd())).found


def _schema(found: Found) -> Schema:
    """What its source says that it can be told.

    Raises:
        PluginInvalid: it says nothing that can be understood.
    """
    from kagura_kernel.plugins.scan.scanning import scan_content
    from kagura_kernel.plugins.schema import read_schema

    key = found.content.content_hash
    with _lock:
        if key in _schemas:
            return _schemas[key]
    schema = read_schema(scan_content(found.content, found.manifest.permissions).schema, found.name)
    with _lock:
        _schemas[key] = schema
        if len(_schemas) > _KEPT:
            _schemas.popitem(last=False)
    return schema
