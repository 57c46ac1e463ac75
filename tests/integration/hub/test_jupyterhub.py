"""Two people on a real JupyterHub: two servers, one journal, and neither sees, reaches or decides the other's.

All of it runs as one account of the system, so that what keeps them apart is what is tried: tokens of the Hub, roles of
the database, and the shared settings. The roles are made by the code that docs/operations has for a Hub.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import patch

import psycopg
import pytest
import yaml

from kagura_kernel.domain.errors import JournalUnwritable
from kagura_kernel.domain.events import BoxStarted
from kagura_kernel.journal import views
from kagura_kernel.journal.mailbox import Mailbox
from kagura_kernel.journal.store import Journal
from kagura_kernel.testing.patience import wait_until
from tests.support.jupyterhub import Kernel, Person, free_ports, jupyterhub
from tests.support.postgres_network import PostgresServer, postgres_server, why_not

pytest.importorskip("jupyterhub")
pytestmark = [
    pytest.mark.skipif(bool(why_not()), reason=why_not() or "PostgreSQL"),
    # On a Hub nothing weaker counts.
    pytest.mark.skipif(shutil.which("runsc") is None, reason="needs gVisor: apt install runsc"),
    pytest.mark.timeout(300),
]

VALUES = yaml.safe_load((Path(__file__).parents[3] / "docs/operations/hub-values.yaml").read_text("utf-8"))
DATABASE = "kagura"
SHARED = """
boxes = ["bubblewrap", "gvisor"]
pool_size = 0
quota_boxes = 1
journal_url = "JOURNAL"
locked = ["box", "boxes", "pool_size", "quota_boxes", "journal_url"]
"""
CASSETTE = [
    {"kagura_cassette": 1},
    {"text": "I try."},
    {"call": {"name": "bash", "arguments": {"command": "echo made > made.txt", "host": True, "reason": "to see"}}},
    {"done": {"text": "Over."}},
]


@dataclass(frozen=True, slots=True)
class Shared:
    """A journal that people share, each by a role of their own."""

    server: PostgresServer
    port: int

    @property
    def everybodys(self) -> str:
        """Its URL for those whose role and password are variables."""
        return f"postgresql://127.0.0.1:{self.port}/{DATABASE}"

    def url(self, role: str, password: str = "") -> str:
        secret = f":{password}" if password else ""
        return f"postgresql://{role}{secret}@127.0.0.1:{self.port}/{DATABASE}"

    def ask(self, statement: str, database: str = DATABASE) -> None:
        """Have the superuser do something."""
        where = {"host": str(self.server.home), "port": self.server.port, "user": "kagura", "dbname": database}
        with psycopg.connect(**where, autocommit=True) as connection:  # type: ignore[arg-type]
            connection.execute(statement.encode())


@contextmanager
def shared_journal() -> Iterator[Shared]:
    """As docs/hub.md has it: an owner who shares it, and a Hub that makes roles."""
    [port] = free_ports(1)
    settings = {"listen_addresses": "127.0.0.1", "port": str(port), "hba_file": "HOME/hba.conf"}
    hba = b"local all all trust\nhost all all 127.0.0.1/32 scram-sha-256\n"
    with postgres_server(settings, {"hba.conf": hba}) as server:
        shared = Shared(server, port)
        shared.ask("CREATE ROLE keeper LOGIN CREATEROLE PASSWORD 'of-the-keeper'", "postgres")
        shared.ask(f"CREATE DATABASE {DATABASE} OWNER keeper", "postgres")
        shared.ask("ALTER SCHEMA public OWNER TO keeper; REVOKE CREATE ON SCHEMA public FROM PUBLIC")
        command = [sys.executable, "-m", "kagura_kernel.cli.main", "journal", "share", "--url", shared.url("keeper")]
        subprocess.run(command, check=True, env={**os.environ, "PGPASSWORD": "of-the-keeper"}, capture_output=True)
        shared.ask("CREATE ROLE kagura_hub LOGIN CREATEROLE PASSWORD 'of-the-hub'")
        shared.ask("GRANT kagura_users TO kagura_hub WITH ADMIN OPTION")
        shared.ask("CREATE ROLE olga LOGIN PASSWORD 'of-olga' IN ROLE kagura_auditors")
        yield shared


def role_of(shared: Shared, name: str) -> tuple[str, str]:
    """A role that the Hub's own code has made, and its password."""
    modules = {name: ModuleType(name) for name in ("kubernetes_asyncio", "psycopg2")}
    vars(modules["kubernetes_asyncio"]).update(client=None, config=None)
    # The Hub has the driver before ours, which takes the same words.
    vars(modules["psycopg2"]).update(connect=psycopg.connect, sql=psycopg.sql)
    environ = {"KAGURA_JOURNAL_ADMIN": shared.url("kagura_hub", "of-the-hub"), "KAGURA_PASSWORDS": "long and random"}
    spawner = type("c", (), {"KubeSpawner": type("KubeSpawner", (), {})})
    names: dict[str, Any] = {"c": spawner}
    with patch.dict(sys.modules, modules), patch.dict(os.environ, environ):
        exec(VALUES["hub"]["extraConfig"]["kagura"], names)
        return names["role_of"](name), names["database_role"](name)


@dataclass(frozen=True, slots=True)
class Scene:
    """Both at work: a run of Ana's waits for her word, and Ben has had one."""

    ana: Person
    ben: Person
    kernels: Mapping[str, Kernel]
    cell: str  # Ana's cell that waits
    question: str  # What it waits for
    journal: Shared
    roles: Mapping[str, tuple[str, str]]  # Of each, with its password

    def runs(self, person: Person) -> list[str]:
        return [one["run_id"] for one in person.kagura("GET", "runs").json["items"]]


@pytest.fixture(scope="module")
def scene() -> Iterator[Scene]:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="hub-", ignore_cleanup_errors=True)))
        # Boxes are made by others than whoever runs the tests.
        folder.chmod(0o755)
        journal = stack.enter_context(shared_journal())
        (folder / "shared.toml").write_text(SHARED.replace("JOURNAL", journal.everybodys))
        roles = {name: role_of(journal, name) for name in ("ana", "ben")}
        people = {name: {"PGUSER": role, "PGPASSWORD": password} for name, (role, password) in roles.items()}
        hub = stack.enter_context(jupyterhub(folder, {"KAGURA_SHARED_CONFIG": str(folder / "shared.toml")}, people))
        with ThreadPoolExecutor() as pool:
            ana, ben = pool.map(hub.person, people)
            kernels = dict(
                zip(people, pool.map(lambda one: stack.enter_context(one.kernel()), (ana, ben)), strict=True)
            )
            list(pool.map(lambda kernel: kernel.run("%load_ext kagura_kernel"), kernels.values()))
        (ana.work / "c.jsonl").write_text("\n".join(map(json.dumps, CASSETTE)))
        cell = kernels["ana"].send("%%kagura --replay c.jsonl\nGo.")
        wait_until(lambda: waiting(ana))
        # Ana's one box counts for nothing here.
        said = kernels["ben"].run("%%sandbox bash\necho of $JUPYTERHUB_USER, boxed")
        assert "boxed" in said, said
        yield Scene(ana, ben, kernels, cell, waiting(ana)[0]["id"], journal, roles)


def waiting(person: Person) -> list[Any]:
    """Approvals that wait, as somebody's server tells them."""
    return [one for one in person.kagura("GET", "approvals").json["items"] if one["verdict"] is None]


def test_each_sees_their_own_runs_alone_in_the_sidebar_and_in_the_notebook(scene):
    [ana_s], [ben_s] = scene.runs(scene.ana), scene.runs(scene.ben)
    assert ana_s != ben_s
    assert scene.ben.kagura("GET", f"runs/{ana_s}").status == HTTPStatus.NOT_FOUND
    assert scene.ana.kagura("GET", f"runs/{ben_s}").status == HTTPStatus.NOT_FOUND
    told = scene.kernels["ben"].run("%kagura runs")
    assert (ben_s in told, ana_s in told) == (True, False)
    assert waiting(scene.ben) == []


def test_nobody_reaches_another_s_server(scene):
    ana, ben = scene.ana, scene.ben
    assert ben.kagura("GET", "runs", of=ana).status == HTTPStatus.FORBIDDEN
    decision = f"approvals/{scene.question}/decision"
    assert ben.kagura("POST", decision, {"verdict": "allow"}, of=ana).status == HTTPStatus.FORBIDDEN
    assert ben.ask("POST", "api/kernels", {"name": "python3"}, of=ana).status == HTTPStatus.FORBIDDEN


def test_nobody_decides_another_s_approval_by_whatever_way(scene):
    ben = scene.ben
    answer = ben.kagura("POST", f"approvals/{scene.question}/decision", {"verdict": "allow"})
    assert answer.status == HTTPStatus.NOT_FOUND
    assert "ApprovalUnknown" in scene.kernels["ben"].run(f"%kagura approve {scene.question}")
    [run] = scene.runs(scene.ana)
    assert "RunUnknown" in scene.kernels["ben"].run(f"%kagura kill {run}")
    with psycopg.connect(scene.journal.url(*scene.roles["ben"])) as connection:
        changed = connection.execute("UPDATE journal_approvals SET verdict = 'allow', decided_by = 'ben'")
        assert changed.rowcount == 0
    assert [one["id"] for one in waiting(scene.ana)] == [scene.question]


def test_what_the_administrator_has_locked_holds_on_both_servers(scene):
    said = scene.kernels["ben"].run("%%sandbox bash --box bubblewrap\ntrue")
    assert "UsageError" in said
    assert "the setting `box`" in said
    elsewhere = scene.kernels["ben"].run("!KAGURA_JOURNAL_URL= kagura-kernel run --replay c.jsonl Go.")
    assert "KAGURA_JOURNAL_URL: it cannot be changed here" in elsewhere
    told = scene.ben.kagura("GET", "settings").json
    assert "administrator" in told["locked"]["quota_boxes"]
    answer = scene.ben.kagura("POST", "settings", {"version": told["version"], "values": {"quota_boxes": 9}})
    assert answer.status == HTTPStatus.BAD_REQUEST


def test_a_quota_is_each_person_s_own_in_all_their_kernels(scene):
    with scene.ana.kernel() as another:
        another.run("%load_ext kagura_kernel")
        said = another.run("%%sandbox bash\necho a second box")
    assert "ERR_QUOTA" in said
    assert scene.runs(scene.ana)[-1] in said


def test_an_auditor_sees_everything_and_decides_nothing(scene):
    everybody = {*scene.runs(scene.ana), *scene.runs(scene.ben)}
    with closing(Journal.open(scene.journal.url("olga", "of-olga"), create=False)) as journal:
        found = views.runs(journal)
        assert {row.run_id for row in found} == everybody
        assert {row.user for row in found} == {"ana", "ben"}
        journal.verify()
        boxes = [row.event for row in journal.events(kinds=("box.started",)) if isinstance(row.event, BoxStarted)]
        assert {one.backend for one in boxes} == {"gvisor"}
        assert "bubblewrap: namespace walls are too weak" in boxes[0].reason
        with pytest.raises(JournalUnwritable):
            Mailbox(journal).send(scene.runs(scene.ana)[-1], "kill", by="olga")


def test_whoever_is_asked_decides_and_the_run_goes_on(scene):
    assert not (scene.ana.work / "made.txt").exists()
    answer = scene.ana.kagura("POST", f"approvals/{scene.question}/decision", {"verdict": "allow"})
    assert answer.status == HTTPStatus.OK
    assert "Over." in scene.kernels["ana"].follow(scene.cell)
    assert (scene.ana.work / "made.txt").read_text() == "made\n"
