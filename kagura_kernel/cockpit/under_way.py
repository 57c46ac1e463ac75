"""What a run has streamed and not said for good yet: for those who begin to listen in the middle."""

from __future__ import annotations

from collections import deque

from kagura_kernel.domain.events import (
    AnyEvent,
    OutputStreamed,
    RunFinished,
    TextStreamed,
    TextWritten,
    ToolCalled,
    ToolFinished,
)

KEPT_OUTPUT = 24_000
"""Characters of a call's latest output that are kept; its end says all of it."""


class UnderWay:
    """The passage that is being written, and the latest output of the calls that go on; not for several threads."""

    def __init__(self) -> None:
        self._text: list[str] = []
        self._last_text: TextStreamed | None = None
        self._outputs: dict[str, _Output] = {}

    def take(self, event: AnyEvent) -> None:
        """Take the next event of the run."""
        match event:
            case TextStreamed():
                self._text.append(event.text)
                self._last_text = event
            case TextWritten() | ToolCalled():
                self._text.clear()
            case OutputStreamed():
                self._outputs.setdefault(event.call_id, _Output()).add(event)
            case ToolFinished():
                self._outputs.pop(event.call_id, None)
            case RunFinished():
                self._text.clear()
                self._outputs.clear()
            case _:
                pass

    def events(self) -> list[AnyEvent]:
        """The same in one piece each."""
        found: list[AnyEvent] = [output.event() for output in self._outputs.values()]
        if self._text and self._last_text is not None:
            found.append(self._last_text.model_copy(update={"text": "".join(self._text)}))
        return found


class _Output:
    """The end of what a call has printed, added to at no price however much it prints."""

    def __init__(self) -> None:
        self._pieces: deque[str] = deque()
        self._length = 0
        self._last: OutputStreamed | None = None

    def add(self, event: OutputStreamed) -> None:
        self._pieces.append(event.text)
        self._length += len(event.text)
        self._last = event
        while self._length - len(self._pieces[0]) >= KEPT_OUTPUT:
            self._length -= len(self._pieces.popleft())

    def event(self) -> OutputStreamed:
        if self._last is None:
            raise RuntimeError("nothing was printed")
        return self._last.model_copy(update={"text": "".join(self._pieces)[-KEPT_OUTPUT:]})
