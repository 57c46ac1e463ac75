"""Several people's servers, as a hub starts them: below base URLs, behind a proxy, each with its own journal."""

from contextlib import closing

import pytest

from tests.support.sample_run import SampleRun


@pytest.fixture(scope="module")
def ana(start_server):
    return start_server("--ServerApp.base_url=/user/ana/")


@pytest.fixture(scope="module")
def ben(start_server):
    return start_server("--ServerApp.base_url=/hub/b%20e/ben/", "--ServerApp.trust_xheaders=True")


@pytest.fixture(scope="module")
def deputy(start_server, ana):
    """A second server on Ana's journal."""
    return start_server(KAGURA_HOME=str(ana.home))


@pytest.fixture(scope="module", autouse=True)
def _runs(ana, ben):
    for server, run in ((ana, SampleRun("run-ana")), (ben, SampleRun("run-ben"))):
        with closing(server.journal()) as journal:
            journal.append(run.started())
            journal.append(run.asked(f"app-{run.run_id}"))


def ids(server):
    return [item["run_id"] for item in server.get("runs")["items"]]


def test_each_sees_the_runs_of_its_own_journal(ana, ben):
    assert (ids(ana), ids(ben)) == (["run-ana"], ["run-ben"])
    assert ana.ask("GET", "runs/run-ben").status == 404
    assert ben.ask("POST", "approvals/app-run-ana/decision", {"verdict": "allow"}).status == 404
    assert ben.ask("POST", "runs/run-ana/kill").status == 404


def test_servers_that_share_a_journal_share_their_runs(ana, deputy):
    assert ids(deputy) == ids(ana)
    with closing(ana.journal()) as journal:
        journal.append(SampleRun("run-more").started())
    assert ids(deputy) == ids(ana) == ["run-more", "run-ana"]


def test_a_server_below_a_base_url_answers_nowhere_else(ana):
    elsewhere = type(ana)(ana.url.replace("/user/ana/", "/"), ana.home, ana.log, ana.process)
    assert elsewhere.ask("GET", "status", described=False).status in {302, 404}


def test_a_proxy_in_front_changes_nothing(ben):
    headers = {"X-Forwarded-For": "192.0.2.7", "X-Forwarded-Proto": "https", "X-Scheme": "https"}
    answer = ben.ask("GET", "runs", headers=headers)
    assert (answer.status, [item["run_id"] for item in answer.json["items"]]) == (200, ["run-ben"])


def test_a_token_in_the_address_is_as_good_as_one_in_a_header(ben):
    from tests.support.jupyter_server import TOKEN

    assert ben.ask("GET", f"status?token={TOKEN}", token=None).status == 200
    assert ben.ask("GET", "status?token=wrong", token=None).status == 403
