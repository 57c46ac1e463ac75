import json
from pathlib import Path

import pytest

from kagura_kernel.cli.main import main
from kagura_kernel.journal.trust import TrustHistory
from tests.support.earned_trust import earn_trust, trust_row
from tests.support.sample_run import SampleRun


def lines(capsys: pytest.CaptureFixture[str]) -> dict[str, list[str]]:
    return {line.split("  ")[0]: line.split() for line in capsys.readouterr().out.splitlines()}


def test_every_category_is_listed_with_what_it_lacks(journal, capsys):
    earn_trust(journal, successes=3)
    assert main(["graduation"]) == 0
    out = lines(capsys)
    assert out["git"][:3] == ["git", "included", "3"]
    assert " ".join(out["git"]).endswith("2 more verified successes; successes 3 days further apart")
    assert out["packages"][1] == "locked"
    assert " ".join(out["force-push"]).endswith("it never graduates")


def test_what_was_earned_is_granted_and_taken_back(journal, prints):
    earn_trust(journal)
    assert prints("graduation", "grant", "git") == "git: graduated.\n"
    assert TrustHistory(journal).look()["git"].graduated
    assert prints("graduation", "revoke", "git").startswith(
        "git is trusted no more: it is asked about every time from now on"
    )
    assert not TrustHistory(journal).look()["git"].graduated


def test_to_whom_alone_it_goes_is_told_before_it_is_granted_and_for_as_long_as_it_holds(journal, prints):
    earn_trust(journal)
    journal.append(trust_row("succeeded", journal.clock.now(), signal="exit-code", names=("https://example.org/shop",)))
    only = "(where it goes to somebody, only https://example.org/shop)"
    assert f"your word {only}: `%kagura graduation grant git`" in prints("graduation")
    prints("graduation", "grant", "git")
    assert f"nothing: it is asked about no more {only}" in prints("graduation")
    [found] = [one for one in json.loads(prints("graduation", "--json")) if one["name"] == "git"]
    assert found["names"] == ["https://example.org/shop"]


def test_what_was_never_trusted_is_not_said_to_have_lost_it(journal, capsys, prints):
    earn_trust(journal, successes=2)
    assert prints("graduation", "revoke", "git").startswith(
        "git was not trusted: it is asked about every time from now on"
    )
    assert main(["graduation"]) == 0
    assert lines(capsys)["git"][:3] == ["git", "locked", "0"]


def test_the_chart_of_a_terminal_is_made_of_characters(journal, prints):
    assert prints("graduation", "chart").startswith("No category has shown anything yet.")
    earn_trust(journal, successes=2)
    journal.append(trust_row("failed", journal.clock.now(), why="it ended with 1"))
    _, first, second, failed, needs = prints("graduation", "chart").splitlines()
    assert first.split()[2:6] == ["git", "succeeded", "1", "█"]
    assert second.split()[4:6] == ["2", "██"]
    assert failed.split()[2:6] == ["git", "failed", "0", "·"]
    assert needs.startswith("A proposal needs 5 successes.")
    assert [one["successes"] for one in json.loads(prints("graduation", "chart", "--json"))] == [1, 2, 0]


def test_what_was_not_earned_is_not_granted(journal, refuses):
    before = journal.last_seq()
    err = refuses("graduation", "grant", "packages")
    assert err.startswith(
        "ERR_UNSUPPORTED: packages cannot be trusted yet. What is missing: 5 more verified successes;"
    )
    assert journal.last_seq() == before


def test_json_holds_all_of_the_evidence(journal, prints):
    earn_trust(journal)
    journal.append(trust_row("failed", journal.clock.now(), category="packages", why="it ended with 100"))
    found = {one["name"]: one for one in json.loads(prints("graduation", "--json"))}
    assert [one["signal"] for one in found["git"]["successes"]] == ["exit-code"] * 5
    assert found["git"]["missing"] == "your word: `%kagura graduation grant git`"
    assert found["packages"]["last_failure"]["why"] == "it ended with 100"
    assert found["packages"]["needed"] == {"successes": 5, "tasks": 3, "days": 7.0}


def test_a_persons_word_about_a_run_is_evidence(journal, prints):
    run = SampleRun()
    asked = run.asked(arguments={"command": "git push", "directory": "/project"})
    for event in (run.started(flavour="agent", project=str(Path.cwd())), asked, run.decided(), run.finished()):
        journal.append(event)
    assert prints("graduation", "vouch", "last") == "run-1: evidence for git.\n"
    assert json.loads(prints("graduation", "vouch", "run-1", "--json")) == {"run": "run-1", "categories": ["git"]}
    [success] = TrustHistory(journal).look()["git"].successes
    assert (success.run_id, success.signal) == ("run-1", "human")


def test_the_settings_say_how_much_is_needed(journal, prints, monkeypatch):
    monkeypatch.setenv("KAGURA_TRUST_SUCCESSES", "2")
    earn_trust(journal)
    assert {one["needed"]["successes"] for one in json.loads(prints("graduation", "--json"))} == {2}


@pytest.mark.usefixtures("books")
def test_without_a_journal_nothing_is_trusted_and_nothing_can_be_vouched_for(prints, refuses):
    assert {one["used"] for one in json.loads(prints("graduation", "--json"))} == {0}
    assert refuses("graduation", "vouch", "run-1").startswith("ERR_USAGE: There is no journal")
