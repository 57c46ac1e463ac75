"""A brain that audits plugins as a test wants it to, honestly or not.

::

    FakeAuditor(report())                        # reports what was planted, and finds nothing
    FakeAuditor(report(riskLevel="LOW", injectionAttempts=[]))    # was talked round
    FakeAuditor("It looks fine to me.")          # no report at all
    FakeAuditor(Hang(), report())                # silent first, an honest answer when it is asked again
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable, Mapping
from pathlib import Path
from typing import Any

from kagura_kernel.assembly import services
from kagura_kernel.brain.cassette import CassetteHeader, Spoken, entry_line, header_line
from kagura_kernel.brain.provider import AuthContext, BrainCapabilities, BrainDone, BrainEvent, Turn
from kagura_kernel.plugins.audit import audit_prompt, ids_in
from kagura_kernel.plugins.manifest import Found
from kagura_kernel.plugins.scan.scanner import ScanResult
from kagura_kernel.testing.brain import FakeBrain, Hang

Answering = str | Hang | Exception | Callable[[str], str]
"""A text as it is, silence, a failure, or what makes an answer of the prompt."""


class FakeAuditor:
    """Answers one turn after the other by its script; the last answer is given again."""

    def __init__(self, *answers: Answering, name: str = "fake", usd_per_round: float | None = 0.003) -> None:
        self.turns: list[Turn] = []  # Every turn it was given, in order
        self._answers = answers or (report(),)
        self._name = name
        self._price = usd_per_round

    @property
    def name(self) -> str:
        return self._name

    def resolve_auth(self) -> AuthContext:
        """It needs no sign-in."""
        return AuthContext(ready=True, method="none needed", reason="it needs no sign-in")

    def capabilities(self) -> BrainCapabilities:
        """As `FakeBrain`."""
        return FakeBrain(usd_per_round=self._price).capabilities()

    async def run(self, turn: Turn) -> AsyncGenerator[BrainEvent, None]:
        """Give the next answer.

        Raises:
            Exception: the script says so.
        """
        answer = self._answers[min(len(self.turns), len(self._answers) - 1)]
        self.turns.append(turn)
        said = answer(turn.task) if callable(answer) else answer
        async for event in FakeBrain([said], name=self._name, usd_per_round=self._price).run(turn):
            yield event


def report(**changes: Any) -> Callable[[str], str]:
    """An honest auditor's answer: every line with an id in it is reported, and nothing else is found.

    Args:
        changes: Keys of the report that have other values; None leaves a key out.
    """

    def answer(prompt: str) -> str:
        lines = [line.partition("| ")[2].strip() for line in prompt.split("\n") if "| " in line and ids_in(line)]
        whole: Mapping[str, Any] = {
            "riskLevel": "LOW",
            "summary": "It does what it says.",
            "descriptionAccurate": True,
            "descriptionMismatch": "",
            "verdict": "approve",
            "findings": [],
            "injectionAttempts": [{"text": line, "why": "it claims an approval"} for line in lines],
            **changes,
        }
        return json.dumps({name: value for name, value in whole.items() if value is not None})

    return answer


def write_audit_cassette(path: Path, found: Found, scan: ScanResult, answer: Callable[[str], str] | None = None) -> str:
    """Write what recording such an auditor would have written; returns what it was asked."""
    prompt = audit_prompt(found, scan.findings)
    if prompt is None:
        message = f"{found.name} is too large to be audited"
        raise ValueError(message)
    said = (answer or report())(prompt.task)
    lines = [
        header_line(CassetteHeader("2026-01-01T00:00:00+00:00", "fake", "", prompt.task)),
        entry_line(Spoken(said)),
        entry_line(BrainDone(text=said, model="fake-1", turns=1)),
    ]
    path.write_text("".join(f"{line}\n" for line in lines), "utf-8")
    return prompt.task


def take_over(*answers: Answering) -> FakeAuditor:
    """Have this process's cockpit think with such a brain, and with nothing else; returns it."""
    brain = FakeAuditor(*answers)

    # What a module is made of: a test's kernel has no other way to be given a brain.
    vars(services).update(make_brains=lambda *_: {brain.name: brain})
    return brain
