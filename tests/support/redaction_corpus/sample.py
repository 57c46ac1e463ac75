"""What the corpus is made of: texts with secrets planted in them, and texts that only look like it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Half = Literal["training", "hold-out"]
"""Which half a text belongs to. Rules may be made with the training half at hand, never with the other one."""

Form = Literal["", "json", "yaml", "toml", "env", "ipynb", "ini", "xml"]
"""What a text parses as, before and after it is redacted; empty where nothing parses it."""


@dataclass(frozen=True, slots=True)
class Template:
    """A text with slots."""

    text: str  # `⟦maker⟧` is a planted secret, `⟪maker⟫` something made up that is none
    form: Form = ""  # What it parses as


@dataclass(frozen=True, slots=True)
class Planted:
    """A text in which a secret is planted."""

    kind: str  # Of secret: `github-classic`, `prose-german`, …
    template: str  # Its place in the corpus, `training/tokens/7`; the same for all that have the same carrier
    half: Half  # Which half it belongs to
    text: str  # With the secret
    # The secret as it stands in the text: one piece, or several where it is split or has several lines
    pieces: tuple[str, ...]
    form: Form = ""  # What the text parses as


@dataclass(frozen=True, slots=True)
class LookAlike:
    """A text without any secret that has something which looks like one."""

    kind: str  # `git-hash`, `lock-file`, …
    half: Half  # Which half it belongs to
    text: str  # Has to come out as it is
    form: Form = ""  # What it parses as
