"""The facts of a run. Each is yielded by the run, stored as a row of the journal, and shown by a view of the rows.

Events are frozen and carry plain data only. Adding a field with a default is compatible; renaming one is not: rows
live for years. `Streamed` events are for live displays alone: what they say is said again, whole, by a durable one.
"""

from __future__ import annotations

import json
import re
from functools import cache
from typing import TYPE_CHECKING, Annotated, get_args

from pydantic import Field

from kagura_kernel.domain.events.base import (
    Event as Event,
    Streamed as Streamed,
)
from kagura_kernel.domain.events.kit import (
    KitStaged as KitStaged,
    PluginAudited as PluginAudited,
    PluginCalled as PluginCalled,
    PluginChanged as PluginChanged,
    PluginSeen as PluginSeen,
    ToolsetEnded as ToolsetEnded,
    ToolsetStarted as ToolsetStarted,
)
from kagura_kernel.domain.events.membrane import (
    EgressClosed as EgressClosed,
    EgressDecided as EgressDecided,
    EgressEnd as EgressEnd,
    LeaseChange as LeaseChange,
    LeaseChanged as LeaseChanged,
    LeaseUsed as LeaseUsed,
    ModelCalled as ModelCalled,
    MountRow as MountRow,
    RunGranted as RunGranted,
)
from kagura_kernel.domain.events.memory import (
    ChildEnded as ChildEnded,
    ChildStarted as ChildStarted,
    MemoriesSeen as MemoriesSeen,
    MemoriesShown as MemoriesShown,
    MemoryChanged as MemoryChanged,
    MemoryWritten as MemoryWritten,
    RunCheckpointed as RunCheckpointed,
    RunPlanned as RunPlanned,
    RunResumed as RunResumed,
    RunVerified as RunVerified,
    TrustChanged as TrustChanged,
)
from kagura_kernel.domain.events.run import (
    ApprovalDecided as ApprovalDecided,
    ApprovalRequested as ApprovalRequested,
    BoxClosed as BoxClosed,
    BoxKept as BoxKept,
    BoxStarted as BoxStarted,
    BrainSigned as BrainSigned,
    ChangesCollected as ChangesCollected,
    ChangesSettled as ChangesSettled,
    CommitsTold as CommitsTold,
    ImageSent as ImageSent,
    MessageRefused as MessageRefused,
    NotebookMoved as NotebookMoved,
    NotebookShown as NotebookShown,
    Noted as Noted,
    OutputStreamed as OutputStreamed,
    PersonHeard as PersonHeard,
    PersonSaid as PersonSaid,
    PlanLeft as PlanLeft,
    ResultShown as ResultShown,
    RunFinished as RunFinished,
    RunStarted as RunStarted,
    TextStreamed as TextStreamed,
    TextWritten as TextWritten,
    ToolCalled as ToolCalled,
    ToolFinished as ToolFinished,
    TurnCounted as TurnCounted,
    VariableCrossed as VariableCrossed,
)

if TYPE_CHECKING:
    from pydantic import TypeAdapter


AnyEvent = Annotated[
    RunStarted
    | RunGranted
    | BoxStarted
    | BoxKept
    | BoxClosed
    | TextStreamed
    | BrainSigned
    | TextWritten
    | ToolCalled
    | OutputStreamed
    | ToolFinished
    | ResultShown
    | NotebookShown
    | NotebookMoved
    | PlanLeft
    | ImageSent
    | VariableCrossed
    | ApprovalRequested
    | ApprovalDecided
    | PersonSaid
    | PersonHeard
    | MessageRefused
    | EgressDecided
    | EgressClosed
    | LeaseChanged
    | LeaseUsed
    | ModelCalled
    | KitStaged
    | ToolsetStarted
    | ToolsetEnded
    | PluginSeen
    | PluginAudited
    | PluginChanged
    | PluginCalled
    | TurnCounted
    | ChangesCollected
    | ChangesSettled
    | CommitsTold
    | MemoriesSeen
    | MemoriesShown
    | MemoryWritten
    | MemoryChanged
    | RunPlanned
    | RunVerified
    | RunCheckpointed
    | RunResumed
    | TrustChanged
    | ChildStarted
    | ChildEnded
    | Noted
    | RunFinished,
    Field(discriminator="kind"),
]
"""One of all events, told apart by `kind`."""


@cache
def _adapter() -> TypeAdapter[AnyEvent]:
    # Building the validator of the union builds that of every event; only a reader of odd rows needs it.
    from pydantic import TypeAdapter

    return TypeAdapter(AnyEvent)


_BEGINNING = re.compile(r'{"kind":"([a-z._]+)"')


@cache
def _models() -> dict[str, type[AnyEvent]]:
    return {model.model_fields["kind"].default: model for model in get_args(get_args(AnyEvent)[0])}


def _model_of(data: str | bytes) -> type[AnyEvent] | None:
    """The event whose JSON begins so; it reads no other. None when the beginning does not tell."""
    beginning = data[:80] if isinstance(data, str) else data[:80].decode("ascii", "replace")
    found = _BEGINNING.match(beginning)
    return _models().get(found[1]) if found is not None else None


def parse_event(data: str | bytes) -> AnyEvent:
    """An event from its JSON.

    Raises:
        ValueError: the text is no event that this version knows.
    """
    try:
        model = _model_of(data)
        return _adapter().validate_json(data) if model is None else model.model_validate_json(data)
    except ValueError:
        text = data if isinstance(data, str) else data.decode("utf-8", "replace")
        if "\\ud" not in text:
            raise
        # Bytes that are no text stand in JSON as escapes of lone surrogates, which only the tolerant parser takes.
        return _adapter().validate_python(json.loads(data))
