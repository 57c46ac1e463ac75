"""Writes docs/errors.md from the declarations of the errors."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from kagura_kernel.domain import errors

PAGE = Path(__file__).resolve().parents[1] / "docs" / "errors.md"

_INTRO = """# Error codes

Made by `dev/errors_page.py` from `kagura_kernel/domain/errors/`.

Every error that is foreseen has a code that stays the same across releases: it stands before the sentence in a
terminal, in the JSON of `--json` and of the [server](server.md), and is `code` of the exception in Python. The
sentence says what happened, to what, and what to do next. Errors that need no code of their own have that of their
family, such as `ERR_KIT`. Codes that only the server answers with stand in [its page](server.md#routes), those of
chats in [serving](serving.md#what-it-says).

| code | when | in Python |
|---|---|---|"""


def errors_page() -> str:
    """The page, Markdown."""
    return "\n".join([_INTRO, *_rows(), ""])


def _rows() -> Iterator[str]:
    found = {one for one in vars(errors).values() if isinstance(one, type) and issubclass(one, errors.KaguraError)}
    for one in sorted(found, key=lambda error: (error.code, error.__name__)):
        if "code" in vars(one):
            about = (one.__doc__ or "").partition("\n\n")[0].replace("\n", " ")
            yield f"| `{one.code}` | {about} | `{one.__name__}` |"


if __name__ == "__main__":
    PAGE.write_text(errors_page(), "utf-8")
    print(f"{PAGE} was written.")
