"""A cockpit with an auditor and jails of the test's own, and the outputs that a cell would have."""

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kagura_kernel.cockpit.cockpit import Cockpit
from kagura_kernel.cockpit.plugin_talk import AuditPlugin, EnablePlugin, PluginTalk
from kagura_kernel.jupyter import plugin_card, slots
from kagura_kernel.jupyter.plugin_card import follow_talk
from kagura_kernel.jupyter.surface import Surface
from kagura_kernel.testing.box import FakeBackend
from kagura_kernel.testing.cockpit import fake_cockpit
from kagura_kernel.testing.patience import eventually
from tests.support.auditor import FakeAuditor
from tests.support.plugin_rig import SOURCE, FakeJails, write_plugin

FIELDS = """\
SCHEMA = {
    "base_dir": {"type": "string", "description": "Where it reads"},
    "most": {"type": "number", "description": "How many at most", "promptKey": True, "default": 5, "minimum": 1},
    "hidden": {"type": "boolean", "description": "Dotfiles too", "promptKey": True, "default": False},
    "names": {"type": "array", "description": "Which ones", "promptKey": True, "default": []},
}


def create_host_functions(config):
    return {MODULE: {"greet": lambda name: config["base_dir"] + name}}
"""


class Cell:
    """A cell that audits or enables, and what it has shown."""

    def __init__(self, cockpit: Cockpit, jails: FakeJails, project: Path, outputs: list[Any], cards: list[Any]) -> None:
        self.cockpit = cockpit
        self.jails = jails
        self.project = project
        self.outputs = outputs
        self._cards = cards
        self.talk: PluginTalk | None = None

    def enable(self, *words: str, surface: Surface = Surface.NOTEBOOK, **more: Any) -> asyncio.Task[Any]:
        """Begin `plugin enable greeter`; the cell goes on."""
        intent = EnablePlugin(name="greeter", by="ada", words=words, headless=surface in _STILL, **more)
        self.talk = self.cockpit.plugins.enable(intent)
        return asyncio.create_task(follow_talk(self.cockpit, self.talk, surface))

    def audit(self, surface: Surface = Surface.NOTEBOOK, **more: Any) -> asyncio.Task[Any]:
        """Begin `plugin audit greeter`."""
        self.talk = self.cockpit.plugins.audit(
            AuditPlugin(name="greeter", by="ada", headless=surface in _STILL, **more)
        )
        return asyncio.create_task(follow_talk(self.cockpit, self.talk, surface))

    @property
    def card(self) -> Any:
        return self._cards[-1]

    @property
    def parts(self) -> dict[str, str]:
        """What the live card shows, by part."""
        return dict(self.card._now) if self._cards else {}

    @property
    def told(self) -> list[str]:
        """What was said beside a button that did nothing."""
        return self.card.told

    def press(self, act: str, answer: str = "", **content: Any) -> None:
        """Press a button as the card's script would."""
        ident = content.pop("id", None) or self.ident
        self.card._hear(None, {"act": act, "id": ident, "answer": answer, **content}, [])

    @property
    def ident(self) -> str:
        """Of the question that is open."""
        return self.parts.get("form", "").partition('data-approval="')[2].partition('"')[0]

    async def asked(self) -> None:
        """Wait until the question is shown."""
        await eventually(lambda: bool(self.ident))

    @property
    def final(self) -> dict[str, Any]:
        """The data of the last output."""
        return dict(self.outputs[-1][0])


_STILL = {Surface.HEADLESS, Surface.INSIDE}


class _Handle:
    def __init__(self, published: list[Any]) -> None:
        self._published = published

    def update(self, data: Any, **how: Any) -> None:
        self._published.append((data, how["metadata"]))


@pytest.fixture
def cell(tmp_path: Path, project: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Cell]]:
    """Makes a cell in a project with the plugin `greeter`; `answers` are the auditor's."""
    made: list[Cockpit] = []
    monkeypatch.chdir(project)
    outputs: list[Any] = []
    cards: list[Any] = []

    def display(data: Any, **how: Any) -> _Handle:
        outputs.append((data, how["metadata"]))
        return _Handle(outputs)

    monkeypatch.setattr(slots, "_display", display)
    monkeypatch.setattr(plugin_card, "person", lambda: "ada")
    _watch_cards(monkeypatch, cards)

    def make(*answers: Any, source: str = SOURCE, **keys: Any) -> Cell:
        jails = FakeJails()
        brain = FakeAuditor(*answers)
        cockpit = fake_cockpit(tmp_path / "home", backend=FakeBackend(), brains=[brain], start_jail=jails)
        made.append(cockpit)
        write_plugin(project / "plugins", "greeter", source=source, **keys)
        return Cell(cockpit, jails, project, outputs, cards)

    yield make
    for cockpit in made:
        cockpit.close()


def _watch_cards(monkeypatch: pytest.MonkeyPatch, cards: list[Any]) -> None:
    from kagura_kernel.jupyter.widgets.live_card import LiveCard

    make, tell = LiveCard.__init__, LiveCard.tell

    def made(card: Any, *given: Any, **more: Any) -> None:
        make(card, *given, **more)
        card.told = []
        cards.append(card)

    def told(card: Any, text: str, about: str = "") -> None:
        card.told.append(text)
        tell(card, text, about)

    monkeypatch.setattr(LiveCard, "__init__", made)
    monkeypatch.setattr(LiveCard, "tell", told)


@pytest.fixture
def fields() -> str:
    """A source whose plugin has something to ask of every type."""
    return FIELDS
