"""The state of a run in words, the same on every display."""

from __future__ import annotations

from kagura_kernel.domain.plugins import Risk
from kagura_kernel.views.run import RunView

STATUS_WORDS = {
    "starting": "Starting",
    "running": "Running",
    "waiting": "Waiting for you",
    "done": "Done",
    "failed": "Failed",
    "stopped": "Limit reached",
    "killed": "Stopped",
    "denied": "Denied",
    "lost": "Lost",
}

TONES = {
    "starting": "busy",
    "running": "busy",
    "waiting": "ask",
    "done": "good",
    "stopped": "warn",
    "killed": "warn",
    "denied": "warn",
}
"""The tone of each; `bad` for the others."""

RISK_TONES = {Risk.LOW: "good", Risk.UNKNOWN: "warn", Risk.MEDIUM: "warn", Risk.HIGH: "bad", Risk.CRITICAL: "bad"}

NOT_VERIFIED = "Done, not verified"
"""The state of a run that came to its end, and whose work did not pass its verification."""


def status_of(view: RunView) -> str:
    """A key of `STATUS_WORDS`."""
    if view.finished is not None:
        return view.finished.status
    if view.pending and not (view.started is not None and view.started.headless):
        return "waiting"
    return "running" if view.box is not None or view.auditing else "starting"


def run_label(view: RunView) -> str:
    """What kind of run it is, as the name of its card."""
    if view.auditing:
        return "Plugin audit"
    return "Agent run" if view.agent else "Sandbox run"


def status_words(view: RunView) -> str:
    """The state for reading."""
    status = status_of(view)
    finished = view.finished
    if finished is not None and finished.exit_code:
        return f"Exit code {finished.exit_code}"
    if finished is not None and finished.status == "done" and finished.verified is False:
        return NOT_VERIFIED
    return STATUS_WORDS[status]


def ended_badly(view: RunView) -> bool:
    """Whether it came to its end, and its program or its verification did not go well."""
    return view.finished is not None and view.finished.status == "done" and not good(view)


def good(view: RunView) -> bool:
    """Whether a finished run ended as it was meant to, its program and its verification included."""
    end = view.finished
    return end is not None and end.status == "done" and not end.exit_code and end.verified is not False
