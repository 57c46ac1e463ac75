"""What the routes that read give, over real HTTP, from a journal that another process writes."""

import json
import re

import pytest
import yaml

from kagura_kernel.views.record import LIVE, LIVE_MIME, RUN_MIME, run_bundle
from kagura_kernel.views.run import RunView
from tests.support.jupyter_server import API, HANDLE

pytestmark = pytest.mark.usefixtures("told")

GETS = sorted(path.lstrip("/") for path, methods in API["paths"].items() if "get" in methods)


def filled(path: str) -> str:
    """A route with names that are there."""
    return path.format(run_id="run-live", approval_id="app-new", lease_id="lea-1", name="greeter", memory_id="mem-told")


@pytest.mark.parametrize("path", GETS)
def test_a_get_that_would_say_the_same_is_answered_without_it(server, path):
    first = server.ask("GET", filled(path))
    assert first.status == 200
    assert first.headers["etag"]
    again = server.ask("GET", filled(path), headers={"If-None-Match": first.headers["etag"]})
    assert (again.status, again.body) == (304, b"")


@pytest.mark.parametrize("path", GETS)
def test_head_is_get_without_the_body(server, path):
    whole = server.ask("GET", filled(path))
    head = server.ask("HEAD", filled(path))
    assert (head.status, head.body) == (200, b"")
    for name in ("etag", "content-length", "content-type", "cache-control"):
        assert head.headers[name] == whole.headers[name]


@pytest.mark.parametrize("path", GETS)
def test_what_revokes_a_credential_stands_in_no_answer(server, path):
    assert HANDLE.encode() not in server.ask("GET", filled(path)).body


def test_an_etag_changes_with_what_it_stands_for(server, told):
    first = server.ask("GET", "runs/run-ended/events")
    told.journal.append(told.ended.noted("one thing more"))
    again = server.ask("GET", "runs/run-ended/events", headers={"If-None-Match": first.headers["etag"]})
    assert again.status == 200
    assert len(again.json["items"]) == len(first.json["items"]) + 1


def test_the_status_counts_what_waits_what_goes_on_and_what_today_cost(server, told):
    status = server.get("status")
    assert (status["pending"], status["live"]) == (1, 1)
    assert status["cost_today_usd"] == 0.375
    assert status["unpriced_today"] == 0
    assert status["seq"] == told.journal.last_seq()


def test_runs_are_told_with_their_place(server):
    live, ended = server.get("runs")["items"]
    assert (live["run_id"], live["status"], live["live"]) == ("run-live", "awaiting_approval", True)
    assert (ended["run_id"], ended["status"], ended["live"]) == ("run-ended", "done", False)
    assert (live["notebook"], live["kernel_id"], live["cell_id"]) == ("books/sales.ipynb", "kernel-1", "cell-1")
    assert (live["budget_usd"], live["cost_usd"], ended["cost_usd"]) == (2.0, 0.125, 0.25)
    assert server.get("runs/run-live") == live


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("state=live", ["run-live"]),
        ("state=ended", ["run-ended"]),
        ("session=ses-1", ["run-ended"]),
        ("notebook=books/sales.ipynb", ["run-live", "run-ended"]),
        ("notebook=books", []),
        ("q=DEPLOY", ["run-live"]),
        ("q=rows+count", ["run-ended"]),
        ("q=rows+deploy", []),
        ("q=%25", []),
        ("limit=1", ["run-live"]),
        ("q=sales&state=ended", ["run-ended"]),
    ],
)
def test_runs_are_found_by_their_words(server, words, found):
    assert [item["run_id"] for item in server.get(f"runs?{words}")["items"]] == found


def test_a_list_goes_on_where_its_page_ended(server):
    for name, key in (("runs", "run_id"), ("approvals", "id")):
        whole = [item[key] for item in server.get(name)["items"]]
        first = server.get(f"{name}?limit=1")
        second = server.get(f"{name}?limit=1&before={first['next']}")
        assert [first["items"][0][key], second["items"][0][key]] == whole
        assert second["next"] is None


def test_events_come_in_their_order_a_page_at_a_time(server):
    whole = server.get("runs/run-live/events")["items"]
    assert [item["event"]["kind"] for item in whole][:2] == ["run.started", "box.started"]
    found, cursor = [], "0"
    while cursor is not None:
        page = server.get(f"runs/run-live/events?limit=2&after={cursor}")
        found += page["items"]
        cursor = page["next"]
    assert found == whole


def test_approvals_are_told_in_full_with_the_place_of_their_run(server):
    (waiting,) = server.get("approvals?state=pending")["items"]
    assert (waiting["id"], waiting["verdict"], waiting["decided_at"]) == ("app-new", None, None)
    assert (waiting["notebook"], waiting["cell_id"]) == ("books/sales.ipynb", "cell-1")
    assert waiting["arguments"] == {"command": "git push"}
    assert waiting["options"] == ["yes", "no"]
    (decided,) = server.get("approvals?state=decided")["items"]
    assert (decided["verdict"], decided["by"], decided["via"], decided["answer"]) == (
        "deny",
        "ada",
        "cell",
        "not today",
    )
    assert server.get("approvals/app-new") == waiting


def test_leases_are_told_by_their_run_and_by_the_ledger(server):
    (lease,) = server.get("leases")["items"]
    assert (lease["lease_id"], lease["provider"], lease["scope"]) == ("lea-1", "github", "read")
    assert (lease["state"], lease["revocable"]) == ("live", True)
    assert (lease["way"], lease["place"]) == ("header", "http://127.0.0.1:8017")
    assert (lease["budget_left_seconds"], lease["renewals_left"]) == (2700.0, 5)


def test_costs_are_summed_by_day_notebook_and_budget(server):
    costs = server.get("costs?notebook=books/sales.ipynb")
    assert costs["today"] == costs["notebook"] == {"usd": 0.375, "runs": 2, "unpriced_runs": 0}
    assert costs["budget"] == {"run_id": "run-live", "usd_limit": 2.0, "usd_spent": 0.125}
    (day,) = costs["by_day"]
    assert (day["brain"], day["model"], day["usd"], day["runs"]) == ("claude", "m-1", 0.375, 2)
    assert server.get("costs")["notebook"] is None
    assert server.get("costs?session=ses-none")["notebook"] == {"usd": 0.0, "runs": 0, "unpriced_runs": 0}


def test_the_description_is_served_as_it_lies_in_the_package(server):
    assert yaml.safe_load(server.ask("GET", "openapi.yaml").body) == API


def test_odd_bytes_and_odd_numbers_reach_the_browser_as_json(server, told):
    odd = told.live.asked("app-odd", detail="odd \udcff\x00", title="odd \udcff")
    told.journal.append(odd.model_copy(update={"arguments": {"ratio": float("nan"), "most": float("inf")}}))
    try:
        approval = server.ask("GET", "approvals/app-odd")
        events = server.ask("GET", "runs/run-live/events")

        def refuse(word):
            raise AssertionError(f"{word} is no JSON")

        for answer in (approval, events):
            json.loads(answer.body, parse_constant=refuse)
        assert approval.json["arguments"] == {"ratio": "NaN", "most": "Infinity"}
    finally:
        told.journal.append(told.live.decided("app-odd", verdict="deny"))


def test_the_card_of_a_run_that_is_over_is_the_one_that_its_kernel_writes(server, told):
    view = RunView()
    for stored in told.journal.events(run_id="run-ended"):
        view.apply(stored.event)
    data, metadata = run_bundle(view)
    card = server.get("runs/run-ended/card")
    assert card == {"over": True, "data": json.loads(json.dumps(data)), "metadata": json.loads(json.dumps(metadata))}
    assert card["data"][RUN_MIME]["status"] == "done"
    goes_on = server.get("runs/run-live/card")
    assert (goes_on["over"], goes_on["data"][RUN_MIME]["status"]) == (False, "running")
    assert goes_on["data"][LIVE_MIME] == LIVE


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("runs/run-none", "ERR_RUN_UNKNOWN"),
        ("runs/run-none/events", "ERR_RUN_UNKNOWN"),
        ("runs/run-none/card", "ERR_RUN_UNKNOWN"),
        ("approvals/app-none", "ERR_APPROVAL_UNKNOWN"),
    ],
)
def test_what_is_not_there_is_said_to_be_missing(server, path, code):
    answer = server.ask("GET", path)
    assert (answer.status, answer.json["code"]) == (404, code)


@pytest.mark.parametrize(
    "path",
    [
        "runs?limit=501",
        "runs?before=yesterday",
        "runs?before=-1",
        "runs?before=9999999999999999999999",
        "runs?state=dead",
        f"runs?q={'x' * 501}",
        "approvals?before=app-1",
        "approvals?before=2026-01-01T00:00:00.000000Z",
        "approvals?state=live",
        "runs/run-live/events?after=first",
        "runs/run-live/events?limit=1001",
        "costs?days=0",
        "costs?days=367",
        "runs?q=%FF",
    ],
)
def test_what_cannot_be_understood_is_refused_with_a_sentence(server, path):
    answer = server.ask("GET", path)
    assert (answer.status, answer.json["code"]) == (400, "ERR_USAGE")
    assert re.fullmatch(r".{10,}\.", answer.json["message"])


@pytest.mark.parametrize("path", ["", "run", "runs/", "runs/a/b", "status/x", "approvals/app-1/decide", "../../x"])
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_route_that_is_not_there_is_refused_as_json(server, path, method):
    answer = server.ask(method, path, described=False)
    assert answer.status in {404, 405}
    if not path.startswith(".."):
        assert (answer.status, answer.json["code"]) == (404, "ERR_NOT_FOUND")


@pytest.mark.parametrize("path", sorted(API["paths"]))
def test_a_method_that_a_route_does_not_have_is_refused_as_json(server, path):
    method = next(method for method in ("GET", "POST", "DELETE") if method.lower() not in API["paths"][path])
    answer = server.ask(method, filled(path.lstrip("/")), described=False)
    assert (answer.status, answer.json["code"]) == (405, "ERR_METHOD")
    taken = {taken.upper() for taken in API["paths"][path] if taken in {"get", "post", "delete"}}
    allowed = set(answer.headers["allow"].split(", "))
    assert allowed == taken | {"OPTIONS"} | ({"HEAD"} if "GET" in taken else set())
    assert server.ask("PATCH", filled(path.lstrip("/")), described=False).status == 405


def test_no_answer_holds_a_trace(server):
    assert "Traceback" not in server.log.read_text()
