"""A corpus for redaction: secrets in the places where they are found, and texts that only look like secrets.

Half of its templates, and a quarter of its kinds of token, are the hold-out: no rule may be made with them at hand.
"""

from __future__ import annotations

from tests.support.redaction_corpus import (
    carriers_held_out,
    carriers_training,
    contexts_held_out,
    contexts_training,
    look_alikes_held_out,
    look_alikes_training,
)
from tests.support.redaction_corpus.making import contexts, look_alikes, tokens
from tests.support.redaction_corpus.sample import Half, LookAlike, Planted

SECRETS: tuple[Planted, ...] = (
    *tokens("training", carriers_training.CARRIERS),
    *contexts("training", contexts_training.CONTEXTS),
    *tokens("hold-out", carriers_held_out.CARRIERS),
    *contexts("hold-out", contexts_held_out.CONTEXTS),
)
"""Every text with a secret in it."""

LOOK_ALIKES: tuple[LookAlike, ...] = (
    *look_alikes("training", look_alikes_training.LOOK_ALIKES),
    *look_alikes("hold-out", look_alikes_held_out.LOOK_ALIKES),
)
"""Every text that has to come out as it is."""

__all__ = ["LOOK_ALIKES", "SECRETS", "Half", "LookAlike", "Planted"]
