"""What the notebook about resuming needs: an office with sales figures, an agent whose connection breaks off, and Ada.

The agent is a script, so that the notebook needs no model. It remembers nothing from one run to the next, as a model
does whose conversation is lost: what it is not told, it does again. Boxes, host commands and journal are the real ones.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path

from kagura_kernel import assembly
from kagura_kernel.brain.provider import (
    AuthContext,
    BrainCapabilities,
    BrainDone,
    BrainEvent,
    BrainText,
    BrainUsage,
    Turn,
)
from kagura_kernel.domain.approvals import ApprovalKind, ApprovalRequest
from kagura_kernel.domain.cost import Usage
from kagura_kernel.domain.errors import BrainLost
from kagura_kernel.domain.identity import new_call_id
from kagura_kernel.domain.tools import ToolCall
from kagura_kernel.testing.false_home import share_rules
from tests.support.story import Calendar, Person, stage

MODEL = "claude-sonnet-4-5"
"""Whose price list the rounds of the story are counted by."""

FINISHED_BEFORE = 2
"""How many steps are finished when the connection breaks off."""

ANNOUNCE = """\
#!/bin/bash
# announce.sh MONTH: tells everybody in the office, which nobody can take back
echo "The report for $1 is on its way." >> ../announced.txt
"""

_folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
"""Where all of it lies, until the notebook's kernel ends."""


class Agent:
    """The brain of the story: its connection breaks off once, after the second step.

    Attributes:
        told: What it was told at the start of its last run.
    """

    name = "scripted"

    def __init__(self, calendar: Calendar) -> None:
        """It thinks in the story's time."""
        self.told = ""
        self._calendar = calendar
        self._broken = False

    def resolve_auth(self) -> AuthContext:
        """It needs none."""
        return AuthContext(ready=True, method="none needed", reason="it is a script")

    def capabilities(self) -> BrainCapabilities:
        """It tells what it used, and cannot go on with an earlier conversation."""
        return BrainCapabilities()

    async def run(self, turn: Turn) -> AsyncGenerator[BrainEvent, None]:
        """Make the report, from the beginning."""
        self.told, said, rounds = turn.system, "", 0
        for what in reporting():
            self._calendar.go_on(20)
            if isinstance(what, str):
                said = what
                yield BrainText(what)
                continue
            if rounds == FINISHED_BEFORE and not self._broken:
                self._broken = True
                raise BrainLost(self.name, "its connection broke off")
            rounds += 1
            yield BrainUsage(Usage(input_tokens=9_000, output_tokens=500), MODEL)
            await turn.call_tool(ToolCall(new_call_id(), "bash", what))
        yield BrainDone(text=said, model=MODEL, turns=rounds)


def reporting() -> Iterator[str | dict[str, object]]:
    """What the agent says and which commands it runs."""
    yield "I look which region did best."
    yield {"command": "sort -t, -k2 -n sales.csv | tail -n 1 > best.txt; cat best.txt"}
    yield {"command": "bash announce.sh March", "host": True, "reason": "Everybody waits for the report."}
    yield {"command": 'echo "Best in March: $(cut -d, -f1 best.txt)" > report.txt; cat report.txt'}
    yield "The report is in `report.txt`."


def answer(request: ApprovalRequest) -> str | None:
    """What Ada says: yes to what is announced."""
    return "" if request.kind is ApprovalKind.HOST_COMMAND else None


def begin() -> tuple[Person, Agent]:
    """Make the project, go there, and let this notebook be Ada's, on the first of June."""
    home = Path(_folder.name)
    # Whatever kagura knows of this machine's user stays out of the story.
    for name in [name for name in os.environ if name.startswith("KAGURA_") and name != "KAGURA_BOX"]:
        del os.environ[name]
    os.environ |= {"HOME": str(home), "KAGURA_HOME": str(home / "data"), "KAGURA_CONFIG": str(home / "config.toml")}
    share_rules(home / "data")
    project = home / "office"
    project.mkdir()
    os.chdir(project)
    Path("sales.csv").write_text("North,120\nSouth,340\nWest,95\n")
    Path("announce.sh").write_text(ANNOUNCE)
    calendar, ada = Calendar(), Person("ada", answer)
    agent = Agent(calendar)
    stage(agent, ada, calendar)
    return ada, agent


def restart() -> None:
    """What this process knew of its runs is gone, as after a restart of the notebook's kernel."""
    assembly.close_cockpit()


def announced() -> str:
    """What the office was told so far."""
    return Path("../announced.txt").read_text()


def record_of(agent: Agent) -> str:
    """What it was told of the run before, without the ids, which differ every time."""
    return re.sub(r"\b(run|call)[-_][0-9A-Za-z]+", r"\1-…", agent.told[agent.told.index("### Finished steps") :])
