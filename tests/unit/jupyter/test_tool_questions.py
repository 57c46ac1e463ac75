"""A question about a tool's call: what it says, what it offers, and what a typed word means."""

from __future__ import annotations

from kagura_kernel.domain.approvals import ApprovalKind
from kagura_kernel.render.html import html_of
from kagura_kernel.tools.toolsets.cutting import OPTIONS
from kagura_kernel.views.approvals import THIS_CALL, THIS_RUN, buttons_of, keys, verdict_words
from kagura_kernel.views.body import item_blocks, item_text
from kagura_kernel.views.run import RunView
from tests.support.sample_run import SampleRun

RUN = SampleRun()
ASKED = RUN.asked(
    kind=ApprovalKind.TOOL,
    title="Call send of the toolset mail",
    detail='mail: send\n{"to": "ada"}',
    reason="Its server lies outside of the box: what a call holds is sent there.",
    arguments={"toolset": "mail", "tool": "send", "arguments": {"to": "ada"}},
    call_id="",
    options=OPTIONS,
)


def test_the_card_names_the_kind_and_shows_the_exact_arguments_unfolded():
    view = RunView().apply_all([RUN.started(), ASKED])
    html = html_of(item_blocks(view.pending[0], view, live=True))
    assert '<span class="kg-kind">Tool</span>' in html
    assert "<details" not in html
    assert "&quot;to&quot;: &quot;ada&quot;" in html
    assert "Call send of the toolset mail" in item_text(view.pending[0])
    # The reason is ours, and nobody takes it for the agent's.
    assert '<div class="kg-says kg-soft">Its server lies outside of the box' in html


def test_the_smaller_yes_comes_first_and_is_what_a_plain_yes_means():
    html = html_of(buttons_of(ASKED))
    assert html.index("Allow for this call") < html.index("Allow for this run") < html.index("Deny")
    offered, words = keys(ASKED)
    assert offered == "[y] this call, [r] this run, [n] no"
    for word in ("y", "yes", THIS_CALL):
        assert words[word]["answer"] == THIS_CALL
    for word in ("r", THIS_RUN):
        assert words[word]["answer"] == THIS_RUN


def test_where_no_single_call_is_offered_a_yes_is_for_the_run():
    offered, words = keys(RUN.egress_asked("example.org"))
    assert offered.startswith("[y] this run, [s] this session")
    assert words["yes"]["answer"] == THIS_RUN


def test_the_answer_says_how_far_it_reaches():
    view = RunView().apply_all([RUN.started(), ASKED, RUN.decided(answer=THIS_RUN)])
    [ask] = [item for item in view.items if hasattr(item, "request")]
    assert verdict_words(ask) == "Allowed for this run by ada, in the cell"
