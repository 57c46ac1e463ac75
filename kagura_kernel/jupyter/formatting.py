"""`--fmt`: variables filled into a cell, only where it says so. Without it every brace and dollar is text."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from kagura_kernel.domain.errors import UsageError

FLAG = "--fmt"

_BRACES = "A brace that is text is written {{ or }}."


def wants_fmt(line: str) -> bool:
    """Whether the options of a cell ask for it; looked at before anything in them is filled in."""
    try:
        words = shlex.split(line)
    except ValueError:
        # A quote is not closed: the reader of the options says so.
        words = line.split()
    return FLAG in words


def filled(text: str, variables: Mapping[str, Any], where: str) -> str:
    """The text with each `{expression}` replaced by its value, as IPython does it; `{{` and `}}` are braces.

    Args:
        text: The options or the lines below them.
        variables: What the expressions may name.
        where: `%%kagura` or `%%sandbox`, for errors.

    Raises:
        UsageError: an expression cannot be evaluated, or a brace stands alone.
    """
    from IPython.utils.text import FullEvalFormatter

    try:
        return str(FullEvalFormatter().vformat(text, (), dict(variables)))
    except NameError as error:
        raise UsageError(f"{where} {FLAG}: there is no variable {error.name!r} to fill in. {_BRACES}") from error
    # An expression may raise whatever it likes, and so may the value when it is written out.
    except Exception as error:
        raise UsageError(
            f"{where} {FLAG}: {type(error).__name__} in an expression between braces: {error}. {_BRACES}"
        ) from error
