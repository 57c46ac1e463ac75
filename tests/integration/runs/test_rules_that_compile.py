"""A new data directory: the rules of redaction take seconds to compile, and only what could hold a secret waits."""

import asyncio
import threading

import pytest

from kagura_kernel.domain.policy import SandboxPolicy
from kagura_kernel.kit.redaction import engine, known_rules
from kagura_kernel.kit.redaction.redactor import Redactor
from kagura_kernel.sandbox.backend import BoxSpec
from kagura_kernel.testing.false_home import compiled_rules
from kagura_kernel.testing.patience import eventually
from tests.support.plugins import FakePlugins
from tests.support.repositories import new_repository

PASSWORD = "Tr4il&mix9"
LINE = f"the password is {PASSWORD}"
HIDDEN = f"''.join(map(chr, {tuple(map(ord, LINE))}))"
PRINTS, WRITES = f"print({HIDDEN})", f"open('a.txt', 'w').write({HIDDEN})"
"""Cells whose code could hold no secret, while what they leave does."""


class Rules:
    """Rules that are compiled when the test says so, or when its patience ends: it fails then, and does not hang."""

    def __init__(self) -> None:
        self.compiled = threading.Event()
        self.error: Exception | None = None
        self._patience = threading.Timer(30, self.compiled.set)

    def begin(self) -> None:
        self._patience.start()

    def end(self) -> None:
        self._patience.cancel()
        self.compiled.set()

    def scanner(self, _folder: object) -> object:
        self.compiled.wait()
        if self.error is not None:
            raise self.error
        return known_rules.scanner(compiled_rules())


@pytest.fixture
def rules(monkeypatch):
    made = Rules()
    monkeypatch.setattr(engine, "scanner", made.scanner)
    made.begin()
    yield made
    made.end()


@pytest.fixture
def waits(monkeypatch):
    """Set when somebody waits for the rules, in a thread of its own."""
    begun, wait = threading.Event(), Redactor.wait

    def noting(redactor: Redactor) -> None:
        begun.set()
        wait(redactor)

    monkeypatch.setattr(Redactor, "wait", noting)
    return begun


@pytest.mark.usefixtures("rules")
@pytest.mark.parametrize("more", [{}, {"outputs": ("x",)}])
async def test_a_cell_that_could_hold_no_secret_does_not_wait(runs, project, more):
    new_repository(project)
    redactor, spec = Redactor(), BoxSpec(workspace=project, policy=SandboxPolicy(own_subpaths=(".git",)))
    ended = await runs.cell(FakePlugins(), 'x = 5\nprint("hello")', redactor=redactor, spec=spec, **more)
    assert (ended.outcome.status, ended.outcome.text) == ("done", "hello\n")
    assert not redactor.ready


@pytest.mark.parametrize("code", [PRINTS, WRITES], ids=["prints", "writes"])
async def test_what_could_hold_one_waits_beside_the_loop(runs, rules, waits, code):
    redactor = Redactor()
    cell = asyncio.create_task(runs.cell(FakePlugins(), code, redactor=redactor))
    await eventually(lambda: waits.is_set() or rules.compiled.is_set())
    assert not cell.done()
    assert not rules.compiled.is_set(), "the loop stood still"
    rules.compiled.set()
    ended = await cell
    assert ended.outcome.status == "done"
    assert PASSWORD not in repr((ended.outcome, ended.events))
    assert "[REDACTED:password]" in repr((ended.outcome, ended.events))


async def test_where_the_rules_cannot_be_had_only_what_could_hold_no_secret_is_shown(runs, rules):
    rules.error = OSError("no rules")
    rules.compiled.set()
    harmless = await runs.cell(FakePlugins(), 'print("hello")', redactor=Redactor())
    assert (harmless.outcome.status, harmless.outcome.text) == ("done", "hello\n")
    other = await runs.cell(FakePlugins(), PRINTS, redactor=Redactor())
    assert (other.outcome.status, other.outcome.error_code) == ("failed", "ERR_REDACTION")
    assert PASSWORD not in repr((other.outcome, other.events))
