"""What a thread is told: how a run goes on, its end, and what it asks. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

from kagura_kernel.cockpit.message_intent import COMMANDS
from kagura_kernel.cockpit.resumption import may_be_resumed
from kagura_kernel.cockpit.transports.transport import MOST_BUTTONS, Button, Post
from kagura_kernel.domain import events
from kagura_kernel.domain.approval_content import asked, plainly
from kagura_kernel.domain.approvals import ApprovalKind, ApprovalRequest, Decision, Verdict
from kagura_kernel.domain.errors import KaguraError, RunKilled
from kagura_kernel.domain.late_dataclass import dataclass, field
from kagura_kernel.domain.visible import printed
from kagura_kernel.journal.rows import RunRow
from kagura_kernel.render.figures import counted
from kagura_kernel.views.status import STATUS_WORDS

_LISTED = 300
_HERE = {"run the cell again": "say it again", "restart the kernel": "have the server started again"}
"""What errors of a run tell whoever sits at a notebook, and what it is in a chat."""


def one_line(text: str, limit: int = 120) -> str:
    """The text on one line, at most `limit` characters."""
    line = " ".join(printed(text).split())
    return line if len(line) <= limit else line[: limit - 1].rstrip() + "…"


def cut(text: str, limit: int) -> tuple[str, bool]:
    """The beginning of a visible text, at most `limit` characters, at the end of a line where one is near; and whether
    anything is missing.
    """  # noqa: D205 - one sentence
    shown = printed(text).strip("\n")
    if len(shown) <= limit:
        return shown, False
    head = shown[: limit - 2]
    line_end = head.rfind("\n")
    return (head[:line_end] if line_end > limit // 2 else head) + "\n…", True


def cut_inside(text: str, limit: int) -> tuple[str, bool]:
    """A visible text with its beginning and its end, together at most `limit` characters, and how much is left out
    between them; and whether anything is.
    """  # noqa: D205 - one sentence
    shown = printed(text).strip("\n")
    if len(shown) <= limit:
        return shown, False
    room = limit - len(f"\n… {len(shown)} characters left out …\n")
    tail = shown[-(room // 2) :]
    head = shown[: room - len(tail)]
    return f"{head}\n… {len(shown) - len(head) - len(tail)} characters left out …\n{tail}", True


def listed(lines: Sequence[str], limit: int) -> tuple[str, bool]:
    """As many of these lines as fit, with how many are left; and whether anything is missing."""
    shown = [one_line(line, _LISTED) for line in lines]
    if len(told := "\n".join(shown)) <= limit:
        return told, any(len(printed(line)) > _LISTED for line in lines)
    room = limit - len(f"… and {len(shown)} more")
    kept: list[str] = []
    for line in shown:
        room -= len(line) + 1
        if room < 0:
            break
        kept.append(line)
    return "\n".join([*kept, f"… and {len(shown) - len(kept)} more"]), True


def told(error: KaguraError) -> str:
    """An error as it is meant in a chat: a notebook's `%kagura runs` is `/status`, and there are no cells."""
    text = error.message
    for there, here in _HERE.items():
        text = text.replace(there, here)
    text = re.sub(r"%kagura (?:runs|approvals)\b", "/status", text)
    text = re.sub(rf"%kagura ({'|'.join(COMMANDS)})\b", r"/\1", text)
    return f"{error.code}: {text.replace('%kagura ', 'kagura-kernel ')}"


_LOST = f"{STATUS_WORDS['lost']}: the process that ran it is gone"
_SHOWN = 1500
"""Characters of what an agent says on the way."""

IN_FULL = "`kagura-kernel approvals --pending` shows it whole, and `kagura-kernel approve` allows it"
"""Where a question is answered that a chat cannot show."""

_ON_A_BUTTON = 70


@dataclass
class RunThread:
    """One run as a thread sees it, folded from its events."""

    run_id: str
    changed: bool = True  # Whether there is anything new since `post` was called last
    finished: events.RunFinished | None = None  # Its end; None while it goes on
    _started: bool = False
    _says: str = ""
    _does: str = ""
    _calls: int = 0
    resumes: str = ""  # The run that it goes on from; empty for a fresh one
    _waits: set[str] = field(default_factory=set)
    _paths: set[str] = field(default_factory=set)

    @property
    def files(self) -> int:
        """How many files it has changed."""
        return len(self._paths)

    def take(self, event: events.Event) -> None:
        """Fold one event; those that a thread is not told of change nothing."""
        match event:
            case events.RunStarted():
                self._started = True
                self.resumes = event.resumes
            case events.TextWritten():
                self._says = event.text
            case events.ToolCalled():
                self._calls += 1
                self._does = one_line(event.tool, 60)
            case events.ApprovalRequested():
                self._waits.add(event.approval_id)
            case events.ApprovalDecided():
                self._waits.discard(event.approval_id)
            case events.ChangesCollected():
                # Many changes come in several parts.
                self._paths.update(change.path for change in event.changes)
            case events.RunFinished():
                self.finished = event
            case _:
                return
        self.changed = True

    def post(self, limit: int, kill: Button) -> Post:
        """What stands in the thread while it goes on."""
        self.changed = False
        state = "Waits for an answer" if self._waits else "Works" if self._started else "Begins"
        calls = f" · {counted(self._calls, 'tool call')}, the last one {self._does}" if self._calls else ""
        says, _ = cut(self._says, min(limit, _SHOWN))
        return Post(f"{state} · {self.run_id}{calls}", says, (kill,))


def end_post(end: events.RunFinished, limit: int, *, files: int, is_whole: bool = True) -> Post:
    """How a run ended, with its answer as far as it fits.

    Args:
        end: Its end.
        limit: Characters that its answer may have.
        files: How many files it has changed.
        is_whole: Whether an answer that does not fit was sent whole, as a file.
    """
    # Who stopped it is all that is to be said of one that was.
    stopped = one_line(end.error, 200).removesuffix(".") if end.error_code == RunKilled.code else ""
    head = [stopped] if stopped else [STATUS_WORDS.get(end.status, end.status), end.run_id]
    facts = [*head, f"{end.duration:.0f} s"]
    usd = end.reported_usd if end.reported_usd is not None else end.computed_usd
    if usd is not None:
        facts.append(f"${usd:.2f}")
    if files:
        facts.append(f"{counted(files, 'file')} changed: /changes, /apply, /discard")
    if end.verified is False:
        facts.append("its work did not pass its verification")
    if end.error_code and not stopped:
        facts.append(end.error_code)
    told, more = cut(end.text or ("" if stopped else end.error), limit)
    if more:
        facts.append("the whole answer is in the file" if is_whole else "the journal has the rest of it")
    return Post(" · ".join(facts), told)


def lost_post(run: RunRow, token: str) -> Post:
    """How a run ended whose process is gone, with the button that goes on from where it stood, if it can be."""
    told = f"{_LOST} · {run.run_id}"
    if not may_be_resumed(run):
        return Post(f"{told}. Say it again to start over.")
    go_on = Button("Go on", f"resume:{run.run_id}:{token}", "good")
    return Post(f"{told}. Go on from where it stood (/resume), or say it again to start over.", buttons=(go_on,))


def gone_on_post(run_id: str, successor: str) -> Post:
    """What stands in the place of a lost run that was gone on with."""
    return Post(f"{_LOST} · {run_id} · {successor} goes on from it")


def fits(request: ApprovalRequest, limit: int) -> bool:
    """Whether a question can be shown whole; otherwise it has to be sent as a file beforehand."""
    return not cut(question_text(request), limit)[1]


def whole_file(approval_id: str) -> str:
    """What the book knows the file of a question by that does not fit."""
    return f"file:{approval_id}"


def question_post(request: ApprovalRequest, token: str, limit: int, *, has_file: bool = True) -> Post:
    """A question with its buttons.

    Args:
        request: What is asked.
        token: What its buttons bear.
        limit: Characters that it may have.
        has_file: Whether one that does not fit was sent whole, as a file; otherwise it can only be denied.
    """
    told, more = cut_inside(question_text(request), limit)
    lineage = f", which works for {request.lineage[-1]}" if request.lineage else ""
    kind = str(request.kind).replace("_", " ")
    head = f"{request.run_id}{lineage} asks · {kind} · {request.id} · no answer within {request.deadline:.0f} s is a no"
    if more and has_file:
        head += " · read the file first: only the beginning and the end stand here"
    elif more:
        head += f" · only the beginning and the end stand here, and the rest could not be put here: {IN_FULL}"
        return Post(head, told, (_deny(request, token),))
    if _numbered(request.options):
        head += " · answer with a number, or in words"
    return Post(head, told, _buttons(request, token))


def question_text(request: ApprovalRequest) -> str:
    """A question in full."""
    what = asked(request.kind, request.title, request.detail, request.arguments)
    parts = [f"{what.title} {what.target}?" if what.target else what.title]
    for block in what.blocks:
        lines = f"| {_barred(block.text)}"
        head = f"{block.label}, {block.size}" if block.label and block.size else block.label or block.size
        parts.append(f"{head}:\n{lines}" if head else lines)
    parts += [f"Directory: {_barred(what.place)}"] if what.place else []
    parts.append(what.means)
    if request.reason:
        parts.append(f"Reason given by the asker: {_barred(plainly(request.reason))}")
    parts += [f"{number}. {_barred(plainly(option))}" for number, option in enumerate(request.options, start=1)]
    return "\n".join(dict.fromkeys(part for part in parts if part.strip()))


def _barred(text: str) -> str:
    """A text of others whose further lines never pass for ours: for a second command, a directory, another option."""
    return text.replace("\n", "\n| ")


def decided_post(request: ApprovalRequest | None, decision: Decision, limit: int) -> Post:
    """What stands in the place of a question that is answered; None where the journal has the question no more."""
    words = {
        Verdict.ALLOW: "Allowed",
        Verdict.DENY: "Denied",
        Verdict.TIMEOUT: "Nobody answered in time, which is a no",
        Verdict.ABORTED: "Called off",
    }
    told = "" if request is None else cut(question_text(request), limit)[0]
    answer = f": {one_line(decision.answer, 200)}" if decision.answer else ""
    by = f"{one_line(decision.by, 80)} ({one_line(decision.via, 20)})"
    return Post(f"{words[decision.verdict]} · {decision.approval_id} · {by}{answer}", told)


def status_text(
    running: Sequence[RunRow], pending: Sequence[ApprovalRequest], session_id: str | None, begins: Sequence[str] = ()
) -> str:
    """What goes on, this thread first.

    Outside of threads there is no session; `begins` are runs of this thread that are being begun.
    """
    ours = [row for row in running if row.session_id == session_id]
    others = [row for row in running if row.session_id != session_id]
    lines = [f"Here {row.run_id} {row.status.replace('_', ' ')}." for row in ours]
    lines += [f"Here {run_id} begins." for run_id in begins if run_id not in {row.run_id for row in ours}]
    if not lines:
        lines = ["Nothing goes on in this thread."] if session_id is not None else []
    if others:
        where = " elsewhere" if session_id is not None else ""
        lines.append(f"{counted(len(others), 'run')}{where}: {', '.join(row.run_id for row in others[:10])}.")
    if pending:
        lines.append(f"{counted(len(pending), 'approval')} waiting: {', '.join(one.id for one in pending[:10])}.")
    return " ".join(lines) or "Nothing goes on."


def _buttons(request: ApprovalRequest, token: str) -> tuple[Button, ...]:
    if request.kind is ApprovalKind.QUESTION:
        numbered = _numbered(request.options)
        return tuple(
            Button(
                one_line(f"{number + 1}. {option}" if numbered else option, _ON_A_BUTTON),
                f"o{number}:{request.id}:{token}",
            )
            for number, option in enumerate(request.options[:MOST_BUTTONS])
        )
    return (Button("Allow", f"allow:{request.id}:{token}", "good"), _deny(request, token))


def _deny(request: ApprovalRequest, token: str) -> Button:
    return Button("Deny", f"deny:{request.id}:{token}", "bad")


def _numbered(options: Sequence[str]) -> bool:
    """Whether the buttons cannot bear all answers whole, so that they bear the numbers of those in the text."""
    return len(options) > MOST_BUTTONS or any(len(printed(one)) > _ON_A_BUTTON for one in options)
