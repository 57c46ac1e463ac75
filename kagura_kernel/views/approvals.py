"""An approval: while it waits with its buttons, afterwards with its answer; and one word for several of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from kagura_kernel.domain.approval_content import (
    Asked,
    Block as AskedText,
    asked as parts_of,
    in_sight,
    more_arguments,
    plainly,
)
from kagura_kernel.domain.events import ApprovalRequested
from kagura_kernel.render import blocks as ui
from kagura_kernel.render.escape import one_line
from kagura_kernel.render.figures import counted
from kagura_kernel.render.text import bounded
from kagura_kernel.views.parts import Ask, Call

_LINES, _CHARACTERS = 2000, 100_000
_REASON = 300
THIS_CALL = "this call"
THIS_RUN = "this run"
THIS_SESSION = "this session"
NEVER = "never"
"""Options that questions offer; membrane and toolsets ask with the same words. `never` is a denial."""

_WITHOUT_OPTIONS = {"launch": "Allow", "credential": "Allow", "plan": "Begin", "trust": "Trust it"}
_NO = {"plan": "Cancel", "trust": "Not now"}

_KINDS = {
    "launch": ("Launch", "The run would start with all of this, which is more than an ordinary run has"),
    "host_command": ("Host command", "It would run on this computer with your rights, outside the box"),
    "network": ("Network", "It would let programs in the box connect there"),
    "credential": (
        "Credential",
        "It would let the run hold this credential; a fresh one is made as long as the budget lasts",
    ),
    "plugin": ("Plugin", "It would let this plugin be used"),
    "tool": ("Tool", "It would call this tool with exactly these arguments"),
    "write": ("Write", "It would change files of the project"),
    "plan": ("Plan", "The run would begin, and stop before it costs more than its budget"),
    "trust": ("Trust", "You would not be asked about this any more, until something of it fails"),
    "question": ("Question", "The agent asks you something and waits for the answer"),
}

NO_REASON = "The agent gave no reason."

_VIA = {"cell": ", in the cell", "command": ", by command", "sidebar": ", in the sidebar"}

_VERDICTS = {
    "allow": ("good", "Allowed"),
    "deny": ("bad", "Denied"),
    "timeout": ("bad", "Denied, because nobody answered in time"),
    "aborted": ("warn", "Called off"),
}


def asked(request: ApprovalRequested) -> Asked:
    """The parts of one request: what it would let happen."""
    return parts_of(request.subject, request.title, request.detail, request.arguments)


def allowing(request: ApprovalRequested) -> list[str]:
    """The options that allow."""
    return [option for option in request.options if option != NEVER]


def chooses(request: ApprovalRequested) -> bool:
    """Whether it is no free question and offers more than a plain yes."""
    return request.subject != "question" and bool(request.options)


def ask_block(ask: Ask, calls: Sequence[Call], now: datetime | None, *, can_answer: bool) -> ui.Question:
    """The approval; it can be answered where it is live, in a run that goes on."""
    request = ask.request
    kind, meaning = _KINDS.get(request.subject, (request.subject, ""))
    parts = asked(request)
    name = f"{kind}: {plainly(request.title) if parts.target else parts.title}"
    # The host stands large below its title, and again in what it would mean: that is often enough.
    top = ui.Line((ui.Span(kind, look="kind"), ui.Span(parts.title, "title", "ask-title")), "ask-top")
    plain = ask_text(ask)
    if request.subject == "network" and ask.decision is not None:
        return ui.Question((_short(ask),), name, is_open=False, is_brief=True, plain=plain)
    is_open = ask.decision is None and can_answer
    details = (*_detail(parts, live=is_open), *_reason(request), *_details(request, calls))
    if not is_open:
        answers = [ui.Line(_answer(ask), "verdict", _verdict_tone(ask))]
        if ask.decision is None:
            how = ui.code(f"%kagura approve {request.approval_id}")
            answers.append(ui.Line(("The sidebar takes an answer, and so does", how, "."), "soft"))
        return ui.Question((top, *details, *answers), name, is_open=False, plain=plain)
    ends = request.at + timedelta(seconds=request.deadline)
    left = max(0.0, (ends - (now or request.at)).total_seconds())
    until = ui.Countdown(left, request.deadline, "" if ask.brief else without_answer(request))
    buttons = buttons_of(request, brief=ask.brief)
    inside = (_short(ask),) if ask.brief else (top, *details, *_meaning(meaning, parts))
    about = request.approval_id
    return ui.Question((*inside, until, *buttons), name, about, is_brief=ask.brief, plain=plain)


def without_answer(request: ApprovalRequested) -> str:
    """What comes of no answer in time: a question grants nothing, so that nothing is denied with it."""
    return "then it goes on without an answer" if request.subject == "question" else "no answer is a denial"


def ask_text(ask: Ask) -> str:
    """A question in full, with how it ended."""
    parts = asked(ask.request)
    lines = [f"? {parts.title} {parts.target}?" if parts.target else f"? {parts.title}"]
    for block in parts.blocks:
        lines += [f"  {block.label}:"] if block.label else []
        lines += [f"    {line}" for line in block.text.split("\n")]
        lines += [f"  ({block.size})"] if block.size else []
    lines += [f"  {line}" for line in parts.means.split("\n")] if parts.means else []
    whose, reason = reason_words(ask.request)
    told = f"{whose[:1].lower()}{whose[1:]} {one_line(reason, _REASON)}" if whose else one_line(reason, _REASON)
    lines += [f"  {told}"] if told else []
    # A child's: whose parts they are is told by ids, where something may be told by ids.
    lines += ["  asked for by a part that was handed on"] if ask.request.lineage else []
    return "\n".join([*lines, f"  {verdict_words(ask)}"])


def many_block(waiting: Sequence[Ask], *, may_allow: bool) -> ui.Group:
    """One word for several questions, and no accident that says yes to all.

    Where all may be allowed at once, that unfolds first, which is one click, and lists what it would open: the button
    inside is the second one, and speaks of these questions alone.
    """
    about = {"ids": " ".join(ask.request.approval_id for ask in waiting)}
    count = len(waiting)
    words: ui.Words = (ui.Span(f"{counted(count, 'question')} wait.", "title", "ask-tone"),)
    line = ui.Line((*words, ui.Button(f"Deny all {count}", "deny-all", about)), "many-line")
    allow: ui.Blocks = ()
    if may_allow:
        places = ui.Bullets([(ui.code(asked(ask.request).what),) for ask in waiting])
        yes = ui.Button(f"Yes, allow these {count} for this run", "allow-all", about, "primary")
        said = ui.Line(("The box could connect to all of these, until the run ends:",))
        # Kept open under the very questions: when one more comes, it folds and has to be unfolded again.
        inside = (said, places, ui.Line((yes,)))
        allow = (ui.Fold(("Allow all for this run …",), inside, f"all:{about['ids']}", "all"),)
    return ui.Group((line, *allow, ui.Told()), "many", f"All {count} questions", {"block": ""}, plain="")


def verdict_words(ask: Ask) -> str:
    """How it ended, in words; what stands there while it is open."""
    if ask.decision is None:
        return "Not answered"
    decision = ask.decision
    if decision.via == "policy" and decision.verdict != "allow":
        why = "this cell runs inside another magic and cannot wait for an answer" if ask.inside else ""
        return f"Denied by policy: {why or 'nobody is here who could be asked'}"
    word = _VERDICTS.get(decision.verdict, ("bad", decision.verdict))[1]
    if ask.request.subject == "question" and decision.verdict == "allow":
        word = "Answered"
    # The run itself is nobody who would call a question off; the words behind say why it is closed.
    if decision.verdict == "timeout" or decision.via == "run":
        return word
    if chooses(ask.request) and decision.answer in ask.request.options:
        never = decision.answer == NEVER
        word += " for the rest of this session" if never else f" for {decision.answer}"
    return f"{word} by {one_line(decision.by, 80)}{_VIA.get(decision.via, '')}"


def reason_words(request: ApprovalRequested) -> tuple[str, str]:
    """Whose words the reason is in, and the reason; both empty when there is none to show.

    For hosts and for calls of a toolset's they are ours. Whose words the others are in is not known to a card; they are
    quoted.
    """
    reason = request.reason.strip()
    match request.subject:
        case "question":
            return "", ""
        case "network":
            return "", request.reason
        case "tool" if "toolset" in request.arguments or not reason:
            return "", request.reason
        case "launch" | "credential" | "plan" | "trust":
            return ("The reason given:", request.reason) if reason else ("", "")
        case _:
            return ("The agent’s own words:", request.reason) if reason else ("", NO_REASON)


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


def buttons_of(request: ApprovalRequested, *, brief: bool = False) -> ui.Blocks:
    """The buttons of one approval, and the line where it is said why one did nothing."""
    about = {"id": request.approval_id}
    stop = ui.Button("Stop the run", "abort", about, "quiet")
    words: list[ui.Inline]
    if request.subject == "question":
        words = [*_question(request, about), stop]
    elif request.options:
        words = _options(request, about, brief=brief)
        words += [] if brief else [ui.SPRING, stop]
    else:
        is_plan = request.subject == "plan"
        yes = _WITHOUT_OPTIONS.get(request.subject, "Allow once")
        enter = {"enter": ""} if is_plan else {}
        words = [*_budget(request), ui.Button(yes, "allow", enter | about, "primary"), *_with_lessons(request, about)]
        words += [ui.Button(_NO.get(request.subject, "Deny"), "deny", about), ui.SPRING, stop]
    return ui.Line(tuple(words), "buttons"), ui.Told()


def asked_text(text: AskedText, *, live: bool) -> ui.Blocks:
    """A text that is decided about, with its size; a live card is told when it was read to its end."""
    name = (ui.label(text.label),) if text.label else ()
    size = (ui.Line((text.size,), "soft size"),) if text.size else ()
    return (*name, ui.Pre(text.text, "full", has_end=live), *size)


def _details(request: ApprovalRequested, calls: Sequence[Call]) -> ui.Blocks:
    """Difference, arguments, origin; each only where there is one."""
    found: list[ui.Block] = []
    diff = request.arguments.get("diff")
    if isinstance(diff, str) and diff:
        found.append(ui.Diff(diff))
    # Those that are the question stand in it.
    given = {} if in_sight(request.subject) else more_arguments(request.subject, request.arguments)
    if given:
        inside: list[ui.Block] = []
        for name, text in given.items():
            inside += [ui.label(name), ui.Pre(bounded(text, lines=_LINES, characters=_CHARACTERS).whole(), "full")]
        found.append(ui.Fold((ui.soft("Arguments in full"),), tuple(inside), f"args:{request.approval_id}", "args"))
    call = next((call for call in calls if call.asked.call_id == request.call_id), None)
    if request.lineage:
        line = " → ".join(request.lineage)
        found.append(ui.Line(("Asked for by a part that was handed on:", ui.code(line), "."), "origin"))
    # A question is the agent's own, and says so.
    elif call is not None and request.subject != "question":
        found.append(ui.Line(("Asked for by a call of", ui.code(call.asked.tool), "."), "origin"))
    return tuple(found)


def _detail(parts: Asked, *, live: bool) -> ui.Blocks:
    if parts.target:
        means = (ui.Line((parts.means,)),) if parts.means else ()
        return (ui.Line((ui.code(parts.target),), "target"), *means)
    return tuple(block for text in parts.blocks for block in asked_text(text, live=live))


def _reason(request: ApprovalRequested) -> ui.Blocks:
    whose, reason = reason_words(request)
    if whose:
        return (ui.Line((ui.soft(whose), ui.quote(reason)), "says"),)
    return (ui.Line((reason,), "says soft"),) if reason else ()


def _short(ask: Ask) -> ui.Line:
    """A network question on one line, with its answer once there is one."""
    what = ui.code(asked(ask.request).what, "where")
    if ask.decision is None:
        return ui.Line((what,), "ask-top")
    ours = ask.decision.via == "run"
    answer = ui.Span((verdict_words(ask),) if ours else _answer(ask), look="verdict", tone=_verdict_tone(ask))
    why = (ui.soft(f"— {ask.decision.answer}"),) if ours else ()
    return ui.Line((ui.Span(_KINDS["network"][0], look="kind"), what, answer, *why), "ask-top")


def _meaning(meaning: str, parts: Asked) -> ui.Blocks:
    # Whoever composed the question has said it better.
    if parts.means:
        return ()
    where: ui.Words = (f"{meaning}, in", ui.code(parts.place), ".") if parts.place else (f"{meaning}.",)
    return (ui.Line(where, "soft"),)


def _verdict_tone(ask: Ask) -> str:
    return _VERDICTS.get(ask.decision.verdict, ("bad", ""))[0] if ask.decision else "warn"


def _answer(ask: Ask) -> ui.Words:
    decision = ask.decision
    chosen = chooses(ask.request) and decision is not None and decision.answer in ask.request.options
    # What is said for the deadline is in the words already.
    if decision is not None and decision.answer and decision.via not in {"policy", "deadline"} and not chosen:
        return verdict_words(ask), ui.quote(decision.answer)
    return (verdict_words(ask),)


def _options(request: ApprovalRequested, about: Mapping[str, str], *, brief: bool) -> list[ui.Inline]:
    small = "small" if brief else ""

    # Several that look alike: each says by its name what it is about.
    def named(word: str) -> str:
        return f"{word}: {request.title}" if brief else ""

    shown: list[ui.Inline] = []
    for number, option in enumerate(allowing(request)):
        word = f"Allow for {option}" if option in {THIS_CALL, THIS_RUN, THIS_SESSION} else f"Allow: {option}"
        look = "primary" if number == 0 and not brief else small
        shown.append(ui.Button(word, "allow", {"answer": option, **about}, look, named(word)))
    shown.append(ui.Button("Deny", "deny", about, small, named("Deny")))
    if NEVER in request.options:
        word = "Never in this session"
        hint = "Refuse it without asking again, as long as this session lasts"
        shown.append(ui.Button(word, "deny", {"answer": NEVER, **about}, f"quiet {small}", named(word), hint))
    return shown


def _budget(request: ApprovalRequested) -> list[ui.Inline]:
    """Where a plan's budget can be changed before it begins; what stands there is sent along."""
    if request.subject != "plan":
        return []
    proposed = request.arguments.get("budget_usd")
    return [ui.Entry("Budget, USD", _amount(proposed), "none", is_budget=True)]


_SMALL = 0.0001
"""Dollars below which four places would show nothing."""


def _amount(usd: object) -> str:
    """As it is proposed, and not only its cents: it is agreed to as it stands there."""
    if not isinstance(usd, int | float):
        return ""
    if round(usd, 2) == usd:
        return f"{usd:.2f}"
    return f"{usd:.{4 if usd >= _SMALL else 10}f}".rstrip("0")


def _with_lessons(request: ApprovalRequested, about: Mapping[str, str]) -> list[ui.Inline]:
    """Begins, and lets the agent read the lessons that a plan shows."""
    if request.subject != "plan" or not request.arguments.get("lessons"):
        return []
    hint = "The lessons above may be trusted from now on, and the agent reads them"
    data = {"enter": "", "add": "with lessons", **about}
    return [ui.Button("Begin with its lessons", "allow", data, hint=hint)]


def _question(request: ApprovalRequested, about: Mapping[str, str]) -> list[ui.Inline]:
    field: list[ui.Inline] = [ui.Button(option, "answer", {"answer": option, **about}) for option in request.options]
    if not field:
        field = [ui.Entry("Your answer", placeholder="Your answer"), ui.Button("Send", "answer", about, "primary")]
    return [*field, ui.SPRING, ui.Button("No answer", "deny", about, "quiet")]
