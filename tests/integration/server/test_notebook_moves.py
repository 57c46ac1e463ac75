"""What a real Jupyter server tells the journal of notebooks that are renamed, moved and deleted in it."""

import http.client
import json
from contextlib import closing
from urllib.parse import urlsplit

import pytest

from kagura_kernel.journal.moves import moves
from kagura_kernel.testing.patience import eventually
from tests.support.jupyter_server import TOKEN
from tests.support.sample_run import SampleRun


@pytest.fixture
def fresh(start_server):
    return start_server()


def api(server, method, path, body=None):
    parts = urlsplit(server.url)
    with closing(http.client.HTTPConnection(parts.hostname, parts.port, timeout=60)) as connection:
        headers = {"Authorization": f"token {TOKEN}", "Content-Type": "application/json"}
        connection.request(method, f"/api/{path}", json.dumps(body), headers)
        answer = connection.getresponse()
        assert answer.status < 300, answer.read()
        return json.loads(answer.read() or b"null")


def made(server, path):
    kind = {"type": "notebook", "content": {"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}}
    api(server, "PUT", f"contents/{path}", kind if path.endswith(".ipynb") else {"type": "directory"})
    return f"{server.home.parent}/root/{path}"


def ran(journal, number, notebook):
    journal.append(SampleRun(f"run-{number}", f"ses-{number}").started(notebook=notebook, kernel_id="kernel-1"))


def listed(server, notebook):
    return [run["run_id"] for run in server.get(f"runs?notebook={notebook}")["items"]]


async def test_runs_stay_with_a_notebook_that_is_renamed_and_are_gone_with_one_that_is_deleted(fresh):
    made(fresh, "sub")
    here = made(fresh, "sub/one.ipynb")
    with closing(fresh.journal()) as journal:
        ran(journal, 1, here)
        api(fresh, "PATCH", "contents/sub/one.ipynb", {"path": "sub/two.ipynb"})
        await eventually(lambda: listed(fresh, here.replace("one", "two")) == ["run-1"])
        assert listed(fresh, here) == []
        api(fresh, "PATCH", "contents/sub", {"path": "other"})
        there = f"{fresh.home.parent}/root/other/two.ipynb"
        await eventually(lambda: listed(fresh, there) == ["run-1"])
        api(fresh, "DELETE", "contents/other/two.ipynb")
        await eventually(lambda: listed(fresh, there) == [])
        # What concerns nobody is not written down.
        made(fresh, "text")
        api(fresh, "PATCH", "contents/text", {"path": "texts"})
        assert [move.was.rpartition("/")[2] for move in moves(journal)] == ["one.ipynb", "sub", "two.ipynb"]


async def test_a_kernel_goes_along_though_nothing_was_run_and_there_is_no_journal_yet(fresh):
    made(fresh, "Untitled.ipynb")
    asked = {"path": "Untitled.ipynb", "name": "Untitled.ipynb", "type": "notebook", "kernel": {"name": "python3"}}
    session = api(fresh, "POST", "sessions", asked)
    api(fresh, "PATCH", "contents/Untitled.ipynb", {"path": "sales.ipynb"})
    api(fresh, "PATCH", f"sessions/{session['id']}", {"path": "sales.ipynb", "name": "sales.ipynb"})
    with closing(fresh.journal()) as journal:
        untitled = f"{fresh.home.parent}/root/Untitled.ipynb"
        ran(journal, 1, untitled)
        await eventually(lambda: listed(fresh, untitled) == ["run-1"])
        assert moves(journal) == []
        # The next one takes those along that have waited.
        api(fresh, "PATCH", "contents/sales.ipynb", {"path": "best.ipynb"})
        await eventually(lambda: len(moves(journal)) == 2)
        kernel = session["kernel"]["id"]
        assert [(move.was[-14:], move.now[-12:], move.kernels) for move in moves(journal)] == [
            ("Untitled.ipynb", "/sales.ipynb", (kernel,)),
            ("ot/sales.ipynb", "t/best.ipynb", (kernel,)),
        ]
        api(fresh, "DELETE", f"sessions/{session['id']}")
