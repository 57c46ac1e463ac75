"""The protocol of a brain, and which one thinks.

A brain owns its loop: it is given a task and a way to call tools, and yields what happens until it is done. It never
runs anything itself, sees no box, no journal and no approval: all of that stands behind `Turn.call_tool`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any, Literal, Protocol

from kagura_kernel.brain.in_box import InsideBox
from kagura_kernel.brain.openai_compatible import KNOWN, NAME as COMPATIBLE, split_model
from kagura_kernel.domain.cost import Usage
from kagura_kernel.domain.errors import BrainNotConfigured, UnknownName, UsageError
from kagura_kernel.domain.images import Image
from kagura_kernel.domain.late_dataclass import dataclass, field
from kagura_kernel.domain.sentences import Sentence
from kagura_kernel.domain.settings import Settings
from kagura_kernel.domain.tools import CallTool, ToolCall, ToolResult, ToolSpec


@dataclass(frozen=True, slots=True)
class AuthContext:
    """How a brain would sign in; never the secret itself."""

    ready: bool  # Whether it can think now
    method: str  # `api key`, `sign-in`, `none needed`, …
    reason: str  # Half a sentence: what was found, or what is missing and how to get it


def no_images(_model: str) -> bool:
    """Of a brain none of whose models takes images."""
    return False


def all_images(_model: str) -> bool:
    """Of one all of whose models do."""
    return True


@dataclass(frozen=True, slots=True)
class BrainCapabilities:
    """What a brain can do beside thinking."""

    streaming: bool = True  # Whether it says things as it writes them
    resume: bool = False  # Whether it can go on with an earlier conversation
    reports_cost: bool = False  # Whether it says what it has cost
    budget: bool = False  # Whether it keeps to a budget by itself
    # Whether the model that is asked for may say where it thinks, so that a turn can do without what is configured
    by_model: bool = False
    sealed: bool = False  # Whether it thinks in the box of its run, with tools of its own; see `inside.ThinksInside`
    listens: bool = False  # Whether it takes what a person says while it works
    # Whether a model, as it is asked for, takes images with the task and in results; empty is its usual one
    images: Callable[[str], bool] = no_images
    models: tuple[str, ...] = ()  # Names that it takes for some of its models, known without asking its service


@dataclass(frozen=True, slots=True)
class Turn:
    """What a brain is given."""

    task: str  # What a person asked for
    system: str  # What it is told about its place and its tools
    tools: Sequence[ToolSpec]  # What it may call
    call_tool: CallTool  # How it calls; raises only what must end the run. May be called several times at once.
    model: str = ""  # Model asked for; empty is its own choice
    budget_usd: float | None = None  # What it may spend; None is no limit
    max_turns: int | None = None  # How often it may go round its loop; None is no limit
    resume: str = ""  # What an earlier `BrainDone.session` said, to go on from there; empty starts afresh
    inside: InsideBox | None = None  # The box, for a brain that thinks there; None for every other
    notebook: str = ""  # What stands in the notebook that it was asked from, as data; empty for nothing
    images: Sequence[Image] = ()  # What comes with the task; for a model that takes images
    # What a person says meanwhile. A brain that listens takes each at its next turn, and yields a `BrainHeard` then
    sentences: asyncio.Queue[Sentence] = field(default_factory=asyncio.Queue)

    @property
    def prompt(self) -> str:
        """What a model is sent as the person's message: the task, below what stands in the notebook."""
        return f"{self.notebook}\n\n## The task\n\n{self.task}" if self.notebook else self.task

    @property
    def over(self) -> Literal["", "budget", "turns"]:
        """The limit by which it may not even begin; empty for none. Programs would take such a limit for a mistake."""
        if self.budget_usd is not None and self.budget_usd <= 0:
            return "budget"
        return "turns" if self.max_turns is not None and self.max_turns <= 0 else ""

    async def call_at_once(self, calls: Sequence[ToolCall]) -> list[ToolResult]:
        """The results, in the order of the calls; where one raises, the others are cancelled and have ended.

        Raises:
            Exception: what the first of them raised.
        """
        tasks = [asyncio.ensure_future(self.call_tool(call)) for call in calls]
        try:
            return list(await asyncio.gather(*tasks))
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)


@dataclass(frozen=True, slots=True)
class BrainText:
    """Text, Markdown. `partial` pieces come as they are written and are followed by the whole."""

    text: str
    partial: bool = False


@dataclass(frozen=True, slots=True)
class BrainSign:
    """A sign of life while nothing is said: it thinks, or its service is asked again."""

    what: Literal["thinking", "retrying"]
    text: str = ""  # A piece of what it thinks, where the brain gives it; or why it is asked again
    attempt: int = 0  # Which one comes now
    attempts: int = 0  # How many there are at most
    seconds: float = 0.0  # Until then


@dataclass(frozen=True, slots=True)
class BrainUsage:
    """One round of the loop was paid for. Sent as soon as it is known, so that a budget can stop the run."""

    usage: Usage
    model: str = ""


@dataclass(frozen=True, slots=True)
class BrainDone:
    """The brain has finished; always the last event."""

    text: str = ""  # The final answer
    session: str = ""  # For `Turn.resume`; empty when it cannot resume
    reported_usd: float | None = None  # What it says it cost; None if it does not say
    usage: Usage = field(default_factory=Usage)  # All tokens
    model: str = ""  # The model that answered
    turns: int = 0  # How often it went round
    stopped: Literal["", "budget", "turns"] = ""  # Why it ended early: `budget`, `turns`, or empty


@dataclass(frozen=True, slots=True)
class BrainSession:
    """What the brain needs to go on from here, as soon as it is known: for `Turn.resume` of a later turn."""

    session: str


@dataclass(frozen=True, slots=True)
class BrainHeard:
    """The brain has taken up what a person said; in a cassette, what was said when it was recorded."""

    text: str
    id: str = ""  # The sentence's; empty where it is a cassette's


@dataclass(frozen=True, slots=True)
class BrainToolCalled:
    """A brain that thinks in its box uses a tool of its own there; on the box's word, and bounded."""

    id: str  # Ours
    name: str
    arguments: Mapping[str, Any]  # As it tells them
    known: bool = False  # Whether its program was given a tool of that name


@dataclass(frozen=True, slots=True)
class BrainToolFinished:
    """What came of it, likewise; `id`, `name` and `known` as it was called."""

    id: str
    name: str
    text: str
    is_error: bool = False
    known: bool = False
    images: tuple[Image, ...] = ()  # What its model was shown beside the text


BrainEvent = (
    BrainText | BrainSign | BrainUsage | BrainSession | BrainHeard | BrainDone | BrainToolCalled | BrainToolFinished
)
"""What a brain yields. Calls of our tools do not appear: they go through `Turn.call_tool`, which records them."""


class BrainProvider(Protocol):
    """Something that thinks."""

    @property
    def name(self) -> str:
        """`claude`, `replay`, …; what `--brain` takes."""
        ...

    def resolve_auth(self) -> AuthContext:
        """How it would sign in; quick, without network, never raises."""
        ...

    def capabilities(self) -> BrainCapabilities:
        """What it can do."""
        ...

    def run(self, turn: Turn) -> AsyncIterator[BrainEvent]:
        """Think until done. Cancelling, or closing the iterator, ends its program and all its children.

        Raises:
            BrainNotConfigured: it cannot sign in.
            BrainRefused: its service said no.
            BrainLost: its program ended in the middle.
        """
        ...


AUTO = "auto"
REPLAY = "replay"
CLAUDE, SEALED = "claude", "sealed"

_WAYS = (
    "No brain is configured ({found}). Four ways to get one: `kagura-kernel setup brain` in a terminal walks you "
    "through it; sign in once with `claude` there, and your Claude account is used; set ANTHROPIC_API_KEY (with "
    "ANTHROPIC_BASE_URL for a gateway) before you start; name a model behind an OpenAI-compatible API, "
    "KAGURA_ENDPOINT=ollama and KAGURA_MODEL=NAME, say. No model is needed to play a recorded run with real tools, "
    "`--replay FILE`, and for a notebook’s `%%sandbox` cells."
)


def choose(name: str, brains: Mapping[str, BrainProvider]) -> tuple[BrainProvider, str]:
    """The brain for a run, and half a sentence that says why it is this one.

    Args:
        name: What was asked for: a name in `brains`, `replay`, or `auto` (also when empty).
        brains: What there is, the preferred first.

    Raises:
        UnknownName: there is no such brain.
        UsageError: `replay` was asked for, which is made of a cassette.
        BrainNotConfigured: it cannot sign in, or with `auto` none can; the text says how to get one.
    """
    asked = name or AUTO
    known = [AUTO, *brains, REPLAY]
    if asked not in known:
        raise UnknownName("brain", asked, known)
    if asked == REPLAY:
        message = "The replay brain plays a recorded run: say which with `--replay FILE`."
        raise UsageError(message)
    if asked == AUTO:
        return _first_ready(brains)
    auth = brains[asked].resolve_auth()
    if not auth.ready and not auth.method and brains[asked].capabilities().by_model:
        return brains[asked], "asked for, and its model says where"
    if not auth.ready:
        message = f"The {asked} brain cannot think: {auth.reason}."
        raise BrainNotConfigured(message)
    return brains[asked], f"asked for, {auth.reason}"


def usual_model(settings: Settings, brain: str, choose_auto: Callable[[], str]) -> str:
    """The model of the settings, where a brain is the one that it was set for; empty where it is another's.

    It was set for the brain that the settings name. Where they name none, it was for a service if they name one, with
    the model or beside it, and otherwise for whichever is taken then.

    Args:
        settings: The user's.
        brain: Name of the brain that is to think.
        choose_auto: Name of the one that `auto` takes; raises `BrainNotConfigured`.
    """
    meant = settings.brain
    if split_model(settings.model, [*settings.endpoints, *KNOWN])[0] or (meant == AUTO and settings.endpoint):
        meant = COMPATIBLE
    elif settings.model and meant == AUTO:
        try:
            meant = choose_auto()
        except BrainNotConfigured:
            return ""
    # The sealed one is the same program, with the same service.
    same = meant == brain or {meant, brain} == {CLAUDE, SEALED}
    return settings.model if same else ""


def _first_ready(brains: Mapping[str, BrainProvider]) -> tuple[BrainProvider, str]:
    found = []
    for name, brain in brains.items():
        if brain.capabilities().sealed:
            continue  # thinks where a run's own tools act; only a person decides that
        auth = brain.resolve_auth()
        if auth.ready:
            return brain, auth.reason
        found.append(f"{name}: {auth.reason}")
    raise BrainNotConfigured(_WAYS.format(found="; ".join(found) or "there is no brain to choose from"))
