"""How soon a server of chats hears a person while it is busy, and what it costs while nobody says anything."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from kagura_kernel.cockpit.chat_server import REST_SECONDS
from kagura_kernel.domain.approvals import ApprovalRequest, Verdict
from kagura_kernel.journal import views
from kagura_kernel.journal.mailbox import Mailbox
from kagura_kernel.journal.store import Journal
from kagura_kernel.testing.patience import eventually
from tests.bench.harness import WARM_UP, Bench, Bound, Line, Missing, milliseconds

if TYPE_CHECKING:
    from tests.integration.serve.shop import Shop
    from tests.support.slack_server import SlackServer

SESSIONS = 50
LOUD = "box: while :; do seq 2000; sleep 0.02; done"
RESTING = 10.0
SOON = Bound("≤ 200 ms", 200)


async def heard_by_a_busy_server(bench: Bench) -> list[Line]:
    """Five runs print without end meanwhile."""
    async with _place(bench, "heard") as (place, slack):
        from tests.integration.serve.shop import ANN

        with place.serving() as server:
            await server.says("Serving slack.")
            journal = Journal.open(Path(place.environ["KAGURA_HOME"]))
            try:
                for _ in range(5):
                    await slack.say(ANN, LOUD)
                await eventually(lambda: len(views.unfinished(journal)) == 5)
                mailbox = Mailbox(journal)

                async def asking() -> tuple[ApprovalRequest, str]:
                    thread = await slack.say(ANN, "host: true")
                    await eventually(mailbox.pending)
                    return mailbox.pending()[0], thread

                async def ended(run_id: str) -> None:
                    while any(row.run_id == run_id for row in views.unfinished(journal)):  # noqa: ASYNC110 - a table
                        await asyncio.sleep(0.002)

                async def allowed() -> float:
                    request, _ = await asking()
                    began = time.perf_counter()
                    await asyncio.to_thread(
                        mailbox.decide, request.id, Verdict.ALLOW, by="bench", via="terminal", in_time=True
                    )
                    while not journal.events(run_id=request.run_id, kinds=("approval.decided",)):  # noqa: ASYNC110 - a table
                        await asyncio.sleep(0.002)
                    took = time.perf_counter() - began
                    await ended(request.run_id)
                    return took

                async def killed() -> float:
                    request, _ = await asking()
                    began = time.perf_counter()
                    await asyncio.to_thread(mailbox.send, request.run_id, "kill", by="bench")
                    await ended(request.run_id)
                    return time.perf_counter() - began

                async def stopped() -> float:
                    request, thread = await asking()
                    began = time.perf_counter()
                    saying = asyncio.ensure_future(slack.say(ANN, "stop", thread=thread))
                    await ended(request.run_id)
                    took = time.perf_counter() - began
                    await saying
                    return took

                return [
                    await _line(bench, "an approval by another process to the run's going on", allowed),
                    await _line(bench, "`kill` by another process to the run's end", killed),
                    await _line(bench, "the word stop in Slack to the run's end", stopped),
                ]
            finally:
                journal.close()


async def server_at_rest(bench: Bench) -> list[Line]:
    """It knows of fifty sessions, of which each has run something."""
    async with _place(bench, "rest") as (place, slack):
        from tests.integration.serve.shop import ANN, posted

        with place.serving() as server:
            await server.says("Serving slack.")
            for _ in range(SESSIONS // 5):
                for thread in [await slack.say(ANN, "Hello?") for _ in range(5)]:
                    await posted(slack, thread, "Done")
            await asyncio.sleep(REST_SECONDS + RESTING)
            after = _memory(server.process.pid)
            await server.ends()
        with place.serving() as server:
            await server.says("Serving slack.")
            await asyncio.sleep(RESTING)
            began = _cpu(server.process.pid)
            await asyncio.sleep(RESTING)
            share = 100 * (_cpu(server.process.pid) - began) / RESTING
            fresh = _memory(server.process.pid)
            await server.ends()
    known = f"`serve` with {SESSIONS} idle sessions"
    return [
        Line(f"{known}: memory", figure=fresh, unit="MiB", bound=Bound("≤ 150 MB", 150), samples=1),
        Line(f"{known}, all run by itself with pydantic_ai: memory", figure=after, unit="MiB", samples=1),
        Line(f"{known}: time of one core", figure=share, unit="%", bound=Bound("≤ 1 %", 1), samples=1),
    ]


@asynccontextmanager
async def _place(bench: Bench, name: str) -> AsyncIterator[tuple[Shop, SlackServer]]:
    if find_spec("slack_bolt") is None:
        raise Missing("there is no slack_bolt")
    from tests.integration.serve.shop import shop
    from tests.support.slack_server import APP_TOKEN, BOT_TOKEN, SlackServer

    folder = bench.folder / f"serving-{name}"
    folder.mkdir()
    async with SlackServer() as slack, shop(folder, folder / "home") as place:
        place.with_slack(slack.api, BOT_TOKEN, APP_TOKEN)
        yield place, slack


async def _line(bench: Bench, what: str, measure: Callable[[], Awaitable[float]]) -> Line:
    samples = max(3, bench.samples // 2)
    figures = [await measure() for _ in range(WARM_UP + samples)][WARM_UP:]
    return Line(f"{what}, five runs printing", figure=milliseconds(median(figures)), bound=SOON, samples=samples)


def _memory(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise Missing("the system does not tell it")


def _cpu(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
