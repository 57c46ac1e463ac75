"""The head of a run's card: state, brain, box, what it was given, what crossed, time, tokens, money, sign of life."""

from __future__ import annotations

from kagura_kernel.domain.events import BoxStarted, RunGranted, VariableCrossed
from kagura_kernel.domain.visible import shown_word
from kagura_kernel.render import blocks as ui
from kagura_kernel.render.escape import one_line
from kagura_kernel.render.figures import clock_face, seconds, tokens, whole_cost
from kagura_kernel.views import parts
from kagura_kernel.views.parts import image_words
from kagura_kernel.views.run import RunView
from kagura_kernel.views.status import TONES, ended_badly, status_of, status_words

_SHOWN = 12
_WHO = {"settings": "allowed by your settings", "this session": "allowed earlier in this session"}
_SUMMARY, _WHY = 80, 300
_WAYS = {"in": "into the box", "out": "out of the box"}


CONVERSATION = "conversation"
"""How the front end and a card's buttons name its line about that."""


def head_blocks(view: RunView, *, live: bool) -> ui.Blocks:
    """The head. A live one ticks and has a Stop button while the run goes on."""
    going = live and view.finished is None and view.started is not None
    stop: ui.Words = ()
    if going:
        stop = (ui.Button("Stop", "stop", {}, "quiet", hint="Stop the run and everything it started"),)
    # The front end announces the end once; a region that speaks by itself would do so at every figure beside it.
    ended = live and view.finished is not None
    tone = "bad" if ended_badly(view) else TONES.get(status_of(view), "bad")
    pill = ui.Span(status_words(view), "pill", tone=tone, is_last_word=ended)
    top = ui.Line((pill, ui.Span(_name(view), "name"), figures(view, live=live), *stop), "top", plain=head_line(view))
    places = _places(view, live=live)
    return (ui.Group((top, *([ui.Group(places, "places")] if places else [])), "head"),)


def head_line(view: RunView) -> str:
    """What it is and how it stands, where one line is all there is."""
    who = f"{view.started.brain} run" if view.started is not None and view.agent else "sandbox run"
    if view.started is not None and view.auditing:
        who = f"plugin audit by {view.started.brain}" if view.started.brain else "plugin audit"
    return f"[{who}: {status_words(view).lower()}]"


def box_line(view: RunView) -> str:
    """What it is and where it works, once there is a box, where one line is all there is."""
    box = view.box
    where = "" if box is None else f" {box.backend}, {box.isolation} isolation{_stays(box)}: {box.reason}"
    return f"{head_line(view)}{where}"


def figures(view: RunView, *, live: bool) -> ui.Span:
    """Tokens, money and time, set so that they do not jump as they grow."""
    shown: list[ui.Inline] = []
    if used := view.input_tokens + view.output_tokens:
        detail = f"{view.input_tokens:,} tokens read, {view.output_tokens:,} written"
        shown.append(ui.item(f"{tokens(used)} tokens", hint=detail))
    if cost := whole_cost(view.usd, view.children, view.children_usd):
        shown.append(ui.item(cost, hint="Cost in USD"))
    # At the edge: it is there from the beginning, and stays where it is when the others come.
    if live and view.finished is None and view.started is not None and view.now is not None:
        elapsed = max(0.0, (view.now - view.started.at).total_seconds())
        shown.append(ui.Clock(elapsed, "elapsed", clock_face(elapsed)))
    elif view.finished is not None and not view.repeatable:
        shown.append(ui.item(seconds(view.finished.duration), hint="Duration"))
    return ui.Span(tuple(shown), look="figures")


def box_notes(view: RunView, *, here: bool) -> list[str]:
    """What is to be known of the box. Elsewhere only that there is none, and what answers the cell's own words."""
    asked_for = view.granted.image if view.granted is not None else ""
    box = view.box
    if box is None:
        return []
    if box.fallback:
        return [f"There is no box here ({box.fallback.rstrip('.')}): each command runs on this machine if you allow it"]
    there_is_none = box.isolation == "none"
    return [note for note in box.notes if here or there_is_none or (asked_for and asked_for in note)]


def _name(view: RunView) -> ui.Words:
    if view.started is None:
        return ("Run",)
    if not view.agent:
        return ("Sandbox",)
    if view.auditing and not view.started.brain:
        return ("Plugin audit",)
    model = (view.finished.model if view.finished else "") or view.started.model
    return (view.started.brain, *([ui.soft(model)] if model else []))


def _places(view: RunView, *, live: bool) -> ui.Blocks:
    """The lines below: where the thinking and the doing take place, why there, what it was given and what crossed.

    The saved card of a run that can be repeated leaves the box's reason out: it is this machine's, and the card has to
    come out the same on another one. The reason stands in the output's metadata.
    """
    here = live or not view.repeatable
    parts: list[ui.Block] = []
    if view.agent and view.started is not None and view.started.brain_reason:
        parts.append(ui.Line((ui.strong("Brain"), view.started.brain_reason), plain=""))
    if view.started is not None and view.started.plans_only:
        parts.append(ui.Line((ui.strong("Mode"), "it only plans, and changes nothing until you say so"), plain=""))
    parts += _conversation(view, here=here, live=live)
    if view.box is not None:
        why = view.box.reason.removeprefix(f"{view.box.backend}: ")
        where = f"{' '.join(filter(None, [view.box.backend, view.box.image]))}, {view.box.isolation} isolation"
        where += _stays(view.box)
        parts.append(ui.Line((ui.strong("Box"), where, *([f"— {why}"] if here and why else [])), plain=""))
        is_told = view.box.isolation == "none"
        parts += [
            ui.Line((note,), "caution", plain=f"! {note}" if is_told else "") for note in box_notes(view, here=here)
        ]
    elif view.finished is None and not view.auditing:
        parts.append(ui.Line((ui.strong("Box"), "starting …"), plain=""))
    return (*parts, *granted_blocks(view, here=here), *variables_blocks(view), *images_blocks(view))


def _conversation(view: RunView, *, here: bool, live: bool) -> ui.Blocks:
    """Whether it goes on with a conversation, and while the run does, a button for the other."""
    began = view.started
    is_live = live and view.finished is None
    # Of a new one the saved card says nothing: its cell does.
    if not here or began is None or not (began.follows or (began.left and is_live)):
        return ()
    what, act, word, hint = "a new one", "go-back", "Go on with the one before", "The next cell does"
    if began.follows:
        what = "goes on" if began.follows_count is None else f"goes on from [{began.follows_count}]"
        act, word, hint = "anew", "Begin another one", "The next cell does, as `--new` has it"
    button = ui.Button(word, act, look="quiet small", hint=hint)
    more = (button,) if is_live else (ui.soft("—"), ui.code("--new"), ui.soft("begins another one"))
    line = ui.Line((ui.strong("Conversation"), what, *more), plain="")
    return (ui.Group((line, ui.Told()), data={"block": CONVERSATION}),) if is_live else (line,)


def _stays(box: BoxStarted) -> str:
    """Whose box it goes on with, and whether it stays for others; nothing of an ordinary one."""
    if not box.stays:
        return ""
    before = "the cell before" if box.goes_on_count is None else f"[{box.goes_on_count}]"
    goes_on = f"goes on with the box of {before}" if box.goes_on else "a new box"
    why = f" ({box.instead.rstrip('.')})" if box.instead else ""
    return f", {goes_on}{why}, which stays for the next cell with `--keep`"


def images_blocks(view: RunView) -> ui.Blocks:
    """The images that came with the task, on one quiet line."""
    told = "; ".join(map(image_words, view.images))
    return (
        (ui.Line((ui.strong("Seen by the model"), told), "vars", plain=f"= seen by the model: {told}"),) if told else ()
    )


def granted_blocks(view: RunView, *, here: bool) -> ui.Blocks:
    """What it was given beyond an ordinary run, on one quiet line; nothing for an ordinary one.

    Paths of this machine and names of people are told `here` alone: a card that has to come out the same elsewhere has
    none.
    """
    granted = view.granted
    if granted is None or not granted.beyond:
        return ()
    words: list[ui.Inline] = []
    for name, what in granted_parts(granted, here=here):
        words += [ui.strong(name), what]
    if not words:
        return ()
    words += [f"— {_WHO.get(granted.by, f'allowed by {granted.by}')}"] if here and granted.by else []
    plain = "\n".join(f"{name.lower()}: {what}" for name, what in granted_parts(granted, here=False))
    return (ui.Line(tuple(words), "grant", plain=plain),)


def granted_parts(granted: RunGranted, *, here: bool) -> list[tuple[str, str]]:
    """`May reach`, `May hold`, `Sees`, `May change`, each with what; only those that there are."""
    sees = [
        f"{mount.source if here else mount.target}{' (read only)' if mount.mode == 'read' else ''}"
        for mount in granted.mounts
        if mount.target != "/workspace"
    ]
    parts = [
        ("May reach", [shown_word(word) for word in granted.egress if word != "ask"]),
        ("May hold", list(granted.credentials)),
        ("Sees", sees),
        ("May change", ["its whole system, which is gone with the box"] if granted.writable_root else []),
    ]
    return [
        (name, ", ".join(found[:_SHOWN]) + (f" and {len(found) - _SHOWN:,} more" if len(found) > _SHOWN else ""))
        for name, found in parts
        if found
    ]


def variables_blocks(view: RunView) -> ui.Blocks:
    """Variables that crossed the wall: one quiet line, and one that is not quiet for each that could not."""
    words: list[ui.Inline] = []
    told: list[str] = []
    for direction in _WAYS:
        found = [one for one in view.variables.values() if one.direction == direction and not one.error]
        if not found:
            continue
        words.append(ui.strong(direction.capitalize()))
        names: list[str] = []
        for number, one in enumerate(found):
            about = f"({summary})" if (summary := one_line(one.summary, _SUMMARY)) else ""
            words += [ui.code(one.name), f"{about}{'' if number + 1 == len(found) else ','}"]
            names.append(f"{one.name} {about}".rstrip())
        told.append(f"= {direction}: {', '.join(names)}")
    quiet = [ui.Line(tuple(words), "vars", plain="\n".join(told))] if words else []
    return (*quiet, *(_trouble(one) for one in view.variables.values() if one.error))


def _trouble(one: VariableCrossed) -> ui.Line:
    why = one_line(one.error, _WHY)
    words = (ui.code(one.name), f"did not come {_WAYS[one.direction]}:", ui.Span(why, "prose"))
    return ui.Line(words, "caution", plain=f"! {one.direction}: {one.name}: {why}")


def sign_blocks(view: RunView, *, live: bool) -> ui.Blocks:
    """What a live card says while nothing else on it moves: `Thinking 0:12`.

    Nothing while a text grows, a call goes on, or a person is asked.
    """
    if not live or not view.agent or view.started is None or view.finished is not None or _moves(view):
        return ()
    sign, now = view.sign, view.now or view.started.at
    elapsed = max(0.0, (now - (view.quiet_since or view.started.at)).total_seconds())
    clock = ui.Clock(elapsed, "elapsed", clock_face(elapsed))
    if sign is not None and sign.what == "retrying":
        again = f"attempt {sign.attempt:,} of {sign.attempts:,}, next in {sign.seconds:.0f} s"
        line: ui.Words = (ui.soft(f"The model’s service: {sign.text}; {again}"),)
    elif view.box is None:
        line = (ui.soft("Getting the box ready"), clock)
    else:
        line = (ui.soft("Thinking" if sign is not None else "Waiting for the model"), clock)
    told = ui.Fold(line, (ui.Pre(view.thoughts),), "thoughts") if view.thoughts else ui.Line(line)
    return (ui.Group((told,), "kit"),)


def _moves(view: RunView) -> bool:
    last = view.items[-1] if view.items else None
    grows = isinstance(last, parts.Passage) and last.growing
    works = any(call.finished is None for call in view.calls) or view.hands_on
    return grows or works or bool(view.pending)
