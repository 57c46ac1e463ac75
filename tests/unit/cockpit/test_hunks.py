"""Each part of a file's difference is applied or given up by itself, and taken back."""

import random
from pathlib import Path

import pytest

from kagura_kernel.cockpit.cockpit import Cockpit
from kagura_kernel.domain.errors import ChangeConflict, NotThisTime, UnknownName, UsageError
from kagura_kernel.domain.outcome import FileChange
from kagura_kernel.membrane.changes import unified_diff
from kagura_kernel.membrane.merge import hunks_between, with_hunks
from kagura_kernel.runs.request import RunRequest
from kagura_kernel.testing.brain import Ask

OLD = "".join(f"line {number}\n" for number in range(40))
NEW = OLD.replace("line 3\n", "three\n").replace("line 20\n", "").replace("line 39\n", "line 39\nlast")
HUNKS = 3


@pytest.fixture
def run(cockpit_with, project: Path) -> tuple[Cockpit, str]:
    (project / "a.txt").write_text(OLD)

    cockpit = cockpit_with([Ask("write_file", {"path": "a.txt", "content": NEW}), "Done."])
    return cockpit, cockpit.launch(RunRequest(task="do it", project=project)).result(60).run_id


def state(run: tuple[Cockpit, str]) -> str:
    return run[0].changes(run[1])[0].state


def decide(run: tuple[Cockpit, str], act: str, *hunks: int, path: str = "a.txt", **more: str) -> None:
    run[0].changes_desk.settle(act, run[1], [path], by="ann", hunks=hunks, **more)  # type: ignore[arg-type]


def random_texts(seed: int) -> tuple[bytes, bytes]:
    """Two texts with parts in common, of all kinds of ends of lines, and with or without one at their end."""
    chance = random.Random(seed)
    ends = ["\n", "\r\n", "\r", "\x0b", "\u2028", "\n", "\n", "\n"]

    def line() -> str:
        text = chance.choice(["", "x", "same", f"é{chance.randrange(30)}", "-", "@@ -1 +1 @@", "…"])
        return text + chance.choice(ends)

    before = [line() for _ in range(chance.randrange(80))]
    after = list(before)
    for _ in range(chance.randrange(8)):
        at = chance.randrange(len(after) + 1)
        after[at : at + chance.randrange(3)] = [line() for _ in range(chance.randrange(3))]
    cut = [chance.choice([0, 1]) for _ in range(2)]
    texts = ["".join(lines) for lines in (before, after)]
    return tuple((text[: len(text) - less] if text else text).encode() for text, less in zip(texts, cut, strict=True))  # type: ignore[return-value]


@pytest.mark.parametrize("seed", range(200))
def test_all_hunks_are_the_whole_proposal_none_is_what_was_and_each_is_what_is_shown(seed):
    old, new = random_texts(seed)
    parts = hunks_between(old, new)
    every = set(range(1, len(parts) + 1))
    assert with_hunks(old, new, every) == new
    assert with_hunks(old, new, ()) == old
    # In whichever order they are taken, each is one of the numbers that the difference shows.
    chosen = {number for number in every if random.Random(f"{seed} {number}").random() < 0.5}
    half = with_hunks(old, new, chosen)
    taken = [lines for number in chosen for lines in parts[number - 1]]
    lines = sum(end_after - first_after - end + first for first, end, first_after, end_after in taken)
    assert len(half.decode().splitlines()) == len(old.decode().splitlines()) + lines
    shown = FileChange("a", "modified", diff=unified_diff("a", old, new))
    assert len(shown.hunks) == (len(parts) if len(parts) > 1 else 0)


@pytest.mark.parametrize("order", [(1, 2, 3), (3, 1, 2), (2, 3, 1)])
def test_hunks_are_applied_one_by_one_in_any_order(run, project, order):
    seen = {OLD}
    for number in order:
        assert state(run) == "proposed"
        decide(run, "apply", number)
        seen.add((project / "a.txt").read_text())
    assert (project / "a.txt").read_text() == NEW
    assert len(seen) == HUNKS + 1
    assert state(run) == "applied"
    for _ in range(HUNKS):
        decide(run, "undo")
    assert (project / "a.txt").read_text() == OLD
    assert run[0].changes(run[1])[0].open_hunks == [1, 2, 3]


def test_what_is_discarded_is_in_the_project_in_no_way(run, project):
    decide(run, "discard", 2)
    decide(run, "apply", 3)
    assert (project / "a.txt").read_text() == f"{OLD}last"
    run[0].changes_desk.apply(run[1], by="ann")
    assert (project / "a.txt").read_text() == OLD.replace("line 3\n", "three\n") + "last"
    assert state(run) == "applied"
    decide(run, "undo")
    assert (project / "a.txt").read_text() == f"{OLD}last"
    assert run[0].changes(run[1])[0].open_hunks == [1]


def test_a_file_of_which_all_is_discarded_is_discarded(run, project):
    for number in (2, 1, 3):
        decide(run, "discard", number)
    assert state(run) == "discarded"
    assert (project / "a.txt").read_text() == OLD


def test_a_part_that_is_in_the_project_stays_there_when_the_rest_is_given_up(run, project):
    decide(run, "apply", 1)
    run[0].changes_desk.discard(run[1], by="ann")
    assert state(run) == "applied"
    decide(run, "undo")
    assert (project / "a.txt").read_text() == OLD
    assert run[0].changes(run[1])[0].open_hunks == [1]


def test_each_is_recorded_with_what_was_there_and_what_is(run):
    decide(run, "apply", 1, 3)
    decide(run, "discard", 2)
    settled = [row.event for row in run[0].journal.events(run_id=run[1], kinds=("changes.settled",))]
    (written,), (discarded,) = settled[0].written, settled[1].discarded_hunks
    assert (written.hunks, discarded.numbers) == ((1, 3), (2,))
    change = run[0].changes(run[1])[0]
    assert (written.before_sha256, change.state) == (change.old_sha256, "applied")


def test_a_file_that_changed_meanwhile_is_left_alone(run, project):
    decide(run, "apply", 1)
    mine = (project / "a.txt").read_text() + "mine\n"
    (project / "a.txt").write_text(mine)
    with pytest.raises(ChangeConflict):
        decide(run, "apply", 2)
    assert (project / "a.txt").read_text() == mine
    assert state(run) == "conflict"


def test_the_mode_comes_with_the_last_hunk(cockpit_with, project):
    (project / "a.txt").write_text(OLD)
    script = [Ask("write_file", {"path": "a.txt", "content": NEW}), Ask("bash", {"command": "chmod +x a.txt"}), "Done."]
    cockpit = cockpit_with(script)
    run = cockpit, cockpit.launch(RunRequest(task="do it", project=project)).result(60).run_id
    modes = []
    for number in range(1, HUNKS + 1):
        decide(run, "apply", number)
        modes.append(bool((project / "a.txt").stat().st_mode & 0o100))
    assert modes == [False, False, True]


@pytest.mark.parametrize(
    ("hunks", "more", "error"),
    [
        ((4,), {}, UnknownName),
        ((1,), {"of": "0123456789ab"}, NotThisTime),
        ((1,), {"path": "b.txt"}, UnknownName),
    ],
)
def test_a_hunk_that_is_not_there_is_none(run, project, hunks, more, error):
    with pytest.raises(error):
        decide(run, "apply", *hunks, **more)
    assert (project / "a.txt").read_text() == OLD


def test_a_hunk_is_of_one_file(run):
    with pytest.raises(UsageError):
        run[0].changes_desk.settle("apply", run[1], None, by="ann", hunks=(1,))
