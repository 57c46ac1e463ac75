"""One plugin of the corpus, as a value that can be written to a directory."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kagura_kernel.domain.plugins import Severity

_END = """

SCHEMA = {}


def create_host_functions(config):
    return {"demo": {"run": run}}
"""


@dataclass(frozen=True)
class Sample:
    """One plugin."""

    name: str  # What it may be called: kebab-case
    severity: Severity | None  # What a scan has to say of it; None for nothing worse than a note
    trick: str  # What is tried, or what the plugin is for; one line
    source: bytes  # Its `plugin.py`
    files: Mapping[str, bytes] = field(default_factory=dict)  # What else lies in its directory, by relative path
    links: Mapping[str, str] = field(default_factory=dict)  # Symbolic links in its directory: target by relative path
    permissions: Mapping[str, Any] | None = None  # Of its manifest; None leaves them out

    @property
    def manifest(self) -> bytes:
        """Its `plugin.json`."""
        document: dict[str, Any] = {
            "name": self.name,
            "version": "1.0.0",
            "description": self.trick,
            "hostModules": ["demo"],
        }
        if self.permissions is not None:
            document["permissions"] = self.permissions
        return json.dumps(document, indent=2, ensure_ascii=False).encode()


def sample(
    name: str,
    severity: Severity | None,
    trick: str,
    code: str | bytes,
    *,
    files: Mapping[str, bytes] | None = None,
    links: Mapping[str, str] | None = None,
    permissions: Mapping[str, Any] | None = None,
) -> Sample:
    """A plugin whose source is `code`; where that has no `create_host_functions`, one that hands out `run`."""
    source = code if isinstance(code, bytes) else code.strip("\n").encode()
    if b"create_host_functions" not in source:
        source += _END.encode()
    return Sample(name, severity, trick, source, files or {}, links or {}, permissions)


def write_sample(one: Sample, folder: Path) -> Path:
    """Write it below a folder, as `<name>/`; gives the plugin's directory."""
    root = folder / one.name
    root.mkdir(parents=True)
    everything = {"plugin.json": one.manifest, "plugin.py": one.source, "README.md": b"# A sample\n", **one.files}
    for path, data in everything.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(data)
    for path, target in one.links.items():
        (root / path).symlink_to(target)
    return root
