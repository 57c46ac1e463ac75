"""Plugin directories for tests."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

GREETER = b'''"""Greets."""

SCHEMA = {"word": {"type": "string", "description": "What it says", "default": "Hello"}}


def create_host_functions(config):
    def greet(name):
        return f"{config['word']}, {name}"

    return {"greeter": {"greet": greet}}
'''


def manifest_of(plugin: str, /, **changes: Any) -> bytes:
    """A manifest; changes by their keys as they are written, None to leave one out."""
    document: dict[str, Any] = {
        "name": plugin,
        "version": "1.0.0",
        "description": "Greets whoever is named",
        "hostModules": [plugin.replace("-", "_")],
    } | changes
    return json.dumps({key: value for key, value in document.items() if value is not None}).encode()


def write_plugin(
    place: Path, name: str = "greeter", *, files: Mapping[str, bytes] | None = None, **manifest: Any
) -> Path:
    """A plugin's directory in a place: a manifest, a source, a README, and what `files` adds or replaces."""
    root = place / name
    standard = {"plugin.json": manifest_of(name, **manifest), "plugin.py": GREETER, "README.md": b"# Greets\n"}
    for path, data in (standard | dict(files or {})).items():
        target = root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
    return root
