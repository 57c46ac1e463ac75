"""`kagura-kernel serve` is killed at 20 moments, or 8, while five people write: nothing is lost or done twice."""

import asyncio
import fcntl
import os
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import pytest

from kagura_kernel.assembly import make_cockpit
from kagura_kernel.journal import views
from kagura_kernel.journal.leases import LeaseLedger
from kagura_kernel.journal.owner import owner_alive
from kagura_kernel.runs.request import RunRequest
from kagura_kernel.testing.chat import Shown
from kagura_kernel.testing.conformance.load import processes_with
from kagura_kernel.testing.guards import descendants
from kagura_kernel.testing.patience import eventually
from tests.support.served import Served, ServedLife, told

pytest.importorskip("slack_bolt")

from tests.integration.serve.people import ANN, Person, ended_run, goes_on
from tests.integration.serve.town import MARK, Town, town
from tests.support.control_groups import groups_of
from tests.support.effort import EVERYTHING

pytestmark = [pytest.mark.slow, pytest.mark.real_clock, pytest.mark.timeout(900)]

KINDS = ("starting", "said", "posting", "thinking", "in the box", "asking", "on the host", "answered")
KILLS = 20 if EVERYTHING else len(KINDS)
SEED = int(os.environ.get("KAGURA_TEST_SEED", "1968"))
"""What draws the moments; another one tries others."""

MINTING = "its mint may still be on the way"


@dataclass(frozen=True)
class Moment:
    """When a process is killed: so much later than something happened for the nth time since it was started."""

    kind: str
    nth: int
    later: float


def drawn(chance: random.Random) -> list[Moment]:
    """Every kind alike often, in any order."""
    found = []
    for number in range(KILLS):
        kind = KINDS[number % len(KINDS)]
        nth, later = (0, chance.uniform(0, 2)) if kind == "starting" else (chance.randint(1, 3), chance.uniform(0, 0.3))
        found.append(Moment(kind, nth, later))
    chance.shuffle(found)
    return found


@pytest.mark.parametrize("seed", [SEED])
async def test_every_message_is_answered_once_and_nothing_is_left(seed, tmp_path):
    keepers: set[int] = set()
    async with town(tmp_path) as place, Elsewhere(place) as elsewhere:
        async with asyncio.TaskGroup() as people:
            people.create_task(elsewhere.ask())
            for person in place.people:
                people.create_task(person.live())
            for moment in drawn(random.Random(seed)):
                served = place.serve()
                await struck(place, served, moment)
                small = (
                    one for one in descendants(served.pid) if b"keeper" in one.command or b"supervisor" in one.command
                )
                keepers |= {one.pid for one in small}
                assert not served.ended(), served.said
                served.kill()
            last = place.serve_on()
            try:
                await recovered(place, last)
                await elsewhere.answered()
                for person in place.people:
                    person.over = True
            except BaseException:
                last.kill()
                raise
        last.terminate()
        await eventually(last.ended)
        assert last.code() == 0, last.said
        check_journal(place)
        check_threads(place, [*place.people, elsewhere.person])
        check_machine(place, keepers)


class Elsewhere:
    """A run of this very process in the thread of one more person: it asks, and lives through everything."""

    def __init__(self, place: Town) -> None:
        self.person = Person(place.slack, 9)  # Whose thread it is
        self._place = place
        self._cockpit = make_cockpit(place.environ)
        self._asking = asyncio.Event()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.to_thread(self._cockpit.close)

    async def ask(self) -> None:
        """Begin it, once the chat knows the thread."""
        await self.person.say()
        task = f"task-{self.person.number}-1-question"
        session = f"slack-{self.person.thread.replace(':', '-')}"
        intent = RunRequest(task=f"Please do {task}.", session=session, project=self._place.project)
        await asyncio.to_thread(self._cockpit.launch, intent)
        await eventually(self._cockpit.pending)
        self.person.sent.append(task)
        self._asking.set()

    async def answered(self) -> None:
        """Its question stands in the thread, and is answered there by the one button that it has."""
        await self._asking.wait()
        [waits] = self._cockpit.pending()
        slack, thread = self.person.server, self.person.thread

        def asking() -> list[Shown]:
            return [post for post in slack.shown(thread) if waits.id in post.text and "left" in dict(post.buttons)]

        await eventually(asking)
        [question] = asking()
        await slack.click(ANN, thread, question.post_id, dict(question.buttons)["left"])
        await eventually(lambda: len(self.person.answers()) == len(self.person.sent))


async def struck(place: Town, served: ServedLife, moment: Moment) -> None:
    """Return when it is time to kill it."""
    before = place.counts()[moment.kind]
    if moment.kind != "starting":
        await recovered(place, served)
        await eventually(lambda: served.ready() and place.counts()[moment.kind] - before >= moment.nth)
    await asyncio.sleep(moment.later)


async def recovered(place: Town, served: Served | ServedLife) -> None:
    """Return when it listens, and nothing of those before it is there, by the journal and by the machine."""
    now = f"{MARK}-{place.model.generation}-"
    await eventually(served.ready)
    await eventually(lambda: not set(processes_with(MARK)) - set(processes_with(now)))
    await eventually(lambda: all(owner_alive(row.owner) for row in views.unfinished(place.journal)))


def check_journal(place: Town) -> None:
    """Every run has an end, and every credential was given back."""
    assert views.unfinished(place.journal) == []
    assert {row.status for row in views.runs(place.journal, limit=10_000)} <= {"done", "lost"}
    assert views.approvals(place.journal, pending_only=True) == []
    assert place.books.kept == []
    assert {row.why for row in LeaseLedger(place.journal).open_rows()} <= {MINTING}
    verified = told(place.environ, place.folder, "journal", "verify")
    assert verified.returncode == 0, verified.stdout + verified.stderr


def check_threads(place: Town, people: Sequence[Person]) -> None:
    """Every message was answered once, every run's thread was told of its end, and nothing was done twice."""
    ended: Counter[str] = Counter()
    for person in people:
        posts = place.slack.shown(person.thread)
        ended.update(run for post in posts if (run := ended_run(post)))
        assert len(person.answers()) == len(person.sent), [post.text for post in posts]
        assert [post for post in posts if goes_on(post)] == []
        assert {label for post in posts for label, _ in post.buttons} <= {"Go on"}
    assert ended == Counter(row.run_id for row in views.runs(place.journal, limit=10_000))
    for deeds in (place.model.asked, place.books.used, Counter(place.side)):
        assert [deed for deed, times in deeds.items() if times > 1] == []
    assert len(ended) > KILLS


def check_machine(place: Town, keepers: set[int]) -> None:
    """No process, control group, scratch file or lock is left."""
    assert processes_with(MARK) == []
    assert groups_of(*keepers) == []
    assert list((place.folder / "tmp").iterdir()) == []
    for lock in (place.folder / "home").rglob("*.lock"):
        with lock.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
