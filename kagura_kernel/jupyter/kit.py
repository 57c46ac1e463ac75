"""Kits in a notebook: what would be staged, what is staged, and a file as a kit would hold it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from kagura_kernel.cockpit.kits import AgentPlan, NamedAgent, StagedKit, plan_lines
from kagura_kernel.domain.errors import KaguraError
from kagura_kernel.domain.kit import StagedFile
from kagura_kernel.domain.visible import visible
from kagura_kernel.jupyter.slots import Slot, card_html, write_once
from kagura_kernel.jupyter.tables import table_of
from kagura_kernel.kit.redaction.spans import Finding, RedactedFile
from kagura_kernel.render import blocks as ui
from kagura_kernel.render.html import Bundle, framed, html_of
from kagura_kernel.views import kit as views
from kagura_kernel.views.record import clean, picked


def files_table(files: Sequence[StagedFile]) -> pd.DataFrame:
    """One line for each file of a kit; `kinds` is what its redactions were of."""
    return table_of(files, "file=target bytes=size:int redactions:int kinds", kinds=lambda one: ", ".join(one.kinds))


def agents_table(agents: Sequence[NamedAgent]) -> pd.DataFrame:
    """One line for each agent that has a name; where one cannot be used, `problem` says why, NA for the others."""
    broken = any(one.problem for one in agents)
    return table_of(agents, f"agent=name from=origin description{' problem' if broken else ''}")


class PlanText:
    """The plan as the value of a cell: text to read, with the plan behind it."""

    def __init__(self, plan: AgentPlan) -> None:
        self.plan = plan  # What a run would be given

    def __repr__(self) -> str:
        return "\n".join(map(visible, plan_lines(self.plan)))


class RedactedText:
    """The value of the command."""

    def __init__(self, name: str, file: RedactedFile) -> None:
        self._name = name
        self._is_text = bool(file.encoding)
        # Without its secrets; empty for what is no text
        self.text = file.data.decode(file.encoding, "replace") if file.data is not None and file.encoding else ""
        self.findings: tuple[Finding, ...] = file.findings  # Where markers stand in it, never what was found
        self.reason = file.reason  # Why there is nothing to show, half a sentence; otherwise empty

    def __repr__(self) -> str:
        return f"{self._name}: {self.reason}" if self.reason else views.file_text(self._opened())

    def _repr_html_(self) -> str | None:
        """A card of its own; what cannot be shown is told in plain words."""
        if self.reason:
            return None
        return card_html(html_of([ui.Group(views.file_blocks(self._opened()), "body")]), "Redacted file")

    def _opened(self) -> views.OpenedFile:
        blocks = tuple((one.start, one.end, one.kind) for one in self.findings)
        size = len(self.text.encode("utf-8", "replace"))
        return views.OpenedFile(self._name, self.text, blocks, size, is_text=self._is_text)


KIT_MIME = "application/vnd.kagura.kit+json"
LABEL = "Kit"


class KitBrowser:
    """A kit to look into.

    With `live` a click can open another file than the one that is open first.

    Raises:
        KitGone: the kit is not kept any more.
        UsageError: it has no such file.
    """

    def __init__(self, kit: StagedKit, opened: str = "", *, live: bool = False) -> None:
        self.kit = kit  # What was staged
        self._there = kit.files()
        self._opened = _open(kit, opened) if opened else None
        self._live = live

    @property
    def files(self) -> pd.DataFrame:
        """One line for each file: its place, its bytes, how often and of what it was redacted."""
        return files_table(self._there)

    def read(self, place: str) -> str:
        """What is in one of its files, with markers where secrets were; empty for what is no text.

        Raises:
            KitGone: it is not kept any more.
            UsageError: it has no such file.
        """
        return self.kit.read(place).text

    def __repr__(self) -> str:
        said = views.counts(self.kit)
        lines = [f"[{views.whose(self.kit)}: {said}]" if said else f"[{views.whose(self.kit)}: nothing is staged]"]
        lines += views.staged_lines(self.kit, every_file=True)
        return "\n".join([*lines, *(["", views.file_text(self._opened)] if self._opened is not None else [])])

    def _ipython_display_(self) -> None:
        """Show it: with buttons where somebody can press them, otherwise as it stays in the notebook.

        A live card stays open: nothing in it ends.
        """
        if self._live:
            slot = Slot()
            slot.open(LABEL, repr(self), self._parts(), lambda content: self._pressed(slot, content), self._bundle())
        else:
            write_once(self._bundle())

    def _parts(self) -> dict[str, ui.Blocks]:
        return {
            "head": (views.kit_head(self.kit),),
            "files": self._files(live=True),
            "file": tuple(views.file_blocks(self._opened)) if self._there else (),
        }

    def _bundle(self) -> Bundle:
        """As it stays in the notebook."""
        sides = [ui.Group(self._files(live=False))]
        sides += [ui.Group(views.file_blocks(self._opened))] if self._opened is not None else []
        body = ui.Group(tuple(sides), "body browse" if self._opened is not None else "body")
        files = [picked(one, "size", "redactions", "kinds", place="target") for one in self._there]
        data = {
            "text/plain": repr(self),
            "text/html": framed(html_of([views.kit_head(self.kit), body]), LABEL),
            KIT_MIME: clean({"version": 1, "agent": self.kit.agent, "files": files}),
        }
        return data, {"kagura": {"digest": self.kit.digest}}

    def _files(self, *, live: bool) -> ui.Blocks:
        opened = self._opened.target if self._opened is not None else ""
        files = views.files_block(self.kit, self._there, opened, live=live)
        why = "There is no file in this kit: the box sees what it needs in its workspace."
        return (files,) if self._there else (files, ui.Line((why,), "soft"))

    def _pressed(self, slot: Slot, content: Mapping[str, Any]) -> None:
        if content.get("act") != "open":
            return
        try:
            self._opened = _open(self.kit, str(content.get("id") or ""))
        except KaguraError as error:
            # Somebody took it away meanwhile; nobody would see an exception here.
            slot.tell(error.message)
            return
        parts = self._parts()
        slot.show({key: parts[key] for key in ("files", "file")})
        # Frees the buttons, which wait for an answer.
        slot.tell("")
        slot.keep(self._bundle, at_once=True)


def _open(kit: StagedKit, place: str) -> views.OpenedFile:
    """One file as the card shows it.

    Raises:
        KitGone: it is not kept any more.
        UsageError: it has no such file.
    """
    found = kit.read(place)
    return views.OpenedFile(
        target=found.target,
        text=found.text[: views.SHOWN + 1],
        blocks=tuple((block.start, block.end, block.kind) for block in found.blocks),
        size=found.size,
        is_text=found.is_text,
        cut=found.cut,
    )
