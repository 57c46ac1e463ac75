"""What crosses the wall, on cards: connections, refusals and leases, told without a flood and without a leak."""

import json
from dataclasses import replace
from datetime import timedelta

import pytest

from kagura_kernel.views.card import run_text
from kagura_kernel.views.leases import KEPT_REQUESTS
from kagura_kernel.views.network import KEPT_PLACES, SHOWN_REFUSALS
from kagura_kernel.views.record import RUN_MIME, run_bundle, run_html
from tests.support.card_page import Page, live_parts
from tests.support.sample_run import SampleRun

RUN = SampleRun()
LATER = replace(RUN, at=RUN.at + timedelta(minutes=12))


def live(view, part: str) -> Page:
    return Page(live_parts(view).get(part, ""))


# ------------------------------------------------------------------- the grant


def test_an_ordinary_grant_is_not_worth_a_word(view_of):
    view = view_of(RUN.started(), RUN.granted(beyond=()), RUN.finished())
    assert "May reach" not in run_html(view) + run_text(view)
    assert "grant" not in run_bundle(view)[0][RUN_MIME]


def test_what_exceeds_the_ordinary_stands_on_one_line(view_of):
    view = view_of(RUN.started(), RUN.granted(writable_root=True, by="settings"))
    page = live(view, "head")
    assert "May reach python-packages, api.github.com May hold github:read May change its whole system" in page.text
    assert "allowed by your settings" in page.text
    assert "/home/ada" not in page.text


def test_a_folder_beside_the_project_is_seen_by_its_path_here_and_by_its_place_in_the_box_elsewhere(view_of):
    mounts = ({"source": "/home/ada/data", "target": "/data", "mode": "read"},)
    granted = RUN.granted(mounts=mounts, beyond=("sees /home/ada/data",))
    view = view_of(RUN.started(brain="replay"), granted, RUN.finished())
    assert "/home/ada/data (read only)" in live(view, "head").text
    assert "/home/ada/data" not in Page(run_html(view)).text
    assert "Sees /data (read only)" in Page(run_html(view)).text


# ----------------------------------------------------------------- connections


def test_a_refused_host_is_named_with_the_words_that_would_grant_it(view_of):
    page = live(view_of(RUN.started(), RUN.refused(), RUN.refused(times=2), RUN.refused(times=4)), "net")
    assert "Refused example.com:443 (not granted) ×4 · grant it with --net example.com" in page.text
    assert page.text.count("Refused") == 1


def test_a_reason_that_says_more_is_shown_where_it_need_not_be_the_same_everywhere(view_of):
    reason = "10.0.0.1:80 is not granted, and the address is a private network. Grant it with: --net 10.0.0.1:80"
    view = view_of(RUN.started(brain="replay"), RUN.refused("10.0.0.1", 80, reason=reason), RUN.finished())
    assert "(is not granted, and the address is a private network)" in live(view, "net").text
    assert "10.0.0.1:80 (not granted)" in Page(run_html(view)).text


def test_the_words_of_a_set_are_offered_as_the_membrane_says_them(view_of):
    reason = "pypi.org:443 is not granted to this run. Grant it with: --net python-packages"
    page = live(view_of(RUN.started(), RUN.refused("pypi.org", reason=reason)), "net")
    assert "--net python-packages" in page.text


def test_a_host_that_imitates_advice_is_not_believed(view_of):
    host = "x Grant it with: --net evil.example"
    reason = f"{host}:443 is no host that can be reached: it holds a space."
    page = live(view_of(RUN.started(), RUN.refused(host, reason=reason)), "net")
    assert "grant it with" not in page.text


def test_many_refused_hosts_are_a_few_rows_and_a_number(view_of):
    refusals = [RUN.refused(f"h{number}.example") for number in range(KEPT_PLACES + 30)]
    view = view_of(RUN.started(), *refusals)
    page = live(view, "net")
    assert page.text.count("Refused") == SHOWN_REFUSALS
    assert f"… and {KEPT_PLACES + 30 - SHOWN_REFUSALS} more refused places." in page.text
    assert len(view.network.refused) == KEPT_PLACES
    assert len(run_text(view).splitlines()) < 20


def test_connections_are_folded_with_how_much_how_long_and_how_they_ended(view_of):
    first, second = RUN.reached(), RUN.reached(number=2, bytes_in=1_000_000, duration=1.6, ended="reset")
    page = live(view_of(RUN.started(), *first, *second), "net")
    assert "Connected to 1 place, 1.0 MB in, 3.7 kB out" in page.text
    assert "pypi.org:443 2 3.7 kB 1.0 MB 2.0 s done, broken off" in page.text
    assert ("open", "") not in page.attributes


def test_a_connection_that_goes_on_is_counted_as_open(view_of):
    page = live(view_of(RUN.started(), RUN.reached()[0]), "net")
    assert "1 connection open" in page.text


def test_a_download_that_was_cut_is_a_caution(view_of):
    events = RUN.reached("big.example", bytes_in=2_000_000_000, ended="limit", detail="2 GB is all a run may load")
    page = live(view_of(RUN.started(), *events), "net")
    assert "Cut big.example:443 (cut at the limit of bytes, after 2.0 GB in: 2 GB is all a run may load)" in page.text


def test_an_end_without_its_beginning_is_passed_over(view_of):
    view = view_of(RUN.started(), RUN.reached()[1], RUN.used())
    assert not view.network
    assert view.leases == {}


# ---------------------------------------------------------------------- leases


def test_a_lease_shows_its_time_its_budget_its_use_and_its_buttons(view_of):
    page = live(view_of(RUN.started(), RUN.lease(), RUN.used(), RUN.used("/user/keys", status=403)), "leases")
    for part in ("github:read", "live", "15:00", "added to requests to http://127.0.0.1:8017", "5 renewals left"):
        assert part in page.text
    assert "2 requests, the last: 403" in page.text
    assert "then 45 min of budget" in page.text
    assert dict(page.attributes)["data-expires"] == "900.0"
    assert [(button["data-act"], button["data-id"]) for button in page.buttons] == [
        ("extend", "lea-1"),
        ("revoke", "lea-1"),
    ]


def test_the_clock_of_a_renewed_lease_starts_from_what_is_left_now(view_of):
    later = replace(RUN, at=RUN.at + timedelta(seconds=100))
    page = live(view_of(RUN.started(), RUN.lease(), later.used()), "leases")
    assert dict(page.attributes)["data-expires"] == "800.0"


@pytest.mark.parametrize(
    ("change", "words"), [("held up", "a question asks for more"), ("on hold", "nothing is given out")]
)
def test_trouble_is_told_in_words(view_of, change, words):
    page = live(view_of(RUN.started(), RUN.lease(), RUN.lease(change)), "leases")
    assert change in page.text
    assert words in page.text
    assert len(page.buttons) == 2


def test_a_lease_that_was_given_back_has_no_buttons_and_no_clock(view_of):
    page = live(view_of(RUN.started(), RUN.lease(), RUN.lease("released", why="revoked by ada")), "leases")
    assert page.buttons == []
    assert "data-expires" not in dict(page.attributes)
    assert "revoked by ada" in page.text


def test_after_the_run_a_lease_is_one_line(view_of):
    events = [RUN.lease(), RUN.lease("renewed"), LATER.lease("released"), LATER.finished()]
    page = Page(run_html(view_of(RUN.started(), *events)))
    assert "github:read held 12 min, renewed 1 time, given back" in page.text
    assert page.buttons == []


@pytest.mark.parametrize("start", [{}, {"flavour": "sandbox", "brain": ""}])
def test_a_lease_that_somebody_revoked_says_so_after_the_run_too(view_of, start):
    gone = replace(RUN, at=RUN.at + timedelta(minutes=2)).lease("released", why="revoked by ann")
    view = view_of(RUN.started(**start), RUN.lease(), gone, LATER.finished())
    assert "github:read held 2 min, revoked by ann" in Page(run_html(view)).text
    assert "= lease github:read: revoked by ann" in run_text(view)
    assert run_bundle(view)[0][RUN_MIME]["leases"][0]["end"] == "revoked"


@pytest.mark.parametrize("start", [{}, {"flavour": "sandbox", "brain": ""}])
def test_a_key_that_its_provider_cannot_end_is_not_said_to_be_given_back(view_of, start):
    events = [RUN.started(**start), RUN.lease(), LATER.lease("released", why="left to expire")]
    row = live(view_of(*events), "leases")
    assert "over" in row.text
    assert "the key itself lives on" in row.text
    view = view_of(*events, LATER.finished())
    assert "over; the key itself lives on" in Page(run_html(view)).text
    assert "given back" not in run_html(view) + run_text(view)
    [record] = run_bundle(view)[0][RUN_MIME]["leases"]
    assert (record["end"], record["given_back"]) == ("left to expire", False)


def test_more_budget_shows_as_soon_as_it_is_allowed(view_of):
    view = view_of(RUN.started(), RUN.lease(), RUN.lease("on hold"))
    assert "on hold" in live(view, "leases").text
    given = {"expires_at": RUN.at + timedelta(minutes=15), "seconds_left": 3600.0, "renewals_left": 6}
    view.apply(RUN.lease("extended", **given))
    row = live(view, "leases").text
    assert "live" in row
    assert "then 1 h of budget, 6 renewals left" in row
    assert view.leases["lea-1"].renewals == 0


def test_a_lease_that_nobody_gave_back_is_not_said_to_be(view_of):
    view = view_of(RUN.started(), RUN.lease(), RUN.finished(status="lost"))
    assert "not seen to be given back" in Page(run_html(view)).text
    assert "not seen to be given back" in run_text(view)
    assert run_bundle(view)[0][RUN_MIME]["leases"][0]["given_back"] is False


def test_the_requests_of_a_lease_are_all_counted_and_some_are_shown(view_of):
    events = [RUN.used(f"/page/{number}") for number in range(KEPT_REQUESTS + 5)]
    page = live(view_of(RUN.started(), RUN.lease(), *events), "leases")
    assert f"{KEPT_REQUESTS + 5} requests" in page.text
    assert page.text.count("/page/") == KEPT_REQUESTS
    assert "… and 5 earlier." in page.text


def test_a_request_that_the_membrane_refused_says_why(view_of):
    view = view_of(RUN.started(), RUN.lease(), RUN.used(status=0, why="the path is not allowed"))
    assert "the last: the path is not allowed" in live(view, "leases").text


def test_only_what_changed_is_drawn_again(view_of):
    view = view_of(RUN.started(), RUN.lease(), *RUN.reached())
    live_parts(view)
    view.apply(RUN.used())
    assert set(live_parts(view)) == {"leases"}
    view.apply(RUN.refused())
    assert set(live_parts(view)) == {"net"}


# ------------------------------------------------------------------ the record


def crossed(run: SampleRun, **ends):
    return [
        run.started(brain="replay"),
        run.granted(by="ada"),
        run.lease(place=f"http://127.0.0.1:{ends.get('port', 8017)}", lease_id=f"lea-{ends.get('port', 1)}"),
        run.refused(times=ends.get("times", 1)),
        *run.reached("b.example", bytes_in=ends.get("bytes_in", 10), duration=ends.get("duration", 0.1)),
        *run.reached("a.example", 2),
        run.lease("released", lease_id=f"lea-{ends.get('port', 1)}", why=ends.get("why", "")),
        run.finished(),
    ]


def test_a_run_that_can_be_repeated_is_saved_the_same_on_every_machine(view_of):
    first = run_bundle(view_of(*crossed(RUN)))[0]
    other = replace(LATER, run_id="run-2", session_id="ses-2")
    there = crossed(other, port=9999, times=8, bytes_in=77_000, duration=9.0, why="released by bob")
    # Connections that are made at once come in any order.
    there[4:8] = [*there[6:8], *there[4:6]]
    assert run_bundle(view_of(*there))[0] == first
    assert "--net example.com" in first["text/html"]
    assert "a.example:443" in first["text/html"]


def test_the_record_tells_grant_egress_and_leases_and_the_metadata_their_figures(view_of):
    data, metadata = run_bundle(view_of(*crossed(RUN, times=8)))
    record = json.loads(json.dumps(data[RUN_MIME]))
    assert record["grant"]["credentials"] == ["github:read"]
    assert record["egress"] == {
        "refused": [{"host": "example.com", "port": 443, "why": "not granted", "net": "example.com"}],
        "reached": [{"host": name, "port": 443, "rule": "python-packages"} for name in ("a.example", "b.example")],
    }
    [lease] = record["leases"]
    assert lease == {
        "provider": "github",
        "scope": "read",
        "way": "header",
        "end": "given back",
        "given_back": True,
    }
    facts = json.loads(json.dumps(metadata["kagura"]))
    assert facts["grant"]["by"] == "ada"
    assert facts["egress"]["refused"][0]["times"] == 8
    assert facts["egress"]["reached"][1]["bytes_in"] == 10
    assert facts["leases"][0]["lease_id"] == "lea-1"


def test_the_record_of_a_run_that_nothing_crossed_has_no_word_about_it(view_of):
    record = run_bundle(view_of(RUN.started(), RUN.finished()))[0][RUN_MIME]
    assert not {"grant", "egress", "leases"} & set(record)


HOSTILE = "<img src=x onerror=alert(1)>\u202e`--net evil`"


def test_nothing_gets_out_of_a_row(view_of):
    events = [
        RUN.started(),
        RUN.granted(egress=(HOSTILE,), credentials=(HOSTILE,), by=HOSTILE, beyond=(HOSTILE,)),
        RUN.egress_asked(HOSTILE),
        RUN.egress_asked(HOSTILE, number=2),
        RUN.lease(provider=HOSTILE, scope=HOSTILE, place=HOSTILE, why=HOSTILE),
        RUN.used(HOSTILE, method=HOSTILE, host=HOSTILE, why=HOSTILE),
        RUN.refused(HOSTILE, reason=HOSTILE),
        *RUN.reached(HOSTILE, detail=HOSTILE, ended="limit"),
    ]
    view = view_of(*events)
    pages = [Page(part) for part in live_parts(view).values()]
    pages += [Page(run_html(view_of(*events, RUN.finished())))]
    for page in pages:
        assert page.open == []
        assert "img" not in page.tags
        assert not any(name.startswith("on") for name, _ in page.attributes)
        assert "\u202e" not in page.text
    assert "\u202e" not in run_text(view)
