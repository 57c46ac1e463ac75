"""What a waiting approval offers: its buttons, and the same choices as keys in a terminal."""

from __future__ import annotations

from kagura_kernel.domain.events import ApprovalRequested
from kagura_kernel.render.escape import escaped

THIS_CALL = "this call"
THIS_RUN = "this run"
THIS_SESSION = "this session"
NEVER = "never"
"""Options that questions offer; membrane and toolsets ask with the same words. `never` is a denial."""

_WITHOUT_OPTIONS = {"launch": "Allow", "credential": "Allow", "plan": "Begin", "trust": "Trust it"}
_NO = {"plan": "Cancel", "trust": "Not now"}


def allowing(request: ApprovalRequested) -> list[str]:
    """The options that allow."""
    return [option for option in request.options if option != NEVER]


def chooses(request: ApprovalRequested) -> bool:
    """Whether it is no free question and offers more than a plain yes."""
    return request.subject != "question" and bool(request.options)


def buttons_html(request: ApprovalRequested, *, brief: bool = False) -> str:
    """The buttons of one approval, and the line where it is said why one did nothing."""
    ident = f'data-id="{escaped(request.approval_id)}"'
    stop = f'<button type="button" class="kg-btn kg-quiet" data-act="abort" {ident}>Stop the run</button>'
    if request.subject == "question":
        shown = _question(request, ident, stop)
    elif request.options:
        shown = _options(request, ident, "" if brief else stop, brief=brief)
    else:
        word = _WITHOUT_OPTIONS.get(request.subject, "Allow once")
        no = _NO.get(request.subject, "Deny")
        enter = " data-enter" if request.subject == "plan" else ""
        shown = (
            f'{_budget(request)}<button type="button" class="kg-btn kg-primary" data-act="allow"{enter} {ident}>'
            f"{word}</button> {_with_lessons(request, ident)}"
            f'<button type="button" class="kg-btn" data-act="deny" {ident}>{no}</button> '
            f'<span class="kg-spring"></span>{stop}'
        )
    return f'<div class="kg-buttons">{shown}</div><div class="kg-told" role="status"></div>'


def keys(request: ApprovalRequested) -> tuple[str, dict[str, dict[str, str]]]:
    """For a terminal: what is offered, and what each typed word beside a no means."""
    shown: list[str] = []
    words: dict[str, dict[str, str]] = {}
    # A plain yes is the least that is offered.
    known = {THIS_CALL: "y", THIS_RUN: "r" if THIS_CALL in request.options else "y", THIS_SESSION: "s"}
    for option in allowing(request):
        act = {"act": "allow", "answer": option}
        key = known.get(option, option)
        shown.append(f"[{key}] {option}")
        words |= {key: act, option: act}
        if key == "y":
            words["yes"] = act
    shown.append("[n] no")
    if NEVER in request.options:
        shown.append(f"[{NEVER}]")
        words[NEVER] = {"act": "deny", "answer": NEVER}
    return ", ".join(shown), words


def _options(request: ApprovalRequested, ident: str, stop: str, *, brief: bool) -> str:
    small = " kg-small" if brief else ""

    # Several that look alike: each says by its name what it is about.
    def named(word: str) -> str:
        return f' aria-label="{escaped(word)}: {escaped(request.title)}"' if brief else ""

    shown = []
    for number, option in enumerate(allowing(request)):
        word = f"Allow for {option}" if option in {THIS_CALL, THIS_RUN, THIS_SESSION} else f"Allow: {option}"
        tone = " kg-primary" if number == 0 and not brief else ""
        shown.append(
            f'<button type="button" class="kg-btn{tone}{small}" data-act="allow" data-answer="{escaped(option)}" '
            f"{ident}{named(word)}>{escaped(word)}</button>"
        )
    shown.append(f'<button type="button" class="kg-btn{small}" data-act="deny" {ident}{named("Deny")}>Deny</button>')
    if NEVER in request.options:
        shown.append(
            f'<button type="button" class="kg-btn kg-quiet{small}" data-act="deny" data-answer="{NEVER}" {ident}'
            f"{named('Never in this session')}"
            ' title="Refuse it without asking again, as long as this session lasts">Never in this session</button>'
        )
    return " ".join(shown) + (f' <span class="kg-spring"></span>{stop}' if stop else "")


def _budget(request: ApprovalRequested) -> str:
    """Where a plan's budget can be changed before it begins; what stands there is sent along."""
    if request.subject != "plan":
        return ""
    proposed = request.arguments.get("budget_usd")
    value = f"{proposed:.2f}" if isinstance(proposed, int | float) else ""
    return (
        '<label class="kg-soft">Budget, USD '
        f'<input class="kg-input kg-short" data-budget type="text" inputmode="decimal" value="{value}" '
        'placeholder="none"></label> '
    )


def _with_lessons(request: ApprovalRequested, ident: str) -> str:
    """Begins, and lets the agent read the lessons that a plan shows."""
    if request.subject != "plan" or not request.arguments.get("lessons"):
        return ""
    return (
        f'<button type="button" class="kg-btn" data-act="allow" data-enter data-add="with lessons" {ident} '
        'title="The lessons above may be trusted from now on, and the agent reads them">'
        "Begin with its lessons</button> "
    )


def _question(request: ApprovalRequested, ident: str, stop: str) -> str:
    if request.options:
        field = " ".join(
            f'<button type="button" class="kg-btn" data-act="answer" data-answer="{escaped(option)}" {ident}>'
            f"{escaped(option)}</button>"
            for option in request.options
        )
    else:
        field = (
            '<input class="kg-input" type="text" aria-label="Your answer" placeholder="Your answer"> '
            f'<button type="button" class="kg-btn kg-primary" data-act="answer" {ident}>Send</button>'
        )
    skip = f'<button type="button" class="kg-btn kg-quiet" data-act="deny" {ident}>No answer</button>'
    return f'{field} <span class="kg-spring"></span>{skip} {stop}'
