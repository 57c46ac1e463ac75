"""A small plugin as it would be found and scanned, without a directory."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from kagura_kernel.domain.plugins import PluginFinding, Severity
from kagura_kernel.plugins.content import PluginContent
from kagura_kernel.plugins.manifest import Found, parse_manifest
from kagura_kernel.plugins.scan.scanner import ScanResult

SAMPLE_SOURCE = '''\
"""Greets."""

import os

SCHEMA = {
    "name": {"type": "string", "description": "Whom"},
}


def create_host_functions(config):
    def greet(word):
        text = """
        not a comment
        """
        return f"{word} {config['name']}{text.strip()[:0]}"

    return {"greeting": {"greet": greet}}
'''
READS_ENVIRONMENT = PluginFinding(Severity.WARNING, "environment", "Reads the environment", "plugin.py", 3, "import os")
"""What a scan finds in it."""


def sample_plugin(
    source: str = SAMPLE_SOURCE, files: Mapping[str, bytes] | None = None, **manifest: Any
) -> tuple[Found, ScanResult]:
    """The plugin `greeter` and its scan."""
    whole: dict[str, Any] = {
        "name": "greeter",
        "version": "1.2.0",
        "description": "Greets somebody",
        "hostModules": ["greeting"],
    }
    whole |= manifest
    data = {"plugin.json": json.dumps(whole, indent=2).encode(), "plugin.py": source.encode(), **(files or {})}
    content = PluginContent(Path(whole["name"]), whole["name"], MappingProxyType(dict(sorted(data.items()))))
    found = Found(whole["name"], "project", content, parse_manifest(data["plugin.json"], whole["name"]))
    return found, ScanResult((READS_ENVIRONMENT,) if source == SAMPLE_SOURCE else ())
