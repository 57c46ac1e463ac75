"""The runbook, executed: every command of docs/operations.md, section by section, while a run goes on."""

import asyncio
import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest

from kagura_kernel.domain.events import EgressDecided
from kagura_kernel.journal import views
from kagura_kernel.journal.export import back_up
from kagura_kernel.journal.leases import LeaseLedger
from kagura_kernel.journal.owner import process_owner
from kagura_kernel.journal.store import Journal
from kagura_kernel.membrane.credentials.lease import Budget, Grant, Holder, Lease
from kagura_kernel.membrane.credentials.mint import Book
from kagura_kernel.membrane.credentials.registry import KINDS
from kagura_kernel.membrane.credentials.revoke import Settler
from kagura_kernel.membrane.credentials.secret import SecretReader
from kagura_kernel.runs.request import RunRequest
from kagura_kernel.sandbox.backend import BoxSpec
from kagura_kernel.sandbox.docker.backend import OWNER_LABEL, DockerBackend
from kagura_kernel.testing.box import FakeBackend
from kagura_kernel.testing.cockpit import fake_cockpit
from kagura_kernel.testing.credential_service import SCOPE
from kagura_kernel.testing.patience import eventually, wait_until
from tests.support.credential_cloudflare import PARENT, FakeCloudflare
from tests.support.credential_rigs import cloudflare_provider
from tests.support.dockerd import TestDaemon
from tests.support.journals import touch
from tests.support.sample_run import SampleRun

pytestmark = [pytest.mark.timeout(300)]

ROOT = Path(__file__).resolve().parents[3]
RUNBOOK = (ROOT / "docs" / "operations.md").read_text("utf-8")
REGISTRY = """
[providers.cloudflare]
kind = "cloudflare"
api_url = "{url}"
token_env = "CF_PARENT"

[providers.cloudflare.scopes.read]
permission_groups = ["dns-read"]
resources = {{ "com.cloudflare.api.account.zone.1" = "*" }}
"""


def sections() -> dict[str, list[str]]:
    """The scripts of the runbook, by the heading above them."""
    found: dict[str, list[str]] = {}
    for part in re.split(r"^## ", RUNBOOK, flags=re.MULTILINE):
        scripts = re.findall(r"^```sh\n(.*?)^```$", part, flags=re.DOTALL | re.MULTILINE)
        if scripts:
            found[part.partition("\n")[0].lstrip("# ")] = scripts
    return found


SECTIONS = sections()
WITH_DOCKER = "docker ps"


@dataclass(frozen=True)
class House:
    """A journal with a past and a run that goes on, and the service behind its lease."""

    home: Path  # The data directory
    environ: dict[str, str]  # What somebody who types commands has
    journal: Journal
    cloudflare: FakeCloudflare  # The service

    def run(self, script: str) -> subprocess.CompletedProcess[str]:
        """A script of the runbook, ended by its first command that fails."""
        command = ["bash", "-euo", "pipefail", "-c", script]
        return subprocess.run(
            command, capture_output=True, text=True, env=self.environ, cwd=self.home.parent, check=False, timeout=240
        )

    def status(self, run_id: str) -> str:
        return next(row.status for row in views.runs(self.journal) if row.run_id == run_id)


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    home, config, project = tmp_path / "home", tmp_path / "config" / "kagura-kernel", tmp_path / "project"
    config.mkdir(parents=True)
    project.mkdir()
    cockpit = fake_cockpit(home, backend=FakeBackend())
    journal = Journal.open(home)
    with FakeCloudflare() as cloudflare:
        (config / "credentials.toml").write_text(REGISTRY.format(url=cloudflare.url))
        past(journal)
        back_up(home, tmp_path / "good")
        cell = RunRequest(task="echo begun; sleep 100000", language="bash", project=project, idle_timeout=0)
        handle = cockpit.launch(cell)
        told: list[str] = []
        handle.subscribe(lambda event: told.append(event.kind))
        wait_until(lambda: "output.streamed" in told)
        journal.append(SampleRun(handle.run_id, at=datetime.now(UTC)).used("/zones/1/dns_records"))
        environ = {
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "HOME": str(tmp_path),
            "KAGURA_HOME": str(home),
            "XDG_CONFIG_HOME": str(tmp_path / "config"),
            "CF_PARENT": PARENT,
            "DOCKER_HOST": f"unix://{tmp_path}/nobody.sock",
            "RUN": handle.run_id,
            "LOST": "run-lost",
            "LEASE": leased(journal, cloudflare, handle.run_id),
            "PROVIDER": "cloudflare",
            "SCOPE": SCOPE,
            "OWNER": process_owner(),
            "COPY": str(tmp_path / "copy"),
            "GOOD_COPY": str(tmp_path / "good"),
        }
        try:
            yield House(home, environ, journal, cloudflare)
        finally:
            cockpit.close()
            journal.close()


def past(journal: Journal) -> None:
    """A run that is over, one whose process is gone, an answered question, a refused connection."""
    done, lost = SampleRun("run-done"), SampleRun("run-lost")
    for event in (done.started(), done.asked(), done.decided(), done.finished()):
        journal.append(event)
    host, _, since = process_owner().split(":")
    journal.append(lost.started(owner=f"{host}:999999999:{since}"))
    refused = EgressDecided(
        run_id="run-done",
        session_id="ses-1",
        at=datetime.now(UTC),
        connection_id="con-1",
        host="evil.example",
        port=443,
        allowed=False,
        reason="evil.example:443 is not granted.",
    )
    journal.append(refused)


def leased(journal: Journal, cloudflare: FakeCloudflare, run_id: str) -> str:
    provider = cloudflare_provider(cloudflare.url, SecretReader({"KEY": PARENT}), timeout=30.0)
    wanted = Lease.ask(Grant("cloudflare", SCOPE), Budget()).acquire(900.0)
    holder = Holder(run_id, "ses-1", process_owner())
    book = Book(Settler(LeaseLedger(journal), {}, holder.owner))
    return asyncio.run(book.mint(provider, wanted, holder)).id


def follow(house: House, section: str) -> list[str]:
    """Do what a section says, in its order; what its scripts print."""
    said = []
    for script in SECTIONS[section]:
        if WITH_DOCKER in script:
            continue
        if "$GOOD_COPY" in script:
            tamper(house.home)
        done = house.run(script)
        expected = 4 if script == "kagura-kernel doctor\n" else 0
        assert done.returncode == expected, f"{script}\n{done.stdout}\n{done.stderr}"
        said.append(done.stdout)
    return said


def tamper(home: Path) -> None:
    touch(home / "journal.db", "DELETE FROM journal_events WHERE seq = 2")


def test_in_a_hurry_everything_stops_and_no_credential_is_left(house):
    follow(house, "Operations: a runbook")
    assert house.status(house.environ["RUN"]) == "killed"
    assert house.cloudflare.live() == {}
    assert (Path(house.environ["COPY"]) / "journal.db").is_file()


def test_the_tripwires_are_seen(house):
    doctor, figures = follow(house, "Tripwires: what to watch")
    assert "run-lost" in doctor
    for word in ("evil.example", house.environ["LEASE"], house.environ["RUN"], '"ok": true'):
        assert word in figures


def test_containing_stops_the_run_and_takes_its_lease_back(house):
    said = "".join(follow(house, "Contain"))
    assert house.status(house.environ["RUN"]) == "killed"
    assert f"{house.environ['LEASE']}: cloudflare:read of {house.environ['RUN']}: revoked" in said
    assert "cloudflare:read: no credential is out." in said
    assert house.cloudflare.live() == {}


def test_rotating_takes_all_leases_of_a_provider_back_and_leaves_the_run_going(house):
    follow(house, "Rotate")
    assert house.cloudflare.live() == {}
    assert house.status(house.environ["RUN"]) == "running"


def test_investigating_shows_what_happened_and_changes_nothing(house):
    before = house.journal.last_seq()
    _, _, connections, leases, record, answers = follow(house, "Investigate")
    assert "evil.example:443" in connections
    assert house.environ["LEASE"] in leases
    assert leases.count("/zones/1/dns_records") == 2
    assert '"kind":"run.started"' in record.replace(" ", "")
    assert "run-done" in answers
    assert "allow ada cell" in answers
    assert house.journal.last_seq() == before


def test_recovering_marks_the_lost_mends_the_tables_and_goes_on_with_the_copy(house):
    first, second, third = follow(house, "Recover")
    assert "run-lost: lost" in first
    assert "made anew from its rows" in second
    assert third.count("all as they were written") == 2
    assert (house.home / "evidence" / "journal.db").is_file()


def test_backing_up_while_the_run_goes_on_gives_a_copy_that_holds(house):
    (said,) = follow(house, "Back up")
    assert '"ok": true' in said
    assert house.status(house.environ["RUN"]) == "running"


def test_every_section_with_commands_is_followed_by_a_test_above():
    text = Path(__file__).read_text("utf-8")
    followed = set(re.findall(r'follow\(house, "(.+?)"\)', text))
    assert followed == SECTIONS.keys()


@pytest.fixture
async def our_box(
    docker_daemon: TestDaemon, docker_backend: DockerBackend
) -> AsyncIterator[tuple[str, dict[str, str]]]:
    """A box of a process that nobody else is, and what it takes to reach its daemon."""
    box = await docker_backend.start(BoxSpec())
    environ = {
        "PATH": os.environ["PATH"],
        "DOCKER_HOST": docker_daemon.host,
        "OWNER": docker_backend._labels[OWNER_LABEL],
    }
    yield box.id, environ
    await box.close()


@pytest.mark.docker
async def test_the_boxes_of_one_process_are_shown_and_closed(our_box):
    box_id, environ = our_box
    (script,) = [script for script in SECTIONS["Contain"] if WITH_DOCKER in script]

    def run(text: str) -> str:
        command = ["bash", "-euo", "pipefail", "-c", text]
        return subprocess.run(command, capture_output=True, text=True, env=environ, check=True, timeout=120).stdout

    said = await asyncio.to_thread(run, script)
    assert f"{box_id}  {environ['OWNER']}  Up" in said
    still_there = f"docker ps --quiet --filter name={box_id}"
    await eventually(lambda: run(still_there) == "")


def test_every_kind_of_provider_stands_in_the_table_of_extras_with_the_one_it_needs():
    _, _, table = RUNBOOK.partition("\n## Credential providers\n")
    rows = dict(re.findall(r"^\| (`.+?) \| (.+?) \|$", table.partition("\n## ")[0], flags=re.MULTILINE))
    needed = {kind: what for kinds, what in rows.items() for kind in re.findall(r"`(\w+)`", kinds)}
    assert needed.keys() == KINDS.keys()
    for name, kind in KINDS.items():
        expected = f"`pip install 'kagura-kernel[{kind.extra}]'`" if kind.extra else "nothing more"
        assert needed[name] == expected
