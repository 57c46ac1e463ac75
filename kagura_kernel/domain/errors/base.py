"""What every error has, and those that belong to no single room."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from typing import ClassVar


class KaguraError(Exception):
    """Base of all errors raised on purpose; `code` is stable across releases."""

    code: ClassVar[str] = "ERR_KAGURA"

    @property
    def message(self) -> str:
        """The text for the reader, without the code."""
        return str(self.args[0]) if self.args else self.__class__.__name__


class UsageError(KaguraError):
    """The person asked for something in a way that cannot be understood."""

    code = "ERR_USAGE"


_FEW = 12


class UnknownName(UsageError):
    """A name (brain, box, option, command) is not one of those that exist."""

    code = "ERR_UNKNOWN_NAME"

    def __init__(self, what: str, name: str, known: Sequence[str], *, hint: str = "") -> None:
        near = _nearest(name, known)
        guess = f" Did you mean {near!r}?" if near else ""
        more = f" {hint}" if hint else ""
        # Nobody looks for one name in many when it has been found.
        others = "" if near and len(known) > _FEW else f" Known: {', '.join(known) or 'none'}."
        super().__init__(f"There is no {what} {name!r}.{guess}{others}{more}")
        self.what = what
        self.name = name
        self.known = tuple(known)


def _nearest(name: str, known: Sequence[str]) -> str:
    """The name that was probably meant; empty when none is near. Words that name and known one share prove nothing."""
    group, _, word = name.rpartition(" ")
    begin = f"{group} " if group else ""
    candidates = [one.removeprefix(begin) for one in known if one.startswith(begin)]
    near = get_close_matches(word, candidates, n=1, cutoff=0.6)
    return f"{begin}{near[0]}" if near else ""


class NotThisTime(UsageError):
    """The request is understood, and cannot be met in this setting."""

    code = "ERR_UNSUPPORTED"


def listed(problems: Sequence[str]) -> str:
    """A line of a message for each."""
    return "\n".join(f"  - {problem}" for problem in problems)


class ConfigurationError(KaguraError):
    """Settings are wrong; `problems` holds all of them, each a line."""

    code = "ERR_CONFIGURATION"

    def __init__(self, source: str, problems: Sequence[str]) -> None:
        super().__init__(f"{source} cannot be used:\n{listed(problems)}")
        self.source = source
        self.problems = tuple(problems)


class NotInstalled(ConfigurationError):
    """Nothing is wrong with the settings but that extras of this package are not installed, which they need."""

    code = "ERR_NOT_INSTALLED"


class ExtensionBroken(KaguraError):
    """A part that another package brings was asked for, and cannot be used; nothing takes its place."""

    code = "ERR_EXTENSION_BROKEN"

    def __init__(self, kind: str, name: str, package: str, why: str) -> None:
        super().__init__(
            f"The {kind} {name!r} of {package} cannot be used: {why}. "
            "Mend or remove that package, or name another one; `kagura-kernel doctor` tries all of them."
        )
        self.kind = kind
        self.name = name
        self.package = package
        self.why = why


class SessionBusy(KaguraError):
    """A session runs one run at a time, and one is running."""

    code = "ERR_SESSION_BUSY"

    def __init__(self, session: str, run_id: str) -> None:
        super().__init__(
            f"Session {session!r} is busy with {run_id}. Wait for it, stop it with "
            f"`%kagura kill {run_id}`, or start another thread of work with `--new`."
        )
        self.session = session
        self.run_id = run_id


class SessionGone(KaguraError):
    """No process that still runs holds the session, so nobody would hear what it is told."""

    code = "ERR_SESSION_GONE"

    def __init__(self, session: str) -> None:
        super().__init__(
            f"No process that still runs holds the session {session!r}. Run a cell with kagura in its notebook first, "
            "then ask again."
        )
        self.session = session


class SettingsChanged(KaguraError):
    """The file of settings is not the one that was shown, so a change of it would undo somebody's."""

    code = "ERR_SETTINGS_CHANGED"

    def __init__(self, path: str) -> None:
        super().__init__(f"{path} was changed meanwhile, so nothing was saved. Load the settings again.")
        self.path = path


class ServedAlready(KaguraError):
    """A server runs on this data directory, and a second one would answer for the first."""

    code = "ERR_SERVED_ALREADY"

    def __init__(self, home: str, pid: int | None) -> None:
        named = "Another process" if pid is None else f"Process {pid}"
        super().__init__(
            f"{named} serves the chats of {home} already. Stop it first, or give this server a data directory of its "
            "own with the variable KAGURA_HOME."
        )
        self.home = home
        self.pid = pid


class OutputUnwritable(KaguraError):
    """Standard output takes nothing: it is closed, or its disk is full."""

    code = "ERR_OUTPUT"

    def __init__(self, why: str, kept: str = "") -> None:
        more = f" {kept}" if kept else ""
        super().__init__(f"Standard output cannot be written to: {why}.{more}")
        self.why = why


class BudgetExhausted(KaguraError):
    """The run has spent what it was given."""

    code = "ERR_BUDGET_EXHAUSTED"

    def __init__(self, spent_usd: float, budget_usd: float) -> None:
        super().__init__(
            f"The run spent ${spent_usd:.4f} of its budget of ${budget_usd:.4f} and was stopped. "
            "Give it more with `--budget USD` and go on from there."
        )
        self.spent_usd = spent_usd
        self.budget_usd = budget_usd


class QuotaReached(KaguraError):
    """A person has, or has spent, in all their runs together what the administrator's quota allows."""

    code = "ERR_QUOTA"

    def __init__(self, setting: str, message: str) -> None:
        super().__init__(message)
        self.setting = setting

    @classmethod
    def of_boxes(
        cls, setting: str, unit: str, most: float, used: float, more: float, runs: Sequence[str]
    ) -> QuotaReached:
        """There is no room for one more box.

        Args:
            setting: Which quota.
            unit: Of its figures, with a blank before it; empty for none.
            most: How much it allows.
            used: How much of that is taken.
            more: How much the box would take.
            runs: The runs whose boxes take it.
        """
        by = f" by {', '.join(runs)}" if runs else ""
        then = (
            "Wait until one of them ends, stop one with `%kagura kill RUN`, or end a kept one with `%kagura box end`."
            if runs
            else "Ask the administrator for more."
        )
        return cls(
            setting,
            f"The quota `{setting}` is {most:g}{unit} for all your runs together. Of that {used:g}{unit} is taken{by}, "
            f"and the box that this run needs takes {more:g}{unit}. {then}",
        )

    @classmethod
    def of_day(cls, most: float, spent: float, runs: Sequence[tuple[str, float]]) -> QuotaReached:
        """The day's money is spent.

        Args:
            most: USD that a day allows.
            spent: USD that were spent.
            runs: The dearest runs, each with what it cost.
        """
        by = ", ".join(f"{run} ${usd:.4f}" for run, usd in runs)
        return cls(
            "quota_usd_per_day",
            f"Your runs have spent ${spent:.4f} today, and the quota `quota_usd_per_day` allows ${most:.4f} in a day "
            f"of UTC{f'; the dearest: {by}' if by else ''}. Go on after midnight UTC, or ask the administrator.",
        )


def shorten(text: str, limit: int = 80) -> str:
    """Quote a command for a message: one line, at most `limit` characters."""
    line = " ".join(text.split())
    return repr(line if len(line) <= limit else line[: limit - 1] + "…")
