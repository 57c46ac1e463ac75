"""An audit that was recorded without the secrets of its plugin replays for the very same plugin."""

from __future__ import annotations

import pytest

from kagura_kernel.plugins.audit_prompt import audit_prompt, ids_in, replayed_ids
from kagura_kernel.runs.redacting import Redacting
from tests.support.auditor import report
from tests.support.redactors import shared_redactor
from tests.support.sample_plugin import SAMPLE_SOURCE, sample_plugin

TOKEN = "ghp_" + "wWPw5k4aXcaT4fNP0UcnZwJUVFk6LO0pINUx"


@pytest.mark.parametrize(
    "source", [SAMPLE_SOURCE, SAMPLE_SOURCE + f'\nAPI_TOKEN = "{TOKEN}"\npassword = "Kd83!jskQ"\n']
)
def test_what_was_planted_is_still_found_in_a_task_without_secrets(source):
    redact = Redacting(shared_redactor()).value
    found, scan = sample_plugin(source)
    # What is planted, and where, is chance.
    for _ in range(25):
        prompt = audit_prompt(found, scan.findings)
        assert prompt is not None
        recorded = redact(prompt.task)
        assert TOKEN not in recorded
        assert set(map(str, replayed_ids(found, recorded))) == ids_in(prompt.task) - ids_in(source)


def test_a_report_keeps_the_ids_that_prove_it_was_read():
    found, scan = sample_plugin()
    for _ in range(25):
        prompt = audit_prompt(found, scan.findings)
        assert prompt is not None
        said = report()(prompt.task)
        assert ids_in(said)
        assert ids_in(Redacting(shared_redactor()).value(said)) == ids_in(said)
