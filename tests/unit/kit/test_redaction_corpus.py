from collections import Counter

import pytest

from kagura_kernel.domain.kit import MARKER
from tests.support.redaction_corpus import LOOK_ALIKES, SECRETS, LookAlike, Planted
from tests.support.redaction_corpus.chance import Chance
from tests.support.redaction_corpus.forms import read, shape
from tests.support.redaction_corpus.judging import gone, lost, unhurt
from tests.support.redaction_corpus.making import filled
from tests.support.redaction_corpus.sample import Template
from tests.support.redaction_corpus.values import VALUES
from tests.support.redactors import shared_redactor

HALVES = ("training", "hold-out")


@pytest.fixture(scope="module")
def redacted():
    """Every text of the corpus beside what redaction makes of it."""
    redactor = shared_redactor()
    return [(one, redactor.redact(one.text)) for one in (*SECRETS, *LOOK_ALIKES)]


def without(sample):
    text = sample.text
    for piece in sample.pieces:
        text = text.replace(piece, "")
    return text


# ------------------------------------------------------------ the corpus itself


def test_the_corpus_is_as_large_and_as_varied_as_its_figures_need():
    assert len(SECRETS) >= 400
    assert len({one.text for one in SECRETS}) == len(SECRETS)
    assert len({one.kind for one in SECRETS}) >= 40
    assert len({one.text for one in LOOK_ALIKES}) == len(LOOK_ALIKES) >= 200


def test_the_halves_share_no_template_and_the_hold_out_has_kinds_of_its_own():
    training, held_out = ([one for one in SECRETS if one.half == half] for half in HALVES)
    assert not {one.template for one in training} & {one.template for one in held_out}
    assert len({one.kind for one in held_out} - {one.kind for one in training}) >= 20
    assert not {one.text for one in LOOK_ALIKES if one.half == "training"} & {
        one.text for one in LOOK_ALIKES if one.half == "hold-out"
    }


def test_the_same_seed_makes_the_same_texts():
    template = Template("".join(f"⟦{maker}⟧\n" for maker in VALUES))
    assert filled(template, Chance(7), {}) == filled(template, Chance(7), {})
    assert filled(template, Chance(7), {}) != filled(template, Chance(8), {})


def test_every_text_is_of_its_form():
    for one in (*SECRETS, *LOOK_ALIKES):
        read(one.text, one.form)


def test_every_secret_counts_as_there_until_it_is_cut_out():
    for one in SECRETS:
        assert not gone(one, one.text), one.template
        assert gone(one, without(one)), one.template
        assert lost(one, one.text) == 0, one.template


def planted(text, *pieces):
    return Planted("x", "training/x/0", "training", text, pieces)


@pytest.mark.parametrize(
    ("sample", "left", "verdict"),
    [
        (planted("pw=abcdefghij end", "abcdefghij"), "pw=[REDACTED:x] end", True),
        (planted("pw=abcdefghij end", "abcdefghij"), "pw=[REDACTED:x]fghij end", False),
        (planted("pw=abcdefghij end", "abcdefghij"), "pw=abcdefghij end", False),
        (planted("pw=abcdefghij end", "abcdefghij"), "pw=ab[REDACTED:x]ij end", True),
        (planted("hello: hello!", "hello!"), "hello: [REDACTED:x]", True),
        (planted("hello: hello!", "hello!"), "hello: hello!", False),
        (planted("abcdef + ghijkl", "abcdef", "ghijkl"), "[REDACTED:x] + ghijkl", False),
    ],
)
def test_half_a_secret_is_not_gone_and_what_stands_around_it_may_stay(sample, left, verdict):
    assert gone(sample, left) is verdict


def test_what_goes_with_a_secret_is_counted():
    sample = planted("one two three four secretsecret", "secretsecret")
    assert lost(sample, "one two [REDACTED:x]") == 0.5
    assert lost(sample, "one two three four [REDACTED:x]") == 0


def test_a_look_alike_is_hurt_by_any_change():
    sample = LookAlike("x", "training", "commit abcdef\n")
    assert unhurt(sample, "commit abcdef\n")
    assert not unhurt(sample, "commit abcdef")


# ------------------------------------------------------- what redaction makes of it


@pytest.mark.parametrize(("half", "share"), [("training", 0.97), ("hold-out", 0.9)])
def test_of_the_secrets_at_least_nine_in_ten_are_gone(redacted, half, share):
    judged = [(one, gone(one, done.text)) for one, done in redacted if isinstance(one, Planted) and one.half == half]
    left = Counter(one.template for one, verdict in judged if not verdict)
    assert 1 - left.total() / len(judged) >= share, left.most_common()


@pytest.mark.parametrize(("half", "most"), [("training", 0.0), ("hold-out", 0.01)])
def test_of_the_look_alikes_at_most_one_in_a_hundred_is_hurt(redacted, half, most):
    judged = [
        (one, unhurt(one, done.text)) for one, done in redacted if isinstance(one, LookAlike) and one.half == half
    ]
    hurt = Counter(one.kind for one, verdict in judged if not verdict)
    assert hurt.total() / len(judged) <= most, hurt.most_common()


def test_what_comes_in_small_pieces_is_redacted_nearly_as_well(redacted):
    whole = {one.text for one, done in redacted if isinstance(one, Planted) and gone(one, done.text)}
    left = [one.template for one in SECRETS if one.text in whole and not gone(one, streamed(one.text))]
    assert len(left) <= 0.01 * len(SECRETS), left


def streamed(text):
    stream = shared_redactor().stream()
    return "".join(stream.feed(text[start : start + 7]) for start in range(0, len(text), 7)) + stream.finish()


def test_little_else_goes_with_the_secrets(redacted):
    shares = [lost(one, done.text) for one, done in redacted if isinstance(one, Planted)]
    assert sum(shares) / len(shares) <= 0.03


def test_what_parsed_still_parses(redacted):
    for one, done in redacted:
        read(done.text, one.form)


def test_a_file_keeps_the_shape_of_what_it_holds(redacted):
    redactor = shared_redactor()
    for one, done in redacted:
        if not one.form:
            continue
        file = redactor.redact_file(one.text.encode(), f"settings.{one.form}")
        assert file.data is not None
        left = file.data.decode()
        assert shape(read(left, one.form)) == shape(read(one.text, one.form)), getattr(one, "template", one.kind)
        assert not isinstance(one, Planted) or gone(one, left) is gone(one, done.text), one.template


def test_redacting_again_changes_nothing(redacted):
    redactor = shared_redactor()
    for one, done in redacted:
        assert redactor.redact(done.text).text == done.text, getattr(one, "template", one.kind)


def test_every_line_stays_a_line(redacted):
    for one, done in redacted:
        assert done.text.count("\n") == one.text.count("\n"), getattr(one, "template", one.kind)


def test_findings_lead_to_the_markers_and_never_carry_the_secret(redacted):
    for one, done in redacted:
        assert len(done.findings) == len(MARKER.findall(done.text))
        for finding in done.findings:
            found = MARKER.fullmatch(done.text[finding.start : finding.end])
            assert found is not None
            assert found["kind"] == finding.kind
            assert done.text.count("\n", 0, finding.start) + 1 == finding.line
        if isinstance(one, Planted):
            assert gone(one, without(one) + repr(done.findings)), one.template
