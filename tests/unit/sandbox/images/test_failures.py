import pytest

from kagura_kernel.sandbox.images.build import failure_of


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


STEP = "The command '/bin/sh -c x || { echo \"LOCK-UNMET a.lock: $n is older\"; exit 3; }' returned a non-zero code: 3"


@pytest.mark.parametrize(
    ("printed", "error", "reason"),
    [
        # Without passwords.
        ("one\n\nhttps://me:hunter2@m.test/x\n", "it broke", "one; https://***@m.test/x; it broke"),
        # The text of a step is not taken for what it printed.
        ("bash is odd\n", STEP, "bash is odd; its exit code was 3"),
        (
            "\x1b[91mLOCK-UNMET a.lock: bash is older than 9\n\x1b[0m",
            "",
            "the lock cannot be met: bash is older than 9",
        ),
    ],
)
def test_what_was_printed_last_is_read_as_a_person_would(printed, error, reason):
    failure = failure_of(printed, error, "base")
    assert (failure.reason, failure.passing) == (reason, False)
