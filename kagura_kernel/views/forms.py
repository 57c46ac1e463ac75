"""Forms for what a person has not chosen yet, in the place of the run that waits for it: a model, a folder.

What services on this machine say of themselves is text of theirs. A key is typed into a field of the page, and is in no
form, live or saved.
"""

from __future__ import annotations

from collections.abc import Sequence

from kagura_kernel.domain.late_dataclass import dataclass
from kagura_kernel.render import blocks as ui
from kagura_kernel.render.html import Bundle, drawn

MODEL_LABEL, FOLDER_LABEL = "Choose a model", "Choose a folder"

HERE, CLAUDE, SERVICE, FOLDER = "here", "claude", "service", "folder"
"""Parts of the forms, each with fields and buttons of its own."""

INSTALL, INSTALL_CLAUDE = "install", "install-claude"
"""What the buttons do that install what services or Claude need."""

NOT_NOW = "not-now"
"""What the button does that ends a form without a choice."""

WITHOUT = (
    "`%%sandbox` on a cell’s first line runs the code below it in a box, without any model.",
    "`%%kagura --replay FILE` plays a recorded run with real tools; its words come from the file.",
)


@dataclass(frozen=True, slots=True)
class ModelOffer:
    """What a person can choose from."""

    now: str = ""  # What thinks now; empty for nothing
    why: str = ""  # Why that does not do, where there is more to say than that nothing is set up
    looked_at: str = ""  # Services that are looked for on this machine
    models: Sequence[tuple[str, str]] | None = None  # Each value with its words; None while they are looked for
    library: str = ""  # What has to be typed to install what services need; empty where nothing has to
    claude: str = ""  # The same for Claude
    installing: str = ""  # Which of the two is being installed: `INSTALL` or `INSTALL_CLAUDE`
    sign_in: str = ""  # What to type in a terminal to sign in with the Claude program
    keychain: str = ""  # Why no key can be kept; empty where one can


def model_parts(offer: ModelOffer) -> dict[str, ui.Blocks]:
    """A live form, by part."""
    return {
        "head": _head("No model yet", offer.now, MODEL_LABEL, offer.why or _ASKS),
        HERE: (_here(offer),),
        CLAUDE: (_claude(offer),),
        SERVICE: (_service(offer), _without()),
    }


_NAMED = 5
"""Models that are named where they cannot be chosen yet."""

_ASKS = "This cell needs a model, and none is set up. Choose one, and the cell goes on by itself."


def folder_parts(refused: str, why: str, proposed: str) -> dict[str, ui.Blocks]:
    """A live form that asks for a project."""
    about = f"A run sees one folder, its project. {refused} cannot be it: {why}. Choose one, and the cell goes on."
    field = ui.Field(
        "Folder", "kg-choose-folder", ("Below your home directory; it is made where it is missing.",), value=proposed
    )
    use = ui.Button("Work in this folder", "use-folder", {"enter": ""}, "primary")
    inside = (
        ui.Group((field,), "form"),
        ui.Line((use, _later()), "buttons"),
        ui.Told(),
        ui.label("This kernel then works there: `open(…)` and `%run` look there too.".replace("`", "")),
    )
    return {
        "head": _head("No project yet", "", FOLDER_LABEL, about),
        FOLDER: (ui.Group(inside, "kit-part", "A folder for the project", {"block": FOLDER}),),
    }


def time_part(left: float) -> dict[str, ui.Blocks]:
    """The part of a form that says how long it waits for a button."""
    return {"time": (ui.Countdown(left, left, "then the cell ends, and nothing is run"),)}


def kept(label: str, words: str, *, chosen: bool = False) -> Bundle:
    """What stays in the notebook of a form: a line, and never what was typed."""
    pill = ui.Span("Chosen" if chosen else "Not chosen", "pill", tone="good" if chosen else "")
    return drawn((ui.Group((ui.Line((pill, ui.Span(words, "prose")), "top"),), "head"),), label), {}


def _head(state: str, now: str, name: str, about: str) -> ui.Blocks:
    pill = ui.Span(now or state, "pill", tone="good" if now else "ask", is_last_word=True)
    top = ui.Line((pill, ui.Span(name, "name")), "top")
    return (ui.Group((top, ui.Group((ui.Line((ui.Span(about, "prose"),)),), "places")), "head"),)


def _part(name: str, block: str, *inside: ui.Block) -> ui.Group:
    return ui.Group((ui.Line((name,), "part-name"), *inside, ui.Told()), "kit-part", name, {"block": block})


def _said(*words: ui.Inline) -> ui.Line:
    return ui.Line(tuple(ui.Span(one, "prose") if isinstance(one, str) else one for one in words))


def _here(offer: ModelOffer) -> ui.Group:
    name, again = "On this machine", ui.Button("Look again", "look", look="quiet")
    if offer.models is None:
        return _part(name, HERE, _said("Looking for models …"))
    if not offer.models:
        nothing = f"Nothing answers here ({offer.looked_at}). Start one of them, and look again."
        return _part(name, HERE, _said(nothing), ui.Line((again,), "buttons"))
    if offer.library:
        found = ", ".join(words for _, words in offer.models[:_NAMED])
        more = f", and {len(offer.models) - _NAMED} more" if len(offer.models) > _NAMED else ""
        return _part(name, HERE, _said(f"There are {found}{more}."), *_needs(offer))
    about = "What it is shown goes to the program on this machine that has it."
    field = ui.Field("Model", "kg-choose-model", (about,), offer.models[0][0], offer.models)
    use = ui.Button("Use this model", "use-here", {"enter": ""}, "primary")
    return _part(name, HERE, ui.Group((field,), "form"), ui.Line((use, again), "buttons"))


def _needs(offer: ModelOffer) -> tuple[ui.Block, ...]:
    return _install(offer.library, INSTALL, is_at_it=offer.installing == INSTALL)


def _install(words: str, act: str, *, is_at_it: bool) -> tuple[ui.Block, ...]:
    if is_at_it:
        return (_said("Installing what this needs … It takes a minute."),)
    button = ui.Button("Install it", act, look="primary", hint=words)
    return (_said("One more package is needed."), ui.Pre(words), ui.Line((button,), "buttons"))


def _claude(offer: ModelOffer) -> ui.Group:
    if offer.claude:
        is_at_it = offer.installing == INSTALL_CLAUDE
        return _part("Claude", CLAUDE, *_install(offer.claude, INSTALL_CLAUDE, is_at_it=is_at_it))
    sign_in = (
        _said("With your account: type this in a terminal, and sign in there."),
        _program(offer.sign_in),
        ui.Line((ui.Button("I have signed in", "signed-in"),), "buttons"),
    )
    use = ui.Button("Use this key", "use-key", {"enter": ""})
    with_key: tuple[ui.Block, ...] = (
        ui.Group((_key("Anthropic API key", "kg-choose-key", "It goes into the keychain, and nowhere else."),), "form"),
        ui.Line((use,), "buttons"),
    )
    if offer.keychain:
        with_key = (_said(_no_keychain(offer, "ANTHROPIC_API_KEY")),)
    return _part("Claude", CLAUDE, *sign_in, *with_key)


def _program(command: str) -> ui.Block:
    """What is to be typed; a long path is folded behind the program's name, and can be copied there."""
    name = command.rpartition("/")[2]
    if name == command:
        return ui.Pre(command)
    line = (ui.code(name, hint=command), ui.soft("by its whole path"))
    return ui.Fold(line, (ui.Pre(command),), "sign-in", "args")


def _service(offer: ModelOffer) -> ui.Fold:
    key = "Empty where it needs none. It goes into the keychain, and nowhere else."
    fields: tuple[ui.Block, ...] = (
        ui.Field("URL", "kg-choose-url", ("With the /v1 that most have.",), is_needed=True),
        ui.Field("Model", "kg-choose-name", ("As the service calls it.",), is_needed=True),
    )
    fields += () if offer.keychain else (_key("Key", "kg-choose-other", key),)
    use = ui.Button("Use this service", "use-service", {"enter": ""})
    without = (_said(_no_keychain(offer, "KAGURA_BRAIN_API_KEY")),) if offer.keychain else ()
    inside = _needs(offer) if offer.library else (ui.Group(fields, "form"), *without, ui.Line((use,), "buttons"))
    name = "Another service with an OpenAI-compatible API"
    return ui.Fold((name,), (ui.Group((*inside, ui.Told()), "kit-part", name, {"block": SERVICE}),), SERVICE, "args")


def _without() -> ui.Group:
    lines = tuple(_said(words) for words in WITHOUT)
    fold = ui.Fold(("Go on without a model",), lines, "without", "args")
    return ui.Group((fold, ui.Line((_later(),), "buttons"), ui.Told()), data={"block": NOT_NOW})


def _later() -> ui.Button:
    return ui.Button("Not now", NOT_NOW, look="quiet", hint="The cell ends, and nothing is run")


def _key(name: str, ident: str, about: str) -> ui.Field:
    return ui.Field(name, ident, (about,), is_secret=True)


def _no_keychain(offer: ModelOffer, variable: str) -> str:
    return (
        f"A key cannot be kept here: {offer.keychain}, and it is never written into a file. Set `{variable}` where "
        f"Jupyter is started; or for this kernel alone, in a cell: "
        f"`import getpass, os; os.environ['{variable}'] = getpass.getpass()`"
    )
