"""Hostile and harmless plugins, each another trick or shape, for whatever has to tell them apart.

They are `hostile.yaml` and `harmless.yaml`; `texts` makes those that cannot be written down as they are.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import yaml

from kagura_kernel.domain.plugins import Severity
from tests.support.plugin_corpus.sample import Sample, sample, write_sample
from tests.support.plugin_corpus.texts import BLOB, HARMLESS_TEXTS, TEXTS


def _read(name: str) -> Iterator[Sample]:
    for one in yaml.safe_load(Path(__file__).with_name(name).read_text("utf-8")):
        severity = Severity(one["severity"]) if "severity" in one else None
        files = {path: text.encode() for path, text in one.get("files", {}).items()}
        permissions = one.get("permissions", {} if severity is None else None)
        yield sample(one["name"], severity, one["trick"], one["source"], files=files, permissions=permissions)


HOSTILE: tuple[Sample, ...] = (*_read("hostile.yaml"), *TEXTS, BLOB)
"""Every hostile plugin; its `severity` is what a scan has to say."""

HARMLESS: tuple[Sample, ...] = (*_read("harmless.yaml"), *HARMLESS_TEXTS)
"""Every harmless plugin; none of them may be refused."""

__all__ = ["HARMLESS", "HOSTILE", "Sample", "sample", "write_sample"]
