"""Reads and lists files below one directory, and nothing else."""

from collections.abc import Callable, Mapping
from typing import Any

from kagura_plugin.arguments import Config
from kagura_plugin.reading import ReadJail

SCHEMA = {
    "base_dir": {
        "type": "string",
        "description": "The directory whose files may be read",
        "promptKey": True,
        "maxLength": 4096,
    },
    "max_file_kib": {
        "type": "number",
        "description": "The largest file that may be read, in KiB",
        "default": 10240,
        "minimum": 1,
        "maximum": 10240,
    },
    "max_chunk_kib": {
        "type": "number",
        "description": "What one call reads at most, in KiB",
        "default": 1024,
        "minimum": 1,
        "maximum": 1024,
    },
    "max_entries": {
        "type": "number",
        "description": "What one listing gives at most",
        "default": 1000,
        "minimum": 1,
        "maximum": 1000,
    },
}

KIB = 1024


def create_host_functions(config: Mapping[str, Any] | None = None) -> dict[str, dict[str, Callable[..., Any]]]:
    """The module `fs_read` for one configured directory."""
    given = Config(config)
    jail = ReadJail(
        given.text("base_dir"),
        file_bytes=given.whole("max_file_kib", 10240, least=1, most=10240) * KIB,
        chunk_bytes=given.whole("max_chunk_kib", 1024, least=1, most=1024) * KIB,
        entries=given.whole("max_entries", 1000, least=1, most=1000),
    )

    def read_text(path: str, offset: int = 0, limit: int | None = None) -> dict[str, Any]:
        """A piece of a UTF-8 file: {path, text, size, offset, next_offset}; next_offset is null at its end."""
        return jail.text(path, offset, limit)

    def read_bytes(path: str, offset: int = 0, limit: int | None = None) -> dict[str, Any]:
        """A piece of any file: {path, base64, size, offset, next_offset}; next_offset is null at its end."""
        return jail.data(path, offset, limit)

    def list_dir(path: str = ".", limit: int | None = None) -> dict[str, Any]:
        """What lies in a directory: {path, entries: [{name, kind, size}], left_out, complete}; "." is the base."""
        return jail.listing(path, limit)

    def stat(path: str) -> dict[str, Any]:
        """What a path leads to: {path, kind: "file" or "directory", size, modified}."""
        return jail.stat(path)

    return {"fs_read": {"read_text": read_text, "read_bytes": read_bytes, "list_dir": list_dir, "stat": stat}}
