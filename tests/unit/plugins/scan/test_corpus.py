"""The shipped plugins, whole directories as they would lie on a disk."""

import pytest

from kagura_kernel.domain.plugins import Severity
from kagura_kernel.plugins.scan import scan_path
from tests.support.effort import sample as sampled
from tests.support.plugin_corpus import HARMLESS, HOSTILE, write_sample

SOURCES = ("kagura_kernel/plugins/scan/", "tests/support/plugin_corpus/")

# What ends the scan's process, or is not read to its end, is refused for that.
UNFINISHED = {"deep-unary", "deep-nesting"}


@pytest.mark.parametrize("sample", sampled(HOSTILE, 66, *SOURCES), ids=lambda sample: sample.name)
def test_a_hostile_plugin_has_the_severity_that_it_deserves(sample, tmp_path):
    scan = scan_path(write_sample(sample, tmp_path))
    assert scan.severity is sample.severity
    assert sample.name in UNFINISHED or "scan-failed" not in {finding.rule for finding in scan.findings}


@pytest.mark.parametrize("sample", sampled(HARMLESS, 23, *SOURCES), ids=lambda sample: sample.name)
def test_a_harmless_plugin_is_not_refused(sample, tmp_path):
    scan = scan_path(write_sample(sample, tmp_path))
    assert [finding for finding in scan.findings if finding.severity is Severity.DANGER] == []


def test_there_are_enough_of_them_and_each_is_another():
    assert len(HOSTILE) >= 60
    assert len(HARMLESS) >= 30
    every = [*HOSTILE, *HARMLESS]
    assert len({sample.source + repr((sample.files, sample.links)).encode() for sample in every}) == len(every)
    assert len({sample.name for sample in HOSTILE}) == len(HOSTILE)
    assert len({sample.name for sample in HARMLESS}) == len(HARMLESS)
