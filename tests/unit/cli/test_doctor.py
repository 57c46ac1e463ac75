import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from kagura_kernel.cli import doctor
from kagura_kernel.cli.doctor import next_step
from kagura_kernel.cli.doctor_journal import MANY_DENIALS, MANY_REFUSALS, only_read, unusable
from kagura_kernel.cli.doctor_rows import Finding, State
from kagura_kernel.cli.main import main
from kagura_kernel.cockpit.status import PartStatus
from kagura_kernel.domain.errors import JournalTampered, JournalTooNew, JournalUnreadable, JournalUnwritable
from kagura_kernel.domain.events import EgressDecided
from kagura_kernel.domain.memory import Author, Draft, Source
from kagura_kernel.domain.settings import Settings
from kagura_kernel.journal.leases import LeaseLedger, LeaseRow
from kagura_kernel.journal.owner import process_owner
from kagura_kernel.journal.store import Journal
from kagura_kernel.memory.sqlite.store import SqliteMemory
from tests.support.journals import touch
from tests.support.sample_run import SampleRun

NOW = datetime.now(UTC)

pytestmark = pytest.mark.usefixtures("books", "probed_once")


def found(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, dict[str, Any]]:
    """What the doctor says, by what was looked at; its exit code agrees with it."""
    code = main(["doctor", "--json", *words])
    told = json.loads(capsys.readouterr().out)
    findings = {finding["name"]: finding for finding in told["findings"]}
    assert (code == 4) == any(finding["state"] == "fail" for finding in findings.values()) == (not told["ok"])
    assert code in (0, 4)
    assert {finding["state"] for finding in findings.values()} <= {"ok", "warn", "fail"}
    assert all(finding["then"] for finding in findings.values() if finding["state"] == "fail")
    return findings


def refusals(journal: Journal, count: int, run_id: str = "run-1") -> None:
    """One refusal, given so often, as it is recorded."""
    times = 1
    while times <= count:
        journal.append(
            EgressDecided(
                run_id=run_id,
                session_id="ses-1",
                at=NOW,
                connection_id=f"con-{times}",
                host="evil.example",
                port=443,
                allowed=False,
                reason="no.",
                times=times,
            )
        )
        times *= 2


def held(journal: Journal, owner: str) -> None:
    row = LeaseRow(
        id="lea-1",
        lease_id="lea-1",
        run_id="run-1",
        session_id="ses-1",
        owner=owner,
        provider="github",
        scope="read",
        began_at=NOW,
        expires_at=NOW + timedelta(minutes=15),
        dies_at=NOW + timedelta(hours=1),
        total_seconds=3600.0,
        spent_seconds=900.0,
        renewals_left=6,
    )
    ledger = LeaseLedger(journal)
    ledger.begin(row)
    ledger.complete("lea-1", handle="h", expires_at=row.expires_at, dies_at=row.dies_at)


def test_a_quiet_house_needs_nobody_unless_no_box_starts(journal, capsys):
    journal.append(SampleRun().started(owner=process_owner()))
    findings = found(capsys)
    assert findings["journal"]["said"].startswith(f"{journal.where}: 1 rows, last hash ")
    assert findings["runs"]["said"] == "1 going on"
    assert findings["leases"]["said"] == "0 out, all of processes that live"
    failed = {name for name, finding in findings.items() if finding["state"] == "fail"}
    assert failed <= {"boxes", "disk"}


def test_every_back_end_is_tried(capsys):
    findings = found(capsys)
    assert {"box docker", "box bubblewrap"} <= findings.keys()
    assert findings["shared deployment"]["said"].startswith("no: ")


def test_a_back_end_that_is_asked_for_and_does_not_work_needs_somebody(monkeypatch, capsys):
    assert found(capsys)["box docker"]["state"] == "warn"
    monkeypatch.setenv("KAGURA_BOX", "docker")
    assert found(capsys)["box docker"]["state"] == "fail"


@pytest.mark.parametrize(
    ("variable", "value", "row"),
    [
        ("KAGURA_BRAIN", "claud", "brain"),
        ("KAGURA_BOX", "bubblewrapp", "box bubblewrapp"),
        ("KAGURA_BOX", "ssh", "box ssh"),
        ("KAGURA_OWN_TOOLS", "word-count", "tool word-count"),
        ("KAGURA_AGENT", "revewer", "agent"),
        ("KAGURA_AGENT", "./revewer.yaml", "agent"),
        ("KAGURA_LOG_PLACE", "/nowhere/kagura.log", "log"),
    ],
)
def test_what_the_settings_name_and_is_not_there_is_a_failure(variable, value, row, monkeypatch, capsys):
    monkeypatch.setenv(variable, value)
    assert found(capsys)[row]["state"] == "fail"


def test_an_agent_that_the_settings_name_has_a_row(monkeypatch, capsys):
    monkeypatch.setenv("KAGURA_AGENT", "reviewer")
    assert found(capsys)["agent"]["state"] == "ok"
    monkeypatch.setenv("KAGURA_AGENT", "https://agents.example/reviewer.yaml")
    assert "agent" not in found(capsys)


def test_without_a_journal_none_is_made(books, capsys):
    assert found(capsys)["journal"]["said"] == f"none yet at {books / 'journal.db'}"
    assert not (books / "journal.db").exists()


def test_a_journal_that_somebody_has_touched_needs_somebody(journal, books, capsys):
    for number in range(3):
        journal.append(SampleRun().noted(str(number)))
    touch(books / "journal.db", "DELETE FROM journal_events WHERE seq = 2")
    finding = found(capsys)["journal"]
    assert (finding["state"], "row 2" in finding["said"]) == ("fail", True)
    assert finding["then"].startswith("`kagura-kernel journal backup DIRECTORY` keeps it")


@pytest.mark.parametrize("words", [(), ("--full",)])
def test_a_journal_in_the_place_of_the_one_that_was_checked_needs_somebody(journal, books, capsys, prints, words):
    for number in range(3):
        journal.append(SampleRun().noted(str(number)))
    prints("journal", "verify")
    journal.close()
    for path in books.glob("journal.db*"):
        path.unlink()
    gone = found(capsys, *words)["journal"]
    assert (gone["state"], "it had 3 rows on" in gone["said"]) == ("fail", True)
    older = Journal.open(books)
    older.append(SampleRun().noted("0"))
    older.close()
    other = found(capsys, *words)["journal"]
    assert (other["state"], "row 3" in other["said"]) == ("fail", True)
    assert "journal verify" in other["then"]
    assert json.loads(prints("journal", "verify", "--json"))["not_the_one_with"]["row"] == 3
    assert found(capsys, *words)["journal"]["state"] == "ok"
    assert "not_the_one_with" not in json.loads(prints("journal", "verify", "--json"))


def test_a_table_that_does_not_fit_its_rows_is_made_anew_by_the_command_that_is_named(journal, books, capsys, prints):
    journal.append(SampleRun().started(owner=process_owner()))
    touch(books / "journal.db", "UPDATE journal_runs SET task = 'another'")
    finding = found(capsys)["journal"]
    assert (finding["state"], "`kagura-kernel journal rebuild`" in finding["then"]) == ("fail", True)
    prints("journal", "rebuild")
    assert found(capsys)["journal"]["state"] == "ok"


def test_what_is_no_journal_is_to_be_moved_away(books, capsys):
    books.mkdir()
    (books / "journal.db").write_bytes(b"something else" * 1000)
    finding = found(capsys)["journal"]
    assert (finding["state"], "move it away" in finding["then"], "rebuild" in finding["then"]) == ("fail", True, False)


def test_a_journal_of_a_newer_version_wants_that_version(journal, books, capsys):
    journal.close()
    touch(books / "journal.db", "INSERT INTO journal_version VALUES (999, '')")
    finding = found(capsys)["journal"]
    assert (finding["state"], finding["then"]) == ("fail", "install the version that wrote it, or a newer one")


def test_each_state_of_a_journal_has_a_remedy_of_its_own():
    errors = [
        JournalUnwritable("/home/journal.db", "the disk is full"),
        JournalUnwritable("postgresql://h/d", "no such server"),
        JournalUnreadable("/home/journal.db", "it is no SQLite database"),
        JournalTampered("/home/journal.db", 2, "it is missing"),
        JournalTampered("postgresql://ada@db/books", 2, "it is missing"),
        JournalTampered("/home/journal.db", 2, "it is missing", table="journal_runs", key="run-1"),
        JournalTooNew("/home/journal.db", 9, 6),
    ]
    remedies = [unusable(error).then for error in errors]
    assert len(set(remedies)) == len(errors)
    assert only_read("/home/journal.db", "the disk is full").then == remedies[0]
    # There is no `journal backup` of a server's.
    assert "journal backup" not in unusable(errors[4]).said + remedies[4]


def test_a_run_whose_process_is_gone_needs_somebody_and_nothing_is_changed(journal, gone, capsys):
    journal.append(SampleRun().started(owner=gone))
    journal.append(SampleRun().asked())
    findings = found(capsys)
    finding = findings["runs"]
    assert (finding["state"], finding["then"]) == ("fail", "`kagura-kernel kill run-1` marks them as lost")
    assert findings["approvals"]["said"] == "none waiting"
    assert journal.last_seq() == 2


def test_a_lease_of_a_process_that_is_gone_needs_somebody(journal, gone, capsys):
    held(journal, gone)
    finding = found(capsys)["leases"]
    assert finding["state"] == "fail"
    assert "github:read of run-1" in finding["said"]


def test_a_lease_that_could_not_be_given_back_needs_somebody_and_one_that_is_held_does_not(journal, capsys):
    held(journal, process_owner())
    assert found(capsys)["leases"]["state"] == "ok"
    ledger = LeaseLedger(journal)
    ledger.owe("lea-1", "released")
    assert found(capsys)["leases"]["state"] == "ok"
    ledger.postpone("lea-1", until=NOW + timedelta(minutes=1), why="HTTP 500")
    assert found(capsys)["leases"]["state"] == "fail"


def test_an_approval_that_waits_needs_somebody(journal, capsys):
    journal.append(SampleRun().started(owner=process_owner()))
    journal.append(SampleRun().asked())
    finding = found(capsys)["approvals"]
    assert finding["state"] == "warn"
    assert "app-1 (Run a command on this machine)" in finding["said"]


def test_a_burst_of_refused_connections_needs_somebody_and_a_few_do_not(journal, capsys):
    refusals(journal, MANY_REFUSALS // 2)
    few = found(capsys)["egress"]
    assert few["state"] == "ok"
    assert few["said"].endswith(" connections refused, of 1 run")
    refusals(journal, MANY_REFUSALS * 2, "run-2")
    finding = found(capsys)["egress"]
    assert finding["state"] == "fail"
    assert finding["then"] == "`kagura-kernel egress log --refused --run run-2`"


def test_several_denials_by_a_person_need_somebody_and_those_by_policy_do_not(journal, capsys):
    run = SampleRun(at=NOW)
    for number in range(MANY_DENIALS):
        journal.append(run.asked(f"app-p{number}"))
        journal.append(run.decided(f"app-p{number}", verdict="deny", by="policy", via="policy"))
    assert found(capsys)["denials"]["state"] == "ok"
    for number in range(MANY_DENIALS):
        journal.append(run.asked(f"app-{number}"))
        journal.append(run.decided(f"app-{number}", verdict="deny"))
    denials = found(capsys)["denials"]
    assert (denials["state"], "(of run-1)" in denials["said"]) == ("fail", True)
    assert "kagura-kernel approvals" in denials["then"]
    later = (NOW + timedelta(seconds=1)).isoformat()
    assert found(capsys, "--since", later)["denials"]["state"] == "ok"


def test_a_journal_that_is_named_and_is_not_there_is_told_as_by_every_other_command(tmp_path, refuses):
    assert f"There is no journal {tmp_path / 'typo' / 'journal.db'} yet" in refuses(
        "doctor", "--dir", str(tmp_path / "typo")
    )


def test_a_wrong_credential_configuration_needs_somebody(tmp_path, capsys):
    folder = tmp_path / "config" / "kagura-kernel"
    folder.mkdir(parents=True)
    (folder / "credentials.toml").write_text('[providers.x]\nkind = "cloudflare"\ntoken = "hunter2"\n')
    finding = found(capsys)["credential providers"]
    assert (finding["state"], "hunter2" in finding["said"]) == ("fail", False)


@pytest.mark.parametrize("trouble", ["bytes", "folder"])
def test_a_credential_configuration_that_cannot_be_read_needs_somebody(trouble, tmp_path, capsys):
    config = tmp_path / "config" / "kagura-kernel" / "credentials.toml"
    config.parent.mkdir(parents=True)
    if trouble == "bytes":
        config.write_bytes(b'[providers.x]\ntoken = "hunter2\xff"\n')
    else:
        config.mkdir()
    finding = found(capsys)["credential providers"]
    assert (finding["state"], "hunter2" in finding["said"]) == ("fail", False)
    assert str(config) in finding["said"]


def test_in_a_shared_deployment_each_weak_back_end_is_said_to_be_refused(monkeypatch, capsys):
    monkeypatch.setenv("JUPYTERHUB_USER", "ada")
    findings = found(capsys)
    assert findings["shared deployment"]["said"].startswith("yes: boxes need gvisor")
    for name in ("box docker", "box bubblewrap"):
        assert findings[name]["state"] == "warn"
        assert "refused here with ERR_ISOLATION_TOO_WEAK" in findings[name]["said"]
    assert "ERR_ISOLATION_TOO_WEAK" not in findings["box gvisor"]["said"]
    # A weak back-end that works is no way out.
    assert ("boxes" in findings) == ("runsc starts boxes" not in findings["box gvisor"]["said"])


def test_in_a_shared_deployment_a_weak_back_end_that_is_asked_for_needs_somebody_and_the_others_are_told_too(
    monkeypatch, capsys
):
    monkeypatch.setenv("KAGURA_SHARED", "true")
    monkeypatch.setenv("KAGURA_BOX", "bubblewrap")
    findings = found(capsys)
    assert findings["shared deployment"]["state"] == "fail"
    assert findings["box bubblewrap"]["state"] == "fail"
    assert {"box docker", "box gvisor"} <= findings.keys()


@pytest.mark.parametrize(
    ("order", "name", "state", "said"),
    [
        (
            ["ssh", "docker"],
            "box order",
            "ok",
            "`--box auto` takes docker, by the setting `boxes`; ssh: no machine is named",
        ),
        (["docker", "ssh"], "box order", "ok", "`--box auto` takes docker, by the setting `boxes`"),
        (["ssh"], "boxes", "fail", "only docker starts one here, which no run takes unless it or the settings name it"),
        (
            ["podman"],
            "boxes",
            "fail",
            (
                "only docker starts one here, which no run takes unless it or the settings name it; "
                "there is no back-end called podman, as the setting `boxes` has it"
            ),
        ),
    ],
)
def test_what_an_administrator_says_has_a_row_and_which_box_comes_of_it_too(
    order, name, state, said, tmp_path, monkeypatch, capsys
):
    async def probed(_: Settings) -> list[PartStatus]:
        far = PartStatus("ssh", ok=False, reason="no machine is named", isolation="namespace")
        return [PartStatus("docker", ok=True, reason="it works", isolation="container"), far]

    monkeypatch.setattr(doctor, "_probed", probed)
    shared = tmp_path / "shared.toml"
    shared.write_text(f'boxes = {json.dumps(order)}\nrecall = 3\nlocked = ["boxes"]\n')
    monkeypatch.setenv("KAGURA_SHARED_CONFIG", str(shared))
    findings = found(capsys)
    assert findings["shared settings"]["said"] == f"{shared} sets boxes, recall; nobody else changes boxes"
    assert (findings[name]["state"], findings[name]["said"]) == (state, said)
    assert len({"box order", "boxes"} & findings.keys()) == 1


def test_a_box_of_ones_own_that_a_locked_setting_does_not_leave_is_told_before_a_run_is_refused(
    tmp_path, monkeypatch, capsys
):
    async def probed(_: Settings) -> list[PartStatus]:
        return [PartStatus(name, ok=True, reason="it works", isolation="container") for name in ("docker", "gvisor")]

    monkeypatch.setattr(doctor, "_probed", probed)
    (tmp_path / "shared.toml").write_text('boxes = ["gvisor"]\nlocked = ["boxes"]\n')
    monkeypatch.setenv("KAGURA_SHARED_CONFIG", str(tmp_path / "shared.toml"))
    monkeypatch.setenv("KAGURA_BOX", "docker")
    told = found(capsys)["usual box"]
    assert told["state"] == "fail"
    assert told["said"] == "docker: the setting `boxes`, which is locked, leaves gvisor, so no run can start"
    monkeypatch.setenv("KAGURA_BOX", "gvisor")
    assert "usual box" not in found(capsys)


def told(capsys: pytest.CaptureFixture[str], *words: str) -> list[str]:
    """What it prints for a person, in lines."""
    main(["doctor", *words])
    return capsys.readouterr().out.splitlines()


def test_for_a_person_several_problems_stand_each_on_a_line_below_each_other(
    journal, gone, tmp_path, monkeypatch, capsys
):
    monkeypatch.setenv("COLUMNS", "90")
    journal.append(SampleRun().started(owner=gone))
    folder = tmp_path / "config" / "kagura-kernel"
    folder.mkdir(parents=True)
    (folder / "credentials.toml").write_text('[providers.x]\nkind = "cloudflare"\n[providers.y]\nkind = "nope"\n')
    lines = told(capsys)
    (start,) = [place for place, line in enumerate(lines) if line.startswith("FAIL  credential providers  ")]
    column = lines[start].index(str(folder)[:8])
    problems = [line for line in lines if "- providers." in line]
    assert len(problems) > 2
    assert all(line.startswith(" " * column) for line in problems)
    assert not any("⟨U+" in line for line in lines)
    (run,) = [place for place, line in enumerate(lines) if line.startswith("FAIL  runs ")]
    assert lines[run + 1].strip() == "→ `kagura-kernel kill run-1` marks them as lost"
    failed, warned = (sum(line.startswith(mark) for line in lines) for mark in ("FAIL  ", "WARN  "))
    (total,) = [place for place, line in enumerate(lines) if line.startswith(f"{failed} failed, {warned} warning")]
    assert lines[total + 1].startswith("Next: ")


def row(name: str, state: State, then: str = "", part: str = "") -> Finding:
    return Finding(name, state, "said", then, part)


NO_BRAIN = row("brain", "warn", "`kagura-kernel setup brain`", "brain")
NO_DOCKER = row("box docker", "warn", "Install and start Docker.", "sandbox")
NO_BOX = row("boxes", "fail", "Install bubblewrap: `apt install bubblewrap`.", "sandbox")
LOST = row("runs", "fail", "`kagura-kernel kill run-1` marks them as lost")
OPEN = row("data directory", "warn", "`chmod 700 /home/ada/books`")
NO_LAB = row("jupyter lab", "warn", "`pip install 'kagura-kernel[lab]'`")
NO_ROOM = row("disk", "fail", "make room")
NO_MEMORY = row("memory", "fail", "`kagura-kernel setup memory` chooses another place", "memory")
NO_KEYCHAIN = row("secret back-ends", "warn", "unlock one")


@pytest.mark.parametrize(
    ("findings", "expected"),
    [
        ([NO_BRAIN, LOST, NO_DOCKER, NO_BOX], "Install bubblewrap: `apt install bubblewrap` (boxes)"),
        ([NO_BRAIN, NO_MEMORY, NO_BOX, NO_ROOM], "make room (disk)"),
        ([NO_BRAIN, NO_DOCKER, LOST, OPEN], "`kagura-kernel kill run-1` marks them as lost (runs)"),
        ([NO_BRAIN, NO_DOCKER, OPEN], "`kagura-kernel setup brain` (brain)"),
        ([row("brain", "ok"), NO_DOCKER, OPEN], "`chmod 700 /home/ada/books` (data directory)"),
        ([row("brain", "ok"), NO_DOCKER, NO_LAB, NO_KEYCHAIN], ""),
    ],
)
def test_what_keeps_every_run_from_starting_is_to_be_done_first_and_what_is_not_needed_never(findings, expected):
    assert next_step(findings) == expected


@pytest.mark.parametrize(
    ("install", "expected"),
    [
        ({"bubblewrap": "get bwrap", "docker": "get docker", "gvisor": "get runsc"}, "get bwrap"),
        ({"bubblewrap": "", "docker": "get docker", "gvisor": "get runsc"}, "get runsc"),
        ({"bubblewrap": "", "docker": "", "gvisor": "", "far": "start it"}, "start it"),
        ({"bubblewrap": "", "docker": "", "gvisor": ""}, "mend one of the back-ends above"),
    ],
)
@pytest.mark.usefixtures("books")
def test_where_no_box_starts_the_back_end_that_needs_least_is_the_one_to_install(
    install, expected, monkeypatch, capsys
):
    async def probed(_: Settings) -> list[PartStatus]:
        return [PartStatus(name, ok=False, reason="no.", install=then) for name, then in install.items()]

    monkeypatch.setattr(doctor, "_probed", probed)
    assert found(capsys)["boxes"]["then"] == expected
    assert told(capsys)[-1] == f"Next: {expected} (boxes)"


@pytest.mark.parametrize(("box", "state"), [("auto", "fail"), ("gvisor", None)])
@pytest.mark.usefixtures("books")
def test_a_back_end_that_no_run_takes_by_itself_is_enough_only_where_the_settings_name_it(
    box, state, monkeypatch, capsys
):
    async def probed(_: Settings) -> list[PartStatus]:
        missing = PartStatus("bubblewrap", ok=False, reason="no.", install="get bwrap")
        return [missing, PartStatus("gvisor", ok=True, reason="it starts")]

    monkeypatch.setattr(doctor, "_probed", probed)
    monkeypatch.setenv("KAGURA_BOX", box)
    findings = found(capsys)
    assert findings.get("boxes", {}).get("state") == state
    assert findings.get("boxes", {}).get("then") in (None, "get bwrap")


@pytest.mark.usefixtures("books")
def test_where_nothing_is_missing_the_last_line_says_how_to_begin(monkeypatch, capsys):
    monkeypatch.setattr(doctor, "look", lambda *_, **__: [row("brain", "ok"), NO_DOCKER])
    monkeypatch.setenv("COLUMNS", "160")
    assert told(capsys)[-1].startswith("Next: all is ready: `kagura-kernel run ")


@pytest.mark.usefixtures("books")
@pytest.mark.parametrize("columns", [60, 80, 160])
def test_no_line_is_wider_than_the_terminal_but_for_one_long_word(columns, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", str(columns))
    lines = told(capsys)
    assert any(line.startswith("OK    shared deployment") for line in lines)
    for line in lines:
        assert len(line) <= columns or " " not in line.strip()[len("FAIL  jupyter server extension  ") :]


@pytest.mark.usefixtures("books")
def test_a_memory_that_nobody_has_used_yet_is_none_and_stays_so(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("KAGURA_MEMORY", str(tmp_path / "mine.sqlite3"))
    assert found(capsys)["memory"]["said"] == f"none yet at {tmp_path / 'mine.sqlite3'}"
    assert not (tmp_path / "mine.sqlite3").exists()


@pytest.mark.usefixtures("books")
def test_a_place_where_nothing_can_be_remembered_is_no_memory_that_is_not_there_yet(capsys, monkeypatch):
    monkeypatch.setenv("KAGURA_MEMORY", "notes.sqlite3")
    row = found(capsys)["memory"]
    assert row["state"] == "fail"
    assert "absolute" in row["said"]


@pytest.mark.usefixtures("books")
def test_a_memory_is_counted(capsys, monkeypatch, tmp_path):
    file = tmp_path / "mine.sqlite3"
    with SqliteMemory(file) as memory:
        memory.remember(Draft("Builds need cmake.", Source(Author.AGENT)))
    monkeypatch.setenv("KAGURA_MEMORY", str(file))
    assert found(capsys)["memory"]["said"] == f"{file}: 1 remembered, 1 of them in quarantine"


@pytest.mark.usefixtures("books")
def test_a_memory_that_cannot_be_read_needs_somebody(capsys, monkeypatch, tmp_path):
    file = tmp_path / "mine.sqlite3"
    file.write_text("no database " * 20)
    monkeypatch.setenv("KAGURA_MEMORY", str(file))
    row = found(capsys)["memory"]
    assert row["state"] == "fail"
    assert "no SQLite database" in row["said"]
