"""A person's word about a run: what it counts for, and what it cannot do."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from kagura_kernel.cockpit.trust import TrustDesk
from kagura_kernel.domain.approvals import ApprovalKind
from kagura_kernel.domain.errors import NotThisTime, RunUnknown
from kagura_kernel.domain.patterns import TrustTerms
from kagura_kernel.journal.store import Journal
from kagura_kernel.testing.clock import FakeClock
from tests.support.earned_trust import trust_row
from tests.support.sample_run import SampleRun

PUSH = {"command": "git push", "directory": "/project"}
NEW = {"credentials": ("aws:admin",), "writable_root": False}


class Books:
    """A journal with runs that are over."""

    def __init__(self, journal: Journal, clock: FakeClock) -> None:
        self.journal = journal
        self.clock = clock
        self.desk = TrustDesk(journal, TrustTerms(), clock)

    def ran(
        self,
        arguments: dict[str, Any] | None = None,
        kind: ApprovalKind = ApprovalKind.HOST_COMMAND,
        *,
        decided: dict[str, str] | None = None,
        started: dict[str, Any] | None = None,
        **finished: Any,
    ) -> str:
        """A run that asked for one thing."""
        number = len(self.journal.events(kinds=("run.started",))) + 1
        run = SampleRun(f"run-{number}", "ses-1", self.clock.now())
        asked = run.asked(f"app-{number}", arguments=arguments or PUSH, kind=kind)
        self.journal.append(run.started(**{"flavour": "agent", **(started or {})}))
        for event in (asked, run.decided(f"app-{number}", **(decided or {})), run.finished(**finished)):
            self.journal.append(event)
        return run.run_id

    def vouch(self, run_id: str) -> list[str]:
        return self.desk.vouch(run_id, by="ann", via="command")

    def successes(self, category: str = "git") -> int:
        return next(len(one.standing.successes) for one in self.desk.reports() if one.category.name == category)


@pytest.fixture
def books(tmp_path: Path) -> Iterator[Books]:
    clock = FakeClock()
    journal = Journal.open(tmp_path / "home", clock=clock)
    yield Books(journal, clock)
    journal.close()


def test_a_run_is_evidence_for_what_it_was_allowed(books):
    assert books.vouch(books.ran()) == ["git"]
    assert books.successes() == 1


def test_a_run_counts_once_however_often_one_says_so(books):
    run_id = books.ran()
    books.vouch(run_id)
    books.vouch(run_id)
    assert books.successes() == 1


async def test_words_about_old_runs_count_from_today_on(books):
    runs = []
    for number in range(5):
        runs.append(books.ran(started={"task": f"task {'x' * number}"}))
        await books.clock.advance(3 * 86400)
    for run_id in runs:
        books.vouch(run_id)
    assert books.successes() == 5
    [report] = [one for one in books.desk.reports() if one.category.name == "git"]
    assert report.missing == ("successes 7 days further apart",)


def test_a_new_credential_was_new_when_it_was_asked_for(books):
    run_id = books.ran(NEW, ApprovalKind.CREDENTIAL)
    later = SampleRun(run_id, "ses-1", books.clock.now())
    books.journal.append(later.lease(provider="aws", scope="admin"))
    assert books.vouch(run_id) == ["cloud-credentials"]
    with pytest.raises(NotThisTime, match="nothing that trust is earned for"):
        books.vouch(books.ran(NEW, ApprovalKind.CREDENTIAL))


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"status": "failed"}, "it is not done, but failed"),
        ({"untrusted": True}, "memories that nobody had promoted"),
        ({"brain": "replay"}, "it played a cassette"),
        ({"verified": False}, "its verification failed"),
        ({"started": {"lineage": ("run-0",)}}, "no run of an agent that a person has given its task"),
        ({"started": {"flavour": "sandbox"}}, "no run of an agent"),
        ({"decided": {"verdict": "deny"}}, "nothing that trust is earned for"),
        ({"decided": {"via": "graduation", "by": "policy"}}, "nothing that trust is earned for"),
        ({"arguments": {"command": "make deploy", "directory": "/project"}}, "nothing that trust is earned for"),
        ({"arguments": {"command": "git push --force", "directory": "/project"}}, "nothing that trust is earned for"),
    ],
)
def test_what_is_no_evidence_stays_none(books, changes, why):
    with pytest.raises(NotThisTime, match=why):
        books.vouch(books.ran(**changes))
    assert books.desk.curve() == []


def test_what_was_set_back_since_is_not_mended_by_words(books):
    run_id = books.ran()
    books.journal.append(trust_row("failed", books.clock.now() + timedelta(hours=1), signal="exit-code"))
    with pytest.raises(NotThisTime, match="set back since"):
        books.vouch(run_id)


def test_an_unknown_run_is_named_as_such(books):
    with pytest.raises(RunUnknown, match="run-9"):
        books.vouch("run-9")
