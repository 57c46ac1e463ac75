"""What a brain says and what its tools do."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from kagura_kernel.domain.events.base import Event, Streamed


class TextStreamed(Streamed):
    """A piece of the brain's answer, as it is written."""

    kind: Literal["text.streamed"] = "text.streamed"
    text: str


class TextWritten(Event):
    """One whole piece of the brain's answer, Markdown."""

    kind: Literal["text.written"] = "text.written"
    text: str


class ToolCalled(Event):
    """The brain asked for a tool; stored before the tool runs.

    Attributes:
        call_id: Unique in the run.
        tool: Name of the tool.
        arguments: As they will be used.
        offered: Whether the run offers a tool of that name; where not, the name is somebody's invention.
    """

    kind: Literal["tool.called"] = "tool.called"
    call_id: str
    tool: str
    offered: bool = False
    arguments: dict[str, Any] = Field(default_factory=dict)


class OutputStreamed(Streamed):
    """Bytes that a tool's command just printed, decoded for reading."""

    kind: Literal["output.streamed"] = "output.streamed"
    call_id: str
    stream: Literal["stdout", "stderr"]
    text: str


class ToolFinished(Event):
    """A tool answered.

    Attributes:
        call_id: The call it answers.
        tool: Name of the tool.
        text: What the brain read.
        is_error: Whether it counts as a failure.
        exit_code: Of the command behind it, if any.
        route: `sandbox` or `host`; empty if nothing ran.
        duration: Seconds.
        spill: Name of the file with the full output, if it was cut.
        offered: As of its call.
    """

    kind: Literal["tool.finished"] = "tool.finished"
    call_id: str
    tool: str
    offered: bool = False
    text: str
    is_error: bool = False
    exit_code: int | None = None
    route: str = ""
    duration: float = 0.0
    spill: str | None = None


class ResultShown(Event):
    """Something that a program in the box wants to be looked at: an image, a table, formatted text.

    It is the box's word: whoever shows it sanitises it first.

    Attributes:
        call_id: The tool call, or `cell`, whose program made it.
        mime: `text/html`, `text/markdown`, `text/plain`, `image/svg+xml`, `image/png`, `image/jpeg`, `image/gif` or
            `image/webp`.
        data: Text as it is; of raster images the bytes in base64; empty where it was too large.
        bytes: How large it was in the box.
        text: A plain form for readers that cannot show the other one; may be empty.
        note: Why it is not here whole; empty when it is.
    """

    kind: Literal["result.shown"] = "result.shown"
    call_id: str
    mime: str
    data: str = ""
    bytes: int = 0
    text: str = ""
    note: str = ""


class VariableCrossed(Event):
    """A variable was copied into the box, or out of it.

    Attributes:
        name: Its name, on both sides.
        direction: `in` or `out`.
        form: How it travelled: `frame`, `series`, `array`, `json`, `image`, `text` or `file`; empty where it could not.
        summary: What it is, for reading: a type, its shape, its columns.
        bytes: How much travelled.
        error: Why it could not cross; empty when it did.
    """

    kind: Literal["variable.crossed"] = "variable.crossed"
    name: str
    direction: Literal["in", "out"]
    form: str = ""
    summary: str = ""
    bytes: int = 0
    error: str = ""
