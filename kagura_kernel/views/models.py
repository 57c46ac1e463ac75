"""The picker of a model in a live card: what the next cells think with, and what each model costs."""

from __future__ import annotations

from collections.abc import Sequence

from kagura_kernel.render import blocks as ui

MODEL = "model"
"""How the front end and a card's buttons name it."""


def model_blocks(words: str) -> ui.Blocks:
    """The line that opens the picker."""
    hint = "For the next cells here; this run goes on with its own"
    choose = ui.Button("Choose another", "models", look="quiet small", hint=hint)
    return (_part((ui.Line((ui.strong("Model"), ui.soft(words), choose)),)),)


def picker_blocks(offered: Sequence[tuple[str, str]], current: str) -> ui.Blocks:
    """The picker, open.

    Args:
        offered: Each model with its words: its name, and what it costs.
        current: The one that is chosen now; empty where the brain chooses.
    """
    about = "For the next cells here, until the kernel ends. Prices are for a million tokens read and written."
    field = ui.Field("Model", "kg-next-model", (about,), current or offered[0][0], offered)
    use = ui.Button("Use this model", "use-model", {"enter": ""})
    return (_part((ui.Group((field,), "form"), ui.Line((use,), "buttons"))),)


def price_words(name: str, about: str, read: float | None, written: float | None, price: str) -> str:
    """A model and its price in one line; `price` says who knows it, or why nobody does."""
    name = f"{name} ({about})" if about else name
    if read is None or written is None:
        return f"{name} — {price}"
    return f"{name} — ${read:g} read, ${written:g} written"


def _part(inside: ui.Blocks) -> ui.Group:
    return ui.Group((*inside, ui.Told()), "kit", data={"block": MODEL})
