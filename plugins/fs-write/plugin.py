"""Writes files and makes directories below one directory, within a budget."""

from collections.abc import Callable, Mapping
from typing import Any

from kagura_plugin.arguments import Config
from kagura_plugin.writing import WriteJail

SCHEMA = {
    "base_dir": {
        "type": "string",
        "description": "The directory below which may be written",
        "promptKey": True,
        "maxLength": 4096,
    },
    "max_total_kib": {
        "type": "number",
        "description": "What all calls together may write, in KiB",
        "default": 20480,
        "minimum": 1,
        "maximum": 20480,
    },
    "max_chunk_kib": {
        "type": "number",
        "description": "What one call may write, in KiB",
        "default": 2048,
        "minimum": 1,
        "maximum": 2048,
    },
    "max_file_kib": {
        "type": "number",
        "description": "What one file may grow to, in KiB",
        "default": 10240,
        "minimum": 1,
        "maximum": 10240,
    },
    "max_entries": {
        "type": "number",
        "description": "How many files and directories may be made",
        "default": 1000,
        "minimum": 1,
        "maximum": 1000,
    },
}

KIB = 1024


def create_host_functions(config: Mapping[str, Any] | None = None) -> dict[str, dict[str, Callable[..., Any]]]:
    """The module `fs_write` for one configured directory."""
    given = Config(config)
    jail = WriteJail(
        given.text("base_dir"),
        total_bytes=given.whole("max_total_kib", 20480, least=1, most=20480) * KIB,
        chunk_bytes=given.whole("max_chunk_kib", 2048, least=1, most=2048) * KIB,
        file_bytes=given.whole("max_file_kib", 10240, least=1, most=10240) * KIB,
        entries=given.whole("max_entries", 1000, least=1, most=1000),
    )

    def write_text(path: str, text: str, overwrite: bool = True) -> dict[str, Any]:
        """Write a file as a whole, in UTF-8: {path, written, size, created}."""
        return jail.text(path, text, overwrite=overwrite)

    def write_bytes(path: str, content: str, overwrite: bool = True) -> dict[str, Any]:
        """Write a file as a whole from base64: {path, written, size, created}."""
        return jail.data(path, content, overwrite=overwrite)

    def append_text(path: str, text: str) -> dict[str, Any]:
        """Add text at the end of a file, made where there is none: {path, written, size, created}."""
        return jail.append(path, text)

    def make_dir(path: str, parents: bool = False) -> dict[str, Any]:
        """Make a directory, with parents=True those on the way too: {path, created}, 0 where it was there."""
        return jail.make_dir(path, parents=parents)

    return {
        "fs_write": {
            "write_text": write_text,
            "append_text": append_text,
            "make_dir": make_dir,
            "write_bytes": write_bytes,
        }
    }
