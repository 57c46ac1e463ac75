"""Against a real provider's client, and a fake of its service with books of its own."""

import asyncio
import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from kagura_kernel.cli.main import main
from kagura_kernel.journal.leases import LeaseLedger
from kagura_kernel.journal.mailbox import Mailbox
from kagura_kernel.journal.owner import process_owner
from kagura_kernel.journal.store import Journal
from kagura_kernel.membrane.credentials.lease import Budget, Grant, Holder, Lease
from kagura_kernel.membrane.credentials.mint import Book
from kagura_kernel.membrane.credentials.provider import CredentialProvider, Scope
from kagura_kernel.membrane.credentials.providers.static import StaticProvider, StaticSettings
from kagura_kernel.membrane.credentials.revoke import Settler
from kagura_kernel.membrane.credentials.secret import SecretReader, SecretReference
from kagura_kernel.testing.credential_service import SCOPE, Trouble
from tests.support.credential_cloudflare import PARENT, FakeCloudflare
from tests.support.credential_rigs import cloudflare_provider
from tests.support.sample_run import SampleRun

REGISTRY = """
[providers.cloudflare]
kind = "cloudflare"
api_url = "{url}"
token_env = "CF_PARENT"

[providers.cloudflare.scopes.read]
permission_groups = ["dns-read"]
resources = {{ "com.cloudflare.api.account.zone.1" = "*" }}

[providers.key]
kind = "static"
secret_env = "STATIC_KEY"
"""


@pytest.fixture
def cloudflare(books: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeCloudflare]:
    """The service, and a configuration that names it."""
    del books
    monkeypatch.setenv("CF_PARENT", PARENT)
    monkeypatch.setenv("STATIC_KEY", "a-key-for-good")
    folder = tmp_path / "config" / "kagura-kernel"
    folder.mkdir(parents=True)
    with FakeCloudflare() as service:
        (folder / "credentials.toml").write_text(REGISTRY.format(url=service.url))
        yield service


def lease(journal: Journal, provider: CredentialProvider, *, owner: str = "", run_id: str = "run-1") -> Lease:
    """One credential, minted by the book for a run."""
    grant = Grant(provider.name, SCOPE if provider.name == "cloudflare" else Scope("default"))
    holder = Holder(run_id, "ses-1", owner or process_owner())
    wanted = Lease.ask(grant, Budget()).acquire(900.0)
    return asyncio.run(Book(Settler(LeaseLedger(journal), {}, holder.owner)).mint(provider, wanted, holder))


def of_cloudflare(service: FakeCloudflare) -> CredentialProvider:
    return cloudflare_provider(service.url, SecretReader({"KEY": PARENT}), timeout=30.0)


def of_static() -> CredentialProvider:
    reference = SecretReference("providers.key.secret", "env", "STATIC_KEY")
    return StaticProvider(
        "key", StaticSettings(), {"secret": reference}, SecretReader({"STATIC_KEY": "a-key-for-good"})
    )


def test_what_is_out_is_listed_without_what_revokes_it(cloudflare, journal, gone, prints):
    issue = lease(journal, of_cloudflare(cloudflare))
    lease(journal, of_cloudflare(cloudflare), owner=gone, run_id="run-2")
    _, first, second = prints("leases").splitlines()
    assert first.split()[:5] == [issue.id, "cloudflare", "read", "run-1", "live"]
    assert " alive " in first
    assert " gone " in second
    said = prints("leases", "--json")
    assert [row["owner_alive"] for row in json.loads(said)] == [True, False]
    assert issue.handle not in said


def test_with_all_those_that_are_gone_are_listed_too(cloudflare, journal, prints):
    lease(journal, of_cloudflare(cloudflare))
    prints("leases", "revoke", "--all")
    assert prints("leases").startswith("No credential is out: ")
    assert [row["state"] for row in json.loads(prints("leases", "--all", "--json"))] == ["gone"]
    assert "newest" not in prints("leases", "--all")
    assert "No more than the newest 1 are shown" in prints("leases", "--all", "--limit", "1")


def test_a_lease_of_a_run_that_goes_on_is_revoked_at_the_provider_and_the_run_is_told(cloudflare, journal, prints):
    journal.append(SampleRun().started(owner=process_owner()))
    issue = lease(journal, of_cloudflare(cloudflare))
    other = lease(journal, of_cloudflare(cloudflare))
    assert prints("leases", "revoke", issue.id) == f"{issue.id}: cloudflare:read of run-1: revoked\n"
    assert list(cloudflare.live().values()) == [f"kagura-kernel {other.row_id}"]
    assert not LeaseLedger(journal).is_live(issue.row_id)
    assert [word.word for word in Mailbox(journal).take(["run-1"], ("leases",))] == ["leases"]


def test_all_leases_of_one_provider_are_revoked_and_no_others(cloudflare, journal, prints):
    lease(journal, of_cloudflare(cloudflare))
    key = lease(journal, of_static())
    assert [one["dead"] for one in json.loads(prints("leases", "revoke", "--provider", "cloudflare", "--json"))] == [
        True
    ]
    assert cloudflare.live() == {}
    assert LeaseLedger(journal).is_live(key.row_id)


def test_a_key_that_cannot_be_revoked_is_told_with_what_to_do(cloudflare, journal, prints):
    del cloudflare
    key = lease(journal, of_static())
    said = prints("leases", "revoke", "--all", code=1)
    assert "it cannot be revoked" in said
    assert "rotate the key behind key" in said
    assert not LeaseLedger(journal).is_live(key.row_id)


def test_trouble_at_the_provider_leaves_it_owed_and_a_sweep_brings_it_home(cloudflare, journal, gone, prints):
    issue = lease(journal, of_cloudflare(cloudflare), owner=gone)
    cloudflare.trouble(Trouble.BROKEN)
    assert "still owed: HTTP 500" in prints("leases", "revoke", issue.id, code=1)
    assert f"{issue.row_id}: cloudflare:read: revoked" in prints("leases", "sweep")
    assert cloudflare.live() == {}


def test_a_sweep_leaves_the_leases_of_the_living_alone(cloudflare, journal, gone, prints):
    living = lease(journal, of_cloudflare(cloudflare))
    dead = lease(journal, of_cloudflare(cloudflare), owner=gone)
    assert [(one["id"], one["how"]) for one in json.loads(prints("leases", "sweep", "--json"))] == [
        (dead.row_id, "revoked")
    ]
    assert list(cloudflare.live().values()) == [f"kagura-kernel {living.row_id}"]
    assert prints("leases", "sweep") == "Nothing to sweep.\n"


def test_a_lease_that_is_gone_needs_nothing(cloudflare, journal, prints):
    issue = lease(journal, of_cloudflare(cloudflare))
    prints("leases", "revoke", issue.id)
    assert prints("leases", "revoke", issue.id) == f"{issue.id}: it was gone already.\n"


@pytest.mark.usefixtures("journal", "cloudflare")
def test_an_unknown_lease_is_an_error(refuses):
    assert refuses("leases", "revoke", "lea-9").startswith("ERR_UNKNOWN_NAME: There is no lease 'lea-9'")


@pytest.mark.usefixtures("journal")
@pytest.mark.parametrize("words", [[], ["lea-1", "--all"], ["--all", "--provider", "x"]])
def test_it_must_be_said_which_leases(words, refuses):
    assert refuses("leases", "revoke", *words).startswith("ERR_USAGE: Say which leases")


def test_with_a_wrong_configuration_the_run_is_cut_off_and_no_value_is_repeated(cloudflare, journal, tmp_path, refuses):
    issue = lease(journal, of_cloudflare(cloudflare))
    config = tmp_path / "config" / "kagura-kernel" / "credentials.toml"
    config.write_text('[providers.cloudflare]\nkind = "cloudflare"\ntoken = "hunter2"\n')
    said = refuses("leases", "revoke", "--all")
    assert said.startswith("ERR_CONFIGURATION: ")
    assert "hunter2" not in said
    assert len(cloudflare.live()) == 1
    assert not LeaseLedger(journal).is_live(issue.row_id)


def test_a_provider_that_is_mistyped_is_an_error_and_nothing_is_revoked(cloudflare, journal, capsys):
    issue = lease(journal, of_cloudflare(cloudflare))
    assert main(["leases", "revoke", "--provider", "cloudflair"]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith(
        "ERR_UNKNOWN_NAME: There is no credential provider 'cloudflair'. Did you mean 'cloudflare'?"
    )
    assert LeaseLedger(journal).is_live(issue.row_id)


@pytest.mark.usefixtures("cloudflare", "journal")
def test_a_provider_that_has_nothing_out_is_no_error(prints):
    assert prints("leases", "revoke", "--provider", "cloudflare") == "cloudflare: no credential is out.\n"


def test_a_provider_that_is_not_configured_any_more_is_known_by_its_leases(cloudflare, journal, tmp_path, prints):
    issue = lease(journal, of_cloudflare(cloudflare))
    (tmp_path / "config" / "kagura-kernel" / "credentials.toml").unlink()
    assert f"{issue.id}: cloudflare:read of run-1: still owed" in prints(
        "leases", "revoke", "--provider", "cloudflare", code=1
    )
    assert not LeaseLedger(journal).is_live(issue.row_id)


def test_the_kind_of_providers_names_all_of_them(cloudflare, journal, tmp_path, prints):
    config = tmp_path / "config" / "kagura-kernel" / "credentials.toml"
    config.write_text(config.read_text() + '\n[providers.other]\nkind = "static"\nsecret_env = "STATIC_KEY"\n')
    first, kept = lease(journal, of_static()), lease(journal, of_cloudflare(cloudflare))
    said = prints("leases", "revoke", "--provider", "static", code=1)
    assert f"{first.id}: key:default" in said
    assert "other: no credential is out." in said
    assert LeaseLedger(journal).is_live(kept.row_id)


def test_every_lease_of_a_scope_is_revoked_and_no_others(cloudflare, journal, prints):
    for run_id in ("run-1", "run-2"):
        lease(journal, of_cloudflare(cloudflare), run_id=run_id)
    key = lease(journal, of_static())
    assert prints("leases", "revoke", "cloudflare:read").count(": revoked\n") == 2
    assert cloudflare.live() == {}
    assert LeaseLedger(journal).is_live(key.row_id)
    assert prints("leases", "revoke", "cloudflare:read") == "cloudflare:read: no credential is out.\n"


@pytest.mark.usefixtures("cloudflare")
def test_a_scope_that_is_mistyped_is_an_error(journal, refuses):
    key = lease(journal, of_static())
    assert "Did you mean 'cloudflare:read'?" in refuses("leases", "revoke", key.id, "cloudflare:raed")
    assert LeaseLedger(journal).is_live(key.row_id)


def test_the_end_of_an_id_names_a_lease_and_one_that_fits_several_none(cloudflare, journal, prints, refuses):
    issue = lease(journal, of_cloudflare(cloudflare))
    assert prints("leases", "revoke", issue.id[-8:]) == f"{issue.id}: cloudflare:read of run-1: revoked\n"
    ledger = LeaseLedger(journal)
    for key in ("lea-au", "lea-bu"):  # a letter that no id of ours has
        ledger.begin(replace(ledger.rows()[0], id=key, lease_id=key))
    assert "'u' fits 2 leases" in refuses("leases", "revoke", "u")
    assert refuses("leases", "revoke", "").startswith("ERR_UNKNOWN_NAME: ")


@pytest.mark.usefixtures("cloudflare", "journal")
def test_with_a_wrong_configuration_an_unknown_name_is_not_called_one(tmp_path, refuses):
    (tmp_path / "config" / "kagura-kernel" / "credentials.toml").write_bytes(b"\xff")
    assert refuses("leases", "revoke", "--provider", "cloudflare").startswith("ERR_CONFIGURATION: ")


@pytest.mark.parametrize("action", [["revoke", "--all"], ["sweep"]])
def test_a_configuration_that_is_no_text_is_told_without_a_stack_trace(
    action, cloudflare, journal, tmp_path, prints, refuses
):
    lease(journal, of_cloudflare(cloudflare))
    config = tmp_path / "config" / "kagura-kernel" / "credentials.toml"
    config.write_bytes(config.read_bytes() + b"\xff\xfe")
    prints("leases")
    assert refuses("leases", *action).startswith(f"ERR_CONFIGURATION: {config} cannot be used:\n")


NOW = datetime.now(UTC)


def logged(capsys: pytest.CaptureFixture[str], *words: str) -> list[dict[str, Any]]:
    assert main(["leases", "log", "--json", *words]) == 0
    found: list[dict[str, Any]] = json.loads(capsys.readouterr().out)
    return found


def test_a_request_is_one_line_with_its_answer(journal, prints):
    journal.append(SampleRun(at=NOW).used("/repos/acme", bytes_out=1536))
    head, line = prints("leases", "log").splitlines()
    assert head.split() == ["at", "run", "lease", "for", "request", "answer", "out", "in", "took", "why"]
    for part in ("run-1", "lea-1", "github:read", "GET api.github.com:443/repos/acme", "200", "1.5 KiB", "0.1 s"):
        assert part in line


def test_a_request_without_an_answer_says_why(journal, prints):
    journal.append(SampleRun(at=NOW).used(status=0, why="its lease is over"))
    line = prints("leases", "log").splitlines()[1]
    assert "  none  " in line
    assert line.endswith("its lease is over")


def test_only_the_requests_of_one_run_can_be_listed(journal, capsys):
    for run_id in ("run-1", "run-2"):
        run = SampleRun(run_id, at=NOW)
        journal.append(run.started(project=str(Path.cwd())))
        journal.append(run.used())
    assert [row["run_id"] for row in logged(capsys, "--run", "run-1")] == ["run-1"]
    assert [row["run_id"] for row in logged(capsys, "--run", "n-1")] == ["run-1"]
    assert [row["run_id"] for row in logged(capsys, "--run", "last")] == ["run-2"]


def test_a_path_cannot_pose_as_another_line(journal, prints):
    journal.append(SampleRun(at=NOW).used("/a\nrun-9\x1b[2K"))
    said = prints("leases", "log")
    assert (len(said.splitlines()), "\x1b" in said) == (2, False)


@pytest.mark.usefixtures("journal")
def test_an_unknown_run_is_an_error(refuses):
    assert (
        refuses("leases", "log", "--run", "nope")
        == "ERR_RUN_UNKNOWN: There is no run 'nope'. `kagura-kernel runs` lists them.\n"
    )


@pytest.mark.usefixtures("journal")
@pytest.mark.parametrize("words", [["--limit", "0"], ["--since", "yesterday"]])
def test_what_makes_no_sense_is_wrong_usage(words, refuses):
    said = refuses("leases", "log", *words)
    assert said.startswith("ERR_USAGE: ")
    assert words[0] in said
