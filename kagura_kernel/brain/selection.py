"""Which brain thinks, and why."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kagura_kernel.brain.openai_compatible import KNOWN, split_model
from kagura_kernel.brain.openai_compatible import NAME as COMPATIBLE
from kagura_kernel.brain.provider import BrainProvider
from kagura_kernel.domain.errors import BrainNotConfigured, UnknownName, UsageError
from kagura_kernel.domain.settings import Settings

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


def choose(
    name: str, brains: Mapping[str, BrainProvider], *, replay: BrainProvider | None = None
) -> tuple[BrainProvider, str]:
    """The brain for a run, and half a sentence that says why it is this one.

    Args:
        name: What was asked for: a name in `brains`, `replay`, or `auto` (also when empty).
        brains: What there is, the preferred first.
        replay: The player, when a cassette was given.

    Raises:
        UnknownName: there is no such brain.
        UsageError: a cassette and another brain were asked for, or `replay` without a cassette.
        BrainNotConfigured: it cannot sign in, or with `auto` none can; the text says how to get one.
    """
    asked = name or AUTO
    known = [AUTO, *brains, REPLAY]
    if asked not in known:
        raise UnknownName("brain", asked, known)
    if replay is not None:
        if asked not in (AUTO, REPLAY):
            message = f"`--replay` plays a recorded run and `--brain {asked}` thinks anew. Use one of them."
            raise UsageError(message)
        return replay, "a cassette was given"
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
