"""Hostile and harmless plugins, each another trick or shape, for whatever has to tell them apart."""

from __future__ import annotations

from tests.support.plugin_corpus.dynamic import DYNAMIC
from tests.support.plugin_corpus.escapes import ESCAPES
from tests.support.plugin_corpus.harmless import HARMLESS as _HARMLESS
from tests.support.plugin_corpus.harmless_classes import HARMLESS_CLASSES
from tests.support.plugin_corpus.joined import JOINED
from tests.support.plugin_corpus.processes import PROCESSES
from tests.support.plugin_corpus.reaching import REACHING
from tests.support.plugin_corpus.sample import Sample, sample, write_sample
from tests.support.plugin_corpus.texts import TEXTS

HOSTILE: tuple[Sample, ...] = (*PROCESSES, *DYNAMIC, *ESCAPES, *TEXTS, *REACHING, *JOINED)
"""Every hostile plugin; its `severity` is what a scan has to say."""

HARMLESS: tuple[Sample, ...] = (*_HARMLESS, *HARMLESS_CLASSES)
"""Every harmless plugin; none of them may be refused."""

__all__ = ["HARMLESS", "HOSTILE", "Sample", "sample", "write_sample"]
