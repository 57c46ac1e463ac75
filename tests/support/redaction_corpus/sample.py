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
    """A text with slots.

    Attributes:
        text: `⟦maker⟧` is a planted secret, `⟪maker⟫` something made up that is none.
        form: What it parses as.
    """

    text: str
    form: Form = ""


@dataclass(frozen=True, slots=True)
class Planted:
    """A text in which a secret is planted.

    Attributes:
        kind: Of secret: `github-classic`, `prose-german`, …
        template: Its place in the corpus, `training/tokens/7`; the same for all that have the same carrier.
        half: Which half it belongs to.
        text: With the secret.
        pieces: The secret as it stands in the text: one piece, or several where it is split or has several lines.
        form: What the text parses as.
    """

    kind: str
    template: str
    half: Half
    text: str
    pieces: tuple[str, ...]
    form: Form = ""


@dataclass(frozen=True, slots=True)
class LookAlike:
    """A text without any secret that has something which looks like one.

    Attributes:
        kind: `git-hash`, `lock-file`, …
        half: Which half it belongs to.
        text: Has to come out as it is.
        form: What it parses as.
    """

    kind: str
    half: Half
    text: str
    form: Form = ""
