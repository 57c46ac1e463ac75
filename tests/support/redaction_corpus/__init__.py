"""A corpus for redaction: secrets in the places where they are found, and texts that only look like secrets.

Half of its templates, and a quarter of its kinds of token, are the hold-out: no rule may be made with them at hand.
The templates are `training.yaml` and `held_out.yaml`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from tests.support.redaction_corpus.making import contexts, look_alikes, tokens
from tests.support.redaction_corpus.sample import Half, LookAlike, Planted, Template


def _template(written: str | dict[Any, str]) -> Template:
    if isinstance(written, str):
        return Template(written)
    ((form, text),) = written.items()
    return Template(text, form)


def _read(name: str) -> tuple[list[Template], dict[str, list[Template]], dict[str, list[Template]]]:
    """Carriers of tokens, and by their kinds contexts and look-alikes."""
    half = yaml.safe_load(Path(__file__).with_name(name).read_text("utf-8"))
    carriers = [_template(one) for one in half["carriers"]]
    planted, harmless = (
        {kind: [_template(one) for one in written] for kind, written in half[part].items()}
        for part in ("contexts", "look-alikes")
    )
    return carriers, planted, harmless


_CARRIERS, _CONTEXTS, _LOOK_ALIKES = _read("training.yaml")
_CARRIERS_HELD_OUT, _CONTEXTS_HELD_OUT, _LOOK_ALIKES_HELD_OUT = _read("held_out.yaml")

SECRETS: tuple[Planted, ...] = (
    *tokens("training", _CARRIERS),
    *contexts("training", _CONTEXTS),
    *tokens("hold-out", _CARRIERS_HELD_OUT),
    *contexts("hold-out", _CONTEXTS_HELD_OUT),
)
"""Every text with a secret in it."""

LOOK_ALIKES: tuple[LookAlike, ...] = (
    *look_alikes("training", _LOOK_ALIKES),
    *look_alikes("hold-out", _LOOK_ALIKES_HELD_OUT),
)
"""Every text that has to come out as it is."""

__all__ = ["LOOK_ALIKES", "SECRETS", "Half", "LookAlike", "Planted"]
