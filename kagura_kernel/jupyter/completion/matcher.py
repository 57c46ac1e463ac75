"""Completion and inspection of our own words: in the kagura kernel everywhere, in a Python kernel on our magics.

What can stand where is the grammar's knowledge (`kagura_kernel.cockpit.lines.completion`); here it meets IPython.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from IPython.core.interactiveshell import InteractiveShell

    from kagura_kernel.cockpit.lines.completion import Completions

IDENTIFIER = "kagura"
"""By which settings of IPython's completer name the matcher."""

# Python that has nothing of ours in it is not looked at any further.
_OURS = re.compile(r"%kagura\b|%%sandbox\b")


def reply(shell: Any, code: str, cursor: int) -> dict[str, Any]:
    """A `complete_reply` for a cell of the kagura kernel; without our words it is empty, never Python's."""
    return own_reply(shell, code, cursor) or _replied(None, cursor)


def own_reply(shell: Any, code: str, cursor: int) -> dict[str, Any] | None:
    """The same, or None where what stands at the cursor is not ours to complete."""
    found = _completions(shell, code, cursor, prompt=True)
    return None if found is None else _replied(found, cursor)


def _replied(found: Completions | None, cursor: int) -> dict[str, Any]:
    items = found.items if found is not None else ()
    start, end = (found.start, found.end) if found is not None else (cursor, cursor)
    kinds = [{"start": start, "end": end, "text": one.text, "type": one.kind, "signature": ""} for one in items]
    return {
        "status": "ok",
        "matches": [one.text for one in items],
        "cursor_start": start,
        "cursor_end": end,
        "metadata": {"_jupyter_types_experimental": kinds},
    }


def explained(shell: Any, code: str, cursor: int, *, prompt: bool) -> str | None:
    """What stands at the cursor, in words, or None where that is not ours to say."""
    from kagura_kernel.cockpit.lines.completion import explain
    from kagura_kernel.jupyter.completion.names import ShellNames

    return explain(code, cursor, ShellNames(shell), prompt=prompt)


def plug_in(shell: InteractiveShell) -> None:
    """Have IPython ask us first about our magics, on Tab and on Shift-Tab; doing it twice changes nothing."""
    completer = getattr(shell, "Completer", None)
    if completer is not None and not any(_is_ours(matcher) for matcher in completer.custom_matchers):
        completer.custom_matchers.insert(0, _matcher(shell))
    kernel = getattr(shell, "kernel", None)
    # The kagura kernel asks us by itself. Any other has no place for it but the method.
    if kernel is not None and getattr(kernel, "implementation", "") != "kagura":
        for name, ours in _REPLIES.items():
            if hasattr(kernel, name):
                vars(kernel).setdefault(name, ours(shell, getattr(kernel, name)))


def unplug(shell: InteractiveShell) -> None:
    """Take it all away."""
    kernel = getattr(shell, "kernel", None)
    if kernel is not None:
        for name in _REPLIES:
            vars(kernel).pop(name, None)
    completer = getattr(shell, "Completer", None)
    if completer is not None:
        completer.custom_matchers[:] = [matcher for matcher in completer.custom_matchers if not _is_ours(matcher)]


def _inspection(shell: Any, inherited: Callable[..., Any]) -> Callable[..., Any]:
    def do_inspect(code: str, cursor_pos: int | None, *more: Any, **options: Any) -> Any:
        cursor = len(code) if cursor_pos is None else cursor_pos
        text = explained(shell, code, cursor, prompt=False) if _OURS.search(code) else None
        if text is None:
            return inherited(code, cursor, *more, **options)
        return inspected(text)

    return do_inspect


def _completing(shell: Any, inherited: Callable[..., Any]) -> Callable[..., Any]:
    def do_complete(code: str, cursor_pos: int | None) -> Any:
        if _OURS.search(code):
            cursor = len(code) if cursor_pos is None else cursor_pos
            found = _completions(shell, code, cursor, prompt=False)
            # Where a matcher has nothing to offer, IPython offers Python's words.
            if found is not None and not found.items:
                return _replied(found, cursor)
        return inherited(code, cursor_pos)

    return do_complete


_REPLIES = {"do_complete": _completing, "do_inspect": _inspection}
"""Methods of a kernel that is not ours, and what stands before them."""


def inspected(text: str) -> dict[str, Any]:
    """An `inspect_reply` that found this."""
    return {"status": "ok", "found": True, "data": {"text/plain": text}, "metadata": {}}


def _is_ours(matcher: Any) -> bool:
    return getattr(matcher, "matcher_identifier", None) == IDENTIFIER


def _matcher(shell: InteractiveShell) -> Any:
    from IPython.core.completer import CompletionContext, SimpleCompletion, context_matcher

    @context_matcher(identifier=IDENTIFIER, priority=100)  # type: ignore[untyped-decorator]  # IPython's is untyped
    def kagura(context: CompletionContext) -> Any:
        text = context.full_text
        if not _OURS.search(text):
            return {"completions": [], "suppress": False}
        lines = text.split("\n")
        cursor = sum(len(line) + 1 for line in lines[: context.cursor_line]) + context.cursor_position
        found = _completions(shell, text, cursor, prompt=False)
        if found is None:
            return {"completions": [], "suppress": False}
        return {
            "completions": [SimpleCompletion(text=one.text, type=one.kind) for one in found.items],
            "matched_fragment": text[found.start : cursor],
            "ordered": True,
            "suppress": True,
        }

    return kagura


def _completions(shell: Any, code: str, cursor: int, *, prompt: bool) -> Completions | None:
    from kagura_kernel.cockpit.lines.completion import complete
    from kagura_kernel.jupyter.completion.names import ShellNames

    return complete(code, cursor, ShellNames(shell), prompt=prompt)
