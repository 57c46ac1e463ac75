"""The live card of an audit or an enabling in a notebook: its buttons, its form, and the finished form at the end."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from kagura_kernel.cockpit.plugin_talk import PluginAsked, PluginTalk
from kagura_kernel.domain.errors import KaguraError, PluginNotConfigured
from kagura_kernel.jupyter.answers import press
from kagura_kernel.jupyter.cards.audit import LABEL, audit_parts
from kagura_kernel.jupyter.cards.audit_form import title_words
from kagura_kernel.jupyter.cards.audit_record import audit_bundle, card_text
from kagura_kernel.jupyter.cards.audit_view import AuditView
from kagura_kernel.jupyter.live_run import WIDGET_SECONDS
from kagura_kernel.jupyter.slots import Slot, write_once
from kagura_kernel.jupyter.surface import person

if TYPE_CHECKING:
    from kagura_kernel.cockpit.cockpit import Cockpit
    from kagura_kernel.cockpit.plugin_talk import PluginQuestion

VIA = "cell"


class LiveAudit:
    """A live card, replaced by its static form."""

    def __init__(self, cockpit: Cockpit, talk: PluginTalk) -> None:
        self._cockpit = cockpit
        self._talk = talk
        self._slot = Slot()
        self._view: AuditView | None = None
        self._opened = 0.0
        self._asked_at: float | None = None
        self._waited = False
        self._told = False

    def refresh(self, view: AuditView) -> None:
        """Send the parts that changed."""
        self._view = view
        if view.waiting and self._asked_at is None:
            self._asked_at = time.monotonic()
        if not self._slot.live:
            self._slot.open(
                LABEL, card_text(view), audit_parts(view, left=self._left(view)), self._pressed, audit_bundle(view)
            )
            self._opened = time.monotonic()
            return
        self._slot.show(audit_parts(view, left=self._left(view)))
        waits = view.waiting or bool(view.asks)
        # What a person is asked, and what they say, is in the file at once.
        self._slot.keep(lambda: audit_bundle(view), at_once=waits != self._waited)
        self._waited = waits
        self._tell_in_words(view)

    def finish(self, view: AuditView) -> None:
        """Replace the card."""
        self._view = view
        # Those who listen hear of the end from the live card.
        self._slot.show(audit_parts(view, left=0))
        self._slot.write(audit_bundle(view))

    def _left(self, view: AuditView) -> float:
        if view.form is None or self._asked_at is None:
            return 0.0
        return max(0.0, view.form.deadline - (time.monotonic() - self._asked_at))

    def _tell_in_words(self, view: AuditView) -> None:
        """A front end without widgets shows no buttons: say how to answer without them."""
        if self._told or not view.waiting or self._slot.heard or time.monotonic() - self._opened < WIDGET_SECONDS:
            return
        self._told = True
        name = view.subject.name if view.subject is not None else "NAME"
        how = f"Interrupt the cell, and give the values in the command: %kagura plugin enable {name} FIELD=VALUE."
        if view.form is not None and (ident := view.form.approval_id):
            how = f"In another kernel: %kagura approve {ident}, or %kagura deny {ident}."
        write_once(({"text/plain": f"? {title_words(view)}?\n  No buttons here? {how}"}, {}))

    # ------------------------------------------------------------------ buttons

    def _pressed(self, content: Mapping[str, Any]) -> None:
        view, act = self._view, content.get("act")
        if view is None:
            return
        if act == "stop":
            self._talk.kill(person())
        elif view.form is not None and content.get("id") == view.form.ident:
            self._answer(view, view.form.ident, content)
        elif (handle := self._talk.handle) is not None:
            press(self._cockpit, handle.run_id, content, self._slot.tell)

    def _answer(self, view: AuditView, ident: str, content: Mapping[str, Any]) -> None:
        question = next(step.question for step in self._talk.steps if isinstance(step, PluginAsked))
        choice, answers = content.get("answer"), _answers(content, question)
        if choice not in question.choices:
            self._slot.tell("This card has no such button.", ident)
            return
        try:
            question.answer(choice, answers, by=person(), via=VIA)
        except PluginNotConfigured as error:
            view.wrong(question.problems(answers))
            self._slot.show(audit_parts(view, left=self._left(view)))
            need = "field above needs" if len(error.missing) == 1 else "fields above need"
            self._slot.tell(f"Not sent: {len(error.missing)} {need} another value.", ident)
        except KaguraError as error:
            self._slot.tell(error.message, ident)
        else:
            if not question.approval_id:
                view.answered_here(refused=choice == question.choices[-1])


def _answers(content: Mapping[str, Any], question: PluginQuestion) -> dict[str, str]:
    """What was typed, for the fields that there are."""
    typed = content.get("fields")
    given = typed if isinstance(typed, dict) else {}
    return {field.name: str(given.get(field.name, "")) for field in question.fields}
