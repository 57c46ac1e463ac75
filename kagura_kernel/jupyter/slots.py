"""Display slots: places in a cell's output that are written again as things change.

A slot in a notebook shows a live card first and is replaced by its static form at the end. Without a person every slot
is written once, in its final state: tools that compare notebooks ignore later updates.
"""

from __future__ import annotations

import contextlib
import contextvars
import json
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from kagura_kernel.domain.errors import ApprovalError, KaguraError, NotHeard
from kagura_kernel.domain.late_dataclass import dataclass
from kagura_kernel.domain.nesting import is_deeper_than
from kagura_kernel.domain.sentences import Sentence
from kagura_kernel.domain.visible import whole
from kagura_kernel.jupyter.launch import want
from kagura_kernel.jupyter.surface import client_of, person, place_of
from kagura_kernel.render.blocks import Blocks
from kagura_kernel.render.html import Bundle, bare, framed, html_of
from kagura_kernel.views.approvals import THIS_RUN
from kagura_kernel.views.head import CONVERSATION
from kagura_kernel.views.messages import ABOUT
from kagura_kernel.views.record import LIVE, LIVE_MIME

if TYPE_CHECKING:
    from kagura_kernel.cockpit.cockpit import Cockpit
    from kagura_kernel.jupyter.widgets.live_card import LiveCard, Pressed
    from kagura_kernel.jupyter.widgets.plain_card import PlainCard


KEEP_SECONDS = 2.0
"""The shortest time between two finished forms that are put beside a live card."""

DRAWN_SECONDS = 3.0
"""How long a front end may take to draw a live card before one of ipywidgets alone takes its place."""

_STYLED = "kagura_styled"
_DEEPEST = 16
_FRONT_ENDS = "kagura_front_ends"

# Of the time that passes, how much may be spent on them.
_KEEP_SHARE = 0.05


@dataclass
class _FrontEnd:
    """What is known of one page, which is one session of the kernel."""

    draws: bool | None = None  # Whether it draws our live cards; None while that is not known


class Slot:
    """One place in the output. `write` puts a finished form there; with `open` it begins as a live card.

    A live card is gone with its kernel, and a notebook is saved at any time: so a finished form can be kept beside it.
    Where the front end does not draw it, a card of ipywidgets takes its place, for as long as that is so.

    Args:
        stays: Whether it is put below its cell once more where the cell's output was cleared.
    """

    def __init__(self, *, stays: bool = False) -> None:
        self._stays = stays
        self._bears_style = _bears_style()
        self._handle: Any = None
        self._card: LiveCard | None = None
        self._plain: PlainCard | None = None
        self._front_end = _front_end()
        self._parts: dict[str, Blocks] = {}
        self._still: Bundle = ({}, {})
        self._patience: threading.Timer | None = None
        self._lock = threading.RLock()
        self._stale = False
        self._keep_again = 0.0

    @property
    def live(self) -> bool:
        """Whether a live card is shown."""
        return self._card is not None

    @property
    def heard(self) -> bool:
        """Whether a front end that knows widgets has shown the live card, in either form."""
        return any(card is not None and card.heard for card in (self._card, self._plain))

    def open(
        self,
        label: str,
        text: str,
        parts: Mapping[str, Blocks],
        pressed: Pressed,
        still: Bundle | None = None,
        run_id: str = "",
    ) -> None:
        """Show a live card, of a run if one is named.

        `text` is for front ends without widgets, `still` its finished form as of now, for whoever has the notebook's
        file alone.
        """
        from kagura_kernel.jupyter.widgets.live_card import LiveCard

        pressed = partial(_in_whole_letters, pressed)
        self._parts, self._still = dict(parts), ({"text/plain": text}, {}) if still is None else still
        self._card = card = LiveCard(label, _drawn(parts), pressed, run_id)
        card.once_heard = self._drawn_at_last
        if self._front_end is not None and self._front_end.draws is False:
            self._draw_plainly(pressed)
            return
        self._publish(_live(card, self._still))
        if self._front_end is not None and self._front_end.draws is None:
            # What is published later belongs to this cell as well.
            late = (contextvars.copy_context().run, (self._draw_plainly, pressed))
            self._patience = threading.Timer(DRAWN_SECONDS, *late)
            self._patience.daemon = True
            self._patience.start()

    def _draw_plainly(self, pressed: Pressed) -> None:
        """Put a card of ipywidgets in the place of one that was not drawn."""
        from kagura_kernel.jupyter.widgets.plain_card import PlainCard

        with self._lock:
            card = self._card
            if card is None or card.heard or self._front_end is None:
                return
            self._front_end.draws = False
            self._plain = PlainCard(self._parts, card.ages, pressed)
            self._publish(_beside(self._plain.box, self._still))

    def _drawn_at_last(self) -> None:
        """Leave it to the live card, which the front end draws after all."""
        with self._lock:
            if self._front_end is not None:
                self._front_end.draws = True
            plain, self._plain = self._plain, None
            if plain is not None and self._card is not None:
                self._publish(_live(self._card, self._still))
                plain.close()

    def show(self, changed: Mapping[str, Blocks]) -> None:
        """Replace parts of the live card; nothing happens when there is none."""
        with self._lock:
            if self._card is None:
                return
            self._stale = self._stale or bool(changed)
            self._parts |= changed
            self._card.show(_drawn(changed))
            if self._plain is not None:
                self._plain.show(changed)

    def keep(self, still: Callable[[], Bundle], *, at_once: bool = False) -> None:
        """Put the finished form as of now beside the live card, so that a notebook that is saved now can be read.

        Nothing happens while nothing has changed, and where the front end would draw the live card anew for it. To be
        called often: it happens every few seconds, unless `at_once`, and then as soon as the front end can take it.
        """
        card, began = self._card, time.monotonic()
        if card is not None and not card.hosted and at_once:
            card.once_hosted = lambda: self.keep(still, at_once=True)
        if card is None or not card.hosted or (began < self._keep_again and not at_once):
            return
        if not self._stale and not self._is_lost():
            return
        self._stale = False
        self._still = still()
        self._publish(_live(card, self._still))
        now = time.monotonic()
        # A long run takes its time to be drawn as a whole, and must not spend all of it so.
        self._keep_again = now + max(KEEP_SECONDS, (now - began) / _KEEP_SHARE)

    def tell(self, text: str, about: str = "") -> None:
        """A remark beside the button that was pressed in vain."""
        for card in (self._card, self._plain):
            if card is not None:
                card.tell(text, about)

    def ask_whether_seen(self) -> None:
        """Ask the front ends whether one of them shows the live card; `unseen_for` tells what came of it."""
        if self._card is not None:
            self._card.ask_whether_seen()

    def unseen_for(self) -> float:
        """Seconds since a front end was last known to show the live card, or since it was opened."""
        return min((card.unseen_for() for card in (self._card, self._plain) if card is not None), default=0.0)

    def write(self, bundle: Bundle) -> None:
        """Put a static form there; a live card is closed."""
        with self._lock:
            self._publish(bundle)
            cards = (self._card, self._plain)
            self._card = self._plain = None
        if self._patience is not None:
            self._patience.cancel()
        for card in cards:
            if card is not None:
                card.close()

    def _publish(self, bundle: Bundle) -> None:
        data, metadata = bundle
        data = data if self._bears_style else bare(data)
        if self._handle is None or self._is_lost():
            if self._card is not None:
                self._card.cleared = False
            self._handle = _display(data, raw=True, metadata=metadata, display_id=True)
        else:
            self._handle.update(data, raw=True, metadata=metadata)

    def _is_lost(self) -> bool:
        """Whether an output that was written anew would be seen nowhere."""
        return self._stays and self._card is not None and self._card.cleared


def _in_whole_letters(pressed: Pressed, content: Mapping[str, Any]) -> None:
    """Tell of a button with � for each half of a character, which no journal, path or terminal can hold."""
    # No button of ours sends what is nested more deeply.
    if not is_deeper_than(content, _DEEPEST):
        pressed(json.loads(whole(json.dumps(content, ensure_ascii=False))))


def _drawn(parts: Mapping[str, Blocks]) -> dict[str, str]:
    return {key: html_of(blocks) for key, blocks in parts.items()}


def _front_end() -> _FrontEnd | None:
    """What is known of the front end of the running cell; None where no kernel speaks to one."""
    from IPython.core.getipython import get_ipython

    shell = get_ipython()
    if shell is None or not (client := client_of(shell)):
        return None
    known: dict[str, _FrontEnd] = shell.__dict__.setdefault(_FRONT_ENDS, {})
    return known.setdefault(client, _FrontEnd())


def write_once(bundle: Bundle) -> None:
    """Put a finished form below the cell, never to be changed."""
    data, metadata = bundle
    _display(data if _bears_style() else bare(data), raw=True, metadata=metadata)


def card_html(inside: str, label: str) -> str:
    """A finished card as the HTML of a cell's value."""
    card = {"text/html": framed(inside, label)}
    return str((card if _bears_style() else bare(card))["text/html"])


def _bears_style() -> bool:
    """Whether the next card brings the style sheet of all cards, as one card of a notebook does.

    It weighs more than most cards. Our extension has it for JupyterLab; other pages take it from the card that does.
    When the cell of that one is run again, its first card brings it again.
    """
    from IPython.core.getipython import get_ipython

    # Colab shows each output on a page of its own.
    if (shell := get_ipython()) is None or "google.colab" in sys.modules:
        return True
    now, bearer = place_of(shell), shell.__dict__.get(_STYLED)
    bears = bearer is None or (bool(now.cell_id) and now.cell_id == bearer.cell_id and now.count != bearer.count)
    if bears:
        shell.__dict__[_STYLED] = now
    return bears


def _display(*what: Any, **how: Any) -> Any:
    """IPython's `display`, which has no annotations."""
    from IPython.display import display

    return display(*what, **how)  # type: ignore[no-untyped-call]


def _beside(card: Any, still: Bundle) -> Bundle:
    """A widget and its finished form as one output."""
    # IPython's protocol for showing an object.
    found: Any = card._repr_mimebundle_()
    live, live_metadata = found if isinstance(found, tuple) else (found, {})
    data, metadata = still
    return {**(live or {}), **data}, {**live_metadata, **metadata}


def _live(card: LiveCard, still: Bundle) -> Bundle:
    """A live card of ours and its finished form as one output, with a mark for our extension."""
    data, metadata = _beside(card, still)
    return {LIVE_MIME: LIVE, **data}, metadata


Tell = Callable[[str, str], None]
"""Takes a remark and the approval or lease it is about (or nothing)."""


@contextlib.contextmanager
def told(tell: Tell, ident: str) -> Iterator[None]:
    """Tell what cannot be done instead of raising it: beside the approval where it is about that."""
    try:
        yield
    except ApprovalError as error:
        tell(error.message, ident)
    except KaguraError as error:
        tell(error.message, "")


def press(cockpit: Cockpit, run_id: str, content: Mapping[str, Any], tell: Tell) -> None:
    """Act on a button of a run card.

    May be called from any thread: it touches nothing but the cockpit. What cannot be done is told, not raised; nobody
    would see an exception in a widget's callback.
    """
    act, ident = content.get("act"), str(content.get("id") or "")
    answer = str(content.get("answer") or "")
    with told(tell, ident):
        match act:
            case "allow" | "answer" | "deny":
                cockpit.decide(ident, allow=act != "deny", by=person(), via="cell", answer=answer)
            case "allow-all" | "deny-all":
                _decide_all(cockpit, run_id, content, allow=act == "allow-all")
            case "abort":
                cockpit.abort(ident, by=person(), via="cell")
            case "stop":
                cockpit.kill(run_id, by=person())
            case "instead":
                want(cockpit, run_id, answer)
            case "anew":
                cockpit.begin_anew()
                tell("The next cell begins another conversation.", CONVERSATION)
            case "go-back":
                cockpit.go_back()
                tell("The next cell goes on with the conversation before.", CONVERSATION)
            case "say":
                aside(lambda: _say(cockpit, run_id, answer, tell))
            case "revoke" | "extend":
                press_lease(cockpit, content, tell)
            case _:
                tell(f"This card has no button {act!r}.", "")


def _say(cockpit: Cockpit, run_id: str, text: str, tell: Tell) -> None:
    try:
        cockpit.say(run_id, Sentence(text, person(), "cell"))
        tell("", ABOUT)
    except NotHeard:
        # The card has it as a line of its own, with what can be done.
        tell("", ABOUT)
    except KaguraError as error:
        tell(error.message, ABOUT)


def press_lease(cockpit: Cockpit, content: Mapping[str, Any], tell: Tell) -> None:
    """Act on a button of a lease's row; what cannot be done is told beside it."""
    act, lease_id = content.get("act"), str(content.get("id") or "")
    try:
        if act == "revoke":
            cockpit.revoke_lease(lease_id, by=person())
        elif act == "extend":
            cockpit.extend_lease(lease_id, by=person())
            # The question appears in the run's card; the row stays as it is, and its buttons with it.
            tell("", lease_id)
    except KaguraError as error:
        tell(error.message, lease_id)


def _decide_all(cockpit: Cockpit, run_id: str, content: Mapping[str, Any], *, allow: bool) -> None:
    """One word for several questions of the run: those that the person saw, as far as they still wait.

    Yes to all is for the network alone, and for the run alone, whatever the front end sends.
    """
    seen = content.get("ids")
    wanted = {str(ident) for ident in seen} if isinstance(seen, list) else set()
    for request in cockpit.pending():
        if request.run_id != run_id or request.id not in wanted or (allow and request.kind != "network"):
            continue
        # Somebody else, or the deadline, may be faster with one of them; its line says so.
        with contextlib.suppress(ApprovalError):
            cockpit.decide(request.id, allow=allow, by=person(), via="cell", answer=THIS_RUN if allow else "")


def aside(work: Callable[[], None]) -> None:
    """Do something that may take a while, so that the caller's loop goes on."""
    threading.Thread(target=work, name="kagura card", daemon=True).start()
