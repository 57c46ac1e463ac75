"""Display slots: places in a cell's output that are written again as things change.

A slot in a notebook shows a live card first and is replaced by its static form at the end. Without a person every slot
is written once, in its final state: tools that compare notebooks ignore later updates.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from kagura_kernel.jupyter.cards.record import Bundle

if TYPE_CHECKING:
    from kagura_kernel.jupyter.widgets.live_card import LiveCard, Pressed

WIDGET_MIME = "application/vnd.jupyter.widget-view+json"


class Slot:
    """One place in the output. `write` puts a finished form there; with `open` it begins as a live card."""

    def __init__(self) -> None:
        self._handle: Any = None
        self._card: LiveCard | None = None

    @property
    def live(self) -> bool:
        """Whether a live card is shown."""
        return self._card is not None

    @property
    def heard(self) -> bool:
        """Whether a front end that knows widgets has shown the live card."""
        return self._card is not None and self._card.heard

    def open(self, label: str, text: str, parts: Mapping[str, str], pressed: Pressed) -> None:
        """Show a live card.

        Args:
            label: For screen readers.
            text: For front ends without widgets.
            parts: What the card begins with.
            pressed: Told of its buttons.
        """
        from kagura_kernel.jupyter.widgets.live_card import LiveCard

        card = LiveCard(label, parts, pressed)
        bundle, metadata = _both(card)
        self._publish(({**bundle, "text/plain": text}, metadata))
        self._card = card

    def show(self, changed: Mapping[str, str]) -> None:
        """Replace parts of the live card; nothing happens when there is none."""
        if self._card is not None:
            self._card.show(changed)

    def tell(self, text: str, about: str = "") -> None:
        """A remark beside the button that was pressed in vain."""
        if self._card is not None:
            self._card.tell(text, about)

    def write(self, bundle: Bundle) -> None:
        """Put a static form there; a live card is closed."""
        self._publish(bundle)
        card, self._card = self._card, None
        if card is not None:
            card.close()

    def _publish(self, bundle: Bundle) -> None:
        data, metadata = bundle
        if self._handle is None:
            self._handle = _display(data, raw=True, metadata=metadata, display_id=True)
        else:
            self._handle.update(data, raw=True, metadata=metadata)


def write_once(bundle: Bundle) -> None:
    """Put a finished form below the cell, never to be changed."""
    data, metadata = bundle
    _display(data, raw=True, metadata=metadata)


def _display(*what: Any, **how: Any) -> Any:
    """IPython's `display`, which has no annotations."""
    from IPython.display import display

    return display(*what, **how)  # type: ignore[no-untyped-call]


def _both(card: LiveCard) -> tuple[dict[str, Any], dict[str, Any]]:
    # IPython's protocol for showing an object.
    found: Any = card._repr_mimebundle_()
    data, metadata = found if isinstance(found, tuple) else (found, {})
    return dict(data or {}), dict(metadata)
