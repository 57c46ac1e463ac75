from __future__ import annotations

import pytest

from kagura_kernel.sandbox.images.building import failure_of


@pytest.mark.parametrize(
    "printed",
    [
        "E: Version '1.2-3' for 'curl' was not found",
        "LOCK-UNMET base.apt.lock: curl is older than 7.88",
        "ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE.",
        "ERROR: No matching distribution found for numpy==9",
        "npm ERR! code EINTEGRITY",
    ],
)
def test_a_lock_that_cannot_be_met_says_how_it_is_renewed_and_is_not_tried_again(printed):
    failure = failure_of(printed, "returned a non-zero code: 3", "base")
    assert failure.reason.startswith("the lock cannot be met: ")
    assert "dev/images.sh lock base" in failure.advice
    assert not failure.passing


@pytest.mark.parametrize(
    "printed",
    [
        "E: Failed to fetch http://m.test/x  Connection timed out",
        "Temporary failure resolving 'm.test'\nE: Unable to locate package curl",
        "npm ERR! code ECONNRESET",
        "ReadTimeoutError: Read timed out.",
    ],
)
def test_a_network_that_failed_is_worth_another_attempt(printed):
    assert failure_of(printed, "", "base").passing


def test_a_certificate_that_is_not_trusted_names_the_variables_that_help():
    failure = failure_of("SSL: CERTIFICATE_VERIFY_FAILED", "", "python")
    assert "PIP_CERT" in failure.advice
    assert not failure.passing


def test_anything_else_shows_its_last_lines_without_passwords():
    failure = failure_of("one\n\nhttps://me:hunter2@m.test/x\n", "it broke", "base")
    assert failure.reason == "one; https://***@m.test/x; it broke"
    assert not failure.passing


def test_the_text_of_a_step_is_not_taken_for_what_it_printed():
    error = (
        "The command '/bin/sh -c x || { echo \"LOCK-UNMET a.lock: $n is older\"; exit 3; }' returned a non-zero code: 3"
    )
    assert failure_of("bash is odd\n", error, "base").reason == "bash is odd; its exit code was 3"


def test_what_the_daemon_colours_is_read_without_the_colour():
    failure = failure_of("\x1b[91mLOCK-UNMET a.lock: bash is older than 9\n\x1b[0m", "", "base")
    assert failure.reason == "the lock cannot be met: bash is older than 9"
