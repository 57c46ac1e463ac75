"""Which categories a question to a person is about, and when trust in one is earned. Pure.

A server that looks any name up for a program in the box (DNS over HTTPS) is a host like any other: whoever may ask it
for one name may ask it for all.

What is asked for has parts: a command, a host, each credential of a grant. A question belongs to a category when every
one of its parts does; it touches the category of each part. The first is what an earned grant answers, the second what
a lock holds for.

Which category a command for the host belongs to. Pure, and understands a few exact forms alone.

Whatever is not one of them belongs to none and is asked about: an option that is not listed, an abbreviated one, a
program by another path, an environment before it, a second command behind it. Agents write files that lie in the
project, so no form lets a file of the project decide what runs: no `python -m pip`, no path, no name of a directory.

Some deeds go to somebody whom the agent names. A name can say anything, and whoever has published a package runs what
they like, so each such name is told beside the category.

Graduation proposes and never grants: what is decided here is whether a person is asked, and never the answer.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Literal

from kagura_kernel.domain.approvals import ApprovalKind, ApprovalRequest, Decision, Verdict
from kagura_kernel.domain.categories import CATEGORIES, Category
from kagura_kernel.domain.events import TrustChanged
from kagura_kernel.domain.identity import new_approval_id
from kagura_kernel.domain.late_dataclass import dataclass
from kagura_kernel.domain.patterns import TrustTerms
from kagura_kernel.journal.trust import TrustFold, TrustRecord
from kagura_kernel.runtime.routing import base_command, split_line

_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*(\.[A-Za-z0-9_-]+)*")
_BRANCH = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*([./][A-Za-z0-9_-]+)*")
_URL = re.compile(
    r"(https://[A-Za-z0-9.-]+(:[0-9]+)?/|git@[A-Za-z0-9][A-Za-z0-9.-]*:)"
    r"[A-Za-z0-9_-][A-Za-z0-9._-]*(/[A-Za-z0-9_-][A-Za-z0-9._-]*)*"
)
# A server is everybody's who has an account there: the first part of several is whose the repository is.
_ORIGIN = re.compile(r"https://[^/]+(/[^/]+(?=/))?|git@[^:]+(:[^/]+(?=/))?")
# Where a directory has the name of a remote, git would take it for one; these are never cloned to.
_REMOTES = frozenset({"origin", "upstream"})
_DEPTH = re.compile(r"[1-9][0-9]*")
_PATH = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*(/[A-Za-z0-9_][A-Za-z0-9._-]*)*/?")
_REWRITES = frozenset({"filter-branch", "filter-repo", "rebase"})
# Up to the first f or d alone, so that a word of thousands of them is read once.
_FORCES = re.compile(r"--force.*|--mirror|--prune|--delete|-[a-ceg-zA-Z]*[fd][a-zA-Z]*|\+.*|:.*")
_ENV_FILE = re.compile(r"\.env(\.[A-Za-z0-9_-]+)?")
# A copy of what holds values may be one that git follows: what is copied is a pattern that holds none.
_ENV_PATTERN = re.compile(r"\.env\.(default|defaults|dist|example|sample|template)")
_HOST_NAME = re.compile(r"([A-Za-z0-9_]([A-Za-z0-9-]*[A-Za-z0-9])?\.)+[A-Za-z]([A-Za-z0-9-]*[A-Za-z0-9])?\.?")
_RECORDS = frozenset({"A", "AAAA", "CAA", "CNAME", "MX", "NS", "PTR", "SOA", "SRV", "TXT"})
# apt takes a name that ends in a sign for a wish to remove, and one with a full stop for a pattern.
_DEBIAN = re.compile(r"[a-z0-9](?:[a-z0-9+-]|(?<=[0-9])\.(?=[0-9]))*[a-z0-9](=[0-9][A-Za-z0-9.+:-]*)?")
# pip takes what ends like an archive for a file of the project.
_PYTHON = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_-]*[A-Za-z0-9])?(==[0-9]+(\.[0-9]+)*((a|b|rc|\.post|\.dev)[0-9]+)?)?")


def host_deed(command: str) -> str:
    """The category of one shell line; empty for none."""
    line = split_line(command)
    if line.meta or not line.words:
        return ""
    program, words = base_command(line), line.words[1:]
    if program == "sudo":
        return _install(words[1:]) if words[:1] in {("apt",), ("apt-get",)} else ""
    judge = _PROGRAMS.get(program)
    return judge(words) if judge is not None else ""


def names_in(command: str) -> frozenset[str]:
    """To whom a command that belongs to a category goes by a name that stands in it; empty where it names nobody.

    Of a look-up the name that is asked for, of a clone the server with whose the repository is there, of an
    installation each package, as it is written.
    """
    line = split_line(command)
    words = line.words[1:] if line.words[:1] == ("sudo",) else line.words
    deed, program = host_deed(command), words[0].rsplit("/", 1)[-1] if words else ""
    if deed == "git" and words[1:2] == ("clone",):
        return frozenset(found[0] for word in words[2:] if (found := _ORIGIN.match(word)))
    # The program and, of an installation, its subcommand come first; a record's type is no name.
    plain = [word for word in words[1:] if not word.startswith(("-", "+"))]
    if deed == "dns-read":
        return frozenset(plain[:1])
    index = _INDEXES.get(program, program)
    return frozenset(f"{index} {word.partition('=')[0]}" for word in plain[1:]) if deed == "packages" else frozenset()


def _git(words: Sequence[str]) -> str:
    if not words:
        return ""
    subcommand, rest = words[0], words[1:]
    if subcommand in _REWRITES or (subcommand == "commit" and "--amend" in rest):
        return "force-push"
    if subcommand == "push" and any(_FORCES.fullmatch(word) for word in rest):
        return "force-push"
    judge = _GIT.get(subcommand)
    return "git" if judge is not None and judge(rest) else ""


def _pushes(words: Sequence[str]) -> bool:
    places = [word for word in words if word not in {"-u", "--set-upstream", "-q", "--quiet"}]
    if not places:
        return True
    return places[0] in _REMOTES and len(places) <= 2 and all(map(_BRANCH.fullmatch, places[1:]))  # noqa: PLR2004 - a remote and a branch


def _commits(words: Sequence[str]) -> bool:
    said, left = False, list(words)
    while left:
        word = left.pop(0)
        if word in {"-m", "-am", "--message"} and left:
            said = bool(left.pop(0))
        elif word.startswith("--message="):
            said = True
        elif word not in {"-a", "--all", "-q", "--quiet"}:
            return False
    return said


def _adds(words: Sequence[str]) -> bool:
    known = {"-A", "--all", "-u", "--update", "."}
    return bool(words) and all(word in known or _PATH.fullmatch(word) for word in words)


def _clones(words: Sequence[str]) -> bool:
    places, left = [], list(words)
    while left:
        word = left.pop(0)
        if word in {"-q", "--quiet", "--single-branch"}:
            continue
        if word == "--depth" and left:
            if not _DEPTH.fullmatch(left.pop(0)):
                return False
        elif word in {"-b", "--branch"} and left:
            if not _BRANCH.fullmatch(left.pop(0)):
                return False
        else:
            places.append(word)
    if not 1 <= len(places) <= 2 or not _URL.fullmatch(places[0]):  # noqa: PLR2004 - a URL and a directory
        return False
    last = re.split(r"[/:]", places[0])[-1].removesuffix(".git")
    target = places[1] if places[1:] else last
    return bool(_WORD.fullmatch(target)) and target not in _REMOTES


def _copies(words: Sequence[str]) -> str:
    """A new `.env` from its pattern: without overwriting anything, a link least of all."""
    named = len(words) == 3 and words[0] in {"-n", "--no-clobber"}  # noqa: PLR2004 - the option and two names
    known = named and _ENV_PATTERN.fullmatch(words[1]) and _ENV_FILE.fullmatch(words[2])
    return "config-files" if known else ""


def _looks_up(words: Sequence[str]) -> str:
    """`dig [+short] NAME [TYPE]` at the machine's own resolver."""
    asked = [word for word in words if word != "+short"]
    named = 1 <= len(asked) <= 2 and _HOST_NAME.fullmatch(asked[0])  # noqa: PLR2004 - a name and a type
    return "dns-read" if named and all(word in _RECORDS for word in asked[1:]) else ""


def _looks_up_one(words: Sequence[str]) -> str:
    return "dns-read" if len(words) == 1 and _HOST_NAME.fullmatch(words[0]) else ""


def _install(words: Sequence[str], names: re.Pattern[str] = _DEBIAN) -> str:
    quiet = {"-y", "--yes", "-q", "-qq", "--quiet", "--no-install-recommends"}
    wanted = [word for word in words[1:] if word not in quiet]
    named = words[:1] == ("install",) and wanted and all(map(names.fullmatch, wanted))
    return "packages" if named else ""


_INDEXES: Mapping[str, str] = {"apt-get": "apt", "pip3": "pip"}
"""Programs that take their packages from where another one does."""
_GIT: Mapping[str, Callable[[Sequence[str]], bool]] = {
    "add": _adds,
    "clone": _clones,
    "commit": _commits,
    "push": _pushes,
}
_PROGRAMS: Mapping[str, Callable[[Sequence[str]], str]] = {
    "apt": _install,
    "apt-get": _install,
    "cp": _copies,
    "dig": _looks_up,
    "git": _git,
    "host": _looks_up_one,
    "nslookup": _looks_up_one,
    "pip": lambda words: _install(words, _PYTHON),
    "pip3": lambda words: _install(words, _PYTHON),
}


NONE = ""
"""A part that belongs to no category."""

BY_NAME: Mapping[str, Category] = {category.name: category for category in CATEGORIES}

_COMMAND = frozenset({"command", "directory"})
_READS = frozenset({"get", "list", "read", "readonly", "view"})


def categorise(request: ApprovalRequest, held: Collection[str] = ()) -> str | None:
    """The one category that all of it belongs to; None where there is none, or a part that is not understood.

    Args:
        request: What is asked.
        held: The credentials that runs have held before, each as `provider:scope`.
    """
    found = set(_parts(request, held))
    return found.pop() if len(found) == 1 and NONE not in found else None


def touched(request: ApprovalRequest, held: Collection[str] = ()) -> frozenset[str]:
    """The categories that some part of it belongs to; see `categorise`."""
    return frozenset(_parts(request, held)) - {NONE}


def goes_to(request: ApprovalRequest) -> frozenset[str]:
    """The names in it that something would leave the machine for; empty where it names nobody."""
    if request.kind is not ApprovalKind.HOST_COMMAND:
        return frozenset()
    return names_in(str(request.arguments.get("command", "")))


def pushes(request: ApprovalRequest) -> bool:
    """Whether a deed of `git` goes to where the repository's settings say, which nothing in the question does."""
    return split_line(str(request.arguments.get("command", ""))).words[1:2] == ("push",)


def asks_anew(credential: str) -> bool:
    """Whether a credential, `provider:scope`, belongs to a locked category however often it was held."""
    return any(part and not BY_NAME[part].included for part in _credential_parts(credential, (credential,)))


def names_credentials(request: ApprovalRequest) -> bool:
    """Whether it matters which credentials runs have held before."""
    return bool(_credentials(request))


def _parts(request: ApprovalRequest, held: Collection[str]) -> list[str]:
    arguments = request.arguments
    match request.kind:
        case ApprovalKind.HOST_COMMAND:
            return [host_deed(str(arguments["command"])) if arguments.keys() == _COMMAND else NONE]
        case ApprovalKind.CREDENTIAL | ApprovalKind.LAUNCH:
            parts = [part for name in _credentials(request) for part in _credential_parts(name, held)]
            if arguments.get("writable_root"):
                parts.append("packages")
            # More time for one is a budget that was used up; what a definition asks for is somebody else's wish.
            return [*parts, NONE] if "provider" in arguments or arguments.get("asked") else parts
        case _:
            return [NONE]


def _credentials(request: ApprovalRequest) -> tuple[str, ...]:
    if request.kind not in {ApprovalKind.CREDENTIAL, ApprovalKind.LAUNCH}:
        return ()
    arguments = request.arguments
    if "provider" in arguments:
        return (f"{arguments['provider']}:{arguments.get('scope', '')}",)
    return tuple(map(str, arguments.get("credentials", ())))


def _credential_parts(name: str, held: Collection[str]) -> list[str]:
    provider, _, scope = name.partition(":")
    parts = [] if name in held else ["cloud-credentials"]
    words = set(re.split(r"[^a-z0-9]+", scope.lower()))
    if words & {"dns", "zone"} or "dns" in re.split(r"[^a-z0-9]+", provider.lower()):
        # The names are the person's own; whatever does not say that it only reads may write.
        parts.append("dns-read" if words & _READS and words <= _READS | {"dns", "zone", "zones"} else "dns-write")
    return parts or [NONE]


VIA = "graduation"
"""Where a decision comes from that an earned grant has made."""

MOST_NAMED = 20
"""Names that a proposal tells."""

State = Literal["included", "locked", "proposed", "graduated", "demoted"]

_NOBODY = frozenset({"policy", "deadline", "run", VIA, ""})
_HOW = {
    "exit-code": "the command ended with 0",
    "verification": "its verification passed",
    "human": "a person said so",
}
_NOT_WORDS = re.compile(r"[\W\d_]+")


@dataclass(frozen=True, slots=True)
class Report:
    """How one category stands."""

    category: Category
    state: State  # By one word
    standing: TrustRecord  # What the journal says
    days: float  # Over how many days the successes are spread
    missing: tuple[str, ...]  # What is lacking before it may be proposed, a clause each; empty when nothing is


@dataclass(frozen=True, slots=True)
class Point:
    """One step of a category's curve."""

    category: str  # Its name
    at: datetime  # When
    successes: int  # How many it has from here on
    change: str  # What happened
    run_id: str  # In which run; empty for a person's word


def report(category: Category, standing: TrustRecord | None, terms: TrustTerms, now: datetime) -> Report:
    """How a category stands."""
    found = standing or TrustRecord(category.name)
    days = found.spread(now) / timedelta(days=1)
    return Report(category, state_of(category, found), found, days, missing(category, found, terms, now))


def reports(standings: Mapping[str, TrustRecord], terms: TrustTerms, now: datetime) -> list[Report]:
    """How all of them stand, in the order of the policy."""
    return [report(category, standings.get(category.name), terms, now) for category in CATEGORIES]


def lacking(found: Report) -> str:
    """What is missing before it is trusted, in words."""
    to = names_words(found.standing)
    if found.state == "graduated":
        return f"nothing: it is asked about no more{to}"
    return "; ".join(found.missing) or f"your word{to}: `%kagura graduation grant {found.category.name}`"


def state_of(category: Category, standing: TrustRecord) -> State:
    """One word for how it stands."""
    if standing.graduated and category.graduates:
        return "graduated"
    if standing.proposed_at is not None:
        return "proposed"
    if standing.demoted:
        # Nothing was taken from what had never been trusted; it is only asked about every time.
        return "demoted" if standing.earned else "locked"
    return "included" if category.included else "locked"


def is_locked(name: str, standings: Mapping[str, TrustRecord]) -> bool:
    """Whether it is asked about every single time, so that no answer holds for longer than a run."""
    standing = standings.get(name)
    if standing is None:
        return not BY_NAME[name].included
    return not is_graduated(name, standings) and (standing.demoted or not BY_NAME[name].included)


def is_graduated(name: str, standings: Mapping[str, TrustRecord]) -> bool:
    """Whether its grant answers."""
    standing = standings.get(name)
    return standing is not None and standing.graduated and BY_NAME[name].graduates


def missing(category: Category, standing: TrustRecord, terms: TrustTerms, now: datetime) -> tuple[str, ...]:
    """What is lacking before it may be proposed, a clause each."""
    if not category.graduates:
        return ("it never graduates",)
    if standing.graduated:
        return ()
    lacks = []
    if (successes := len(standing.successes)) < terms.successes:
        lacks.append(_more(terms.successes - successes, "verified success", "verified successes"))
    if (tasks := standing.tasks) < terms.tasks:
        lacks.append(_more(terms.tasks - tasks, "different task", "different tasks"))
    needed = timedelta(days=terms.days)
    if (spread := standing.spread(now)) < needed:
        lacks.append(f"successes {_days(needed - spread)} further apart")
    since = standing.since_failure(now)
    if since is not None and since < needed:
        lacks.append(f"{_days(needed - since)} more since the last failure")
    return tuple(lacks)


def may_propose(category: Category, standing: TrustRecord, terms: TrustTerms, now: datetime) -> bool:
    """Whether a person is to be asked now: all rules hold, and they were not asked lately."""
    if not may_grant(category, standing, terms, now):
        return False
    if standing.asked_at is None:
        return True
    newer = standing.successes[-1].not_before > standing.asked_at
    return newer and now - standing.asked_at >= timedelta(days=terms.days)


def may_grant(category: Category, standing: TrustRecord, terms: TrustTerms, now: datetime) -> bool:
    """Whether a person may say yes now: all rules hold, whether it was proposed or not."""
    return not standing.graduated and not missing(category, standing, terms, now)


def curve(changes: Iterable[TrustChanged]) -> list[Point]:
    """How categories came to where they are, a point for each row that changed something; uses are left out."""
    fold, points = TrustFold(), []
    for change in changes:
        before = fold.standings.get(change.category)
        fold.take(change)
        after = fold.standings[change.category]
        if change.change != "applied" and after != before:
            points.append(Point(change.category, change.at, len(after.successes), change.change, change.run_id))
    return points


def task_digest(task: str) -> str:
    """By which tasks are told apart: the same words in any order, with other numbers or signs, are the same task."""
    words = _NOT_WORDS.sub(" ", unicodedata.normalize("NFKC", task).casefold()).split()
    return hashlib.sha256(" ".join(sorted(set(words))).encode("utf-8", "surrogatepass")).hexdigest()


def is_persons(decision: Decision) -> bool:
    """Whether a person has decided it, and not a rule, a deadline or the end of a run."""
    decided = decision.verdict in {Verdict.ALLOW, Verdict.DENY}
    return decided and decision.by not in _NOBODY and decision.via not in _NOBODY


def evidence_lines(standing: TrustRecord) -> Sequence[str]:
    """The successes, a line each: when, how it is known, and in which run."""
    return [f"{one.at:%Y-%m-%d}  {one.run_id}  {_HOW[one.signal]}" for one in standing.successes]


def names_words(standing: TrustRecord) -> str:
    """To whom alone it would go, as the end of a sentence; empty where its deeds name nobody."""
    names = sorted(standing.names)
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return f" (where it goes to somebody, only {', '.join(names[:MOST_NAMED])}{more})" if names else ""


def _more(count: int, one: str, several: str) -> str:
    return f"{count} more {one if count == 1 else several}"


def _days(span: timedelta) -> str:
    days = span / timedelta(days=1)
    return "1 day" if days == 1 else f"{days:.3g} days"


ANSWER_SECONDS = 60.0
"""How long a run that is over waits for the answer; afterwards the proposal stands, to be granted by a command."""


_STILL_ASKED = (
    "whatever is not exactly understood as that alone, names that it has not gone well with, and runs that saw "
    "quarantined memories"
)


def proposal(
    category: Category, standing: TrustRecord, now: datetime, *, run_id: str, session_id: str
) -> ApprovalRequest:
    """The question."""
    return ApprovalRequest(
        id=new_approval_id(),
        run_id=run_id,
        session_id=session_id,
        kind=ApprovalKind.TRUST,
        title=f"Trust {category.name} from now on?",
        detail=proposal_text(category, standing, now),
        reason="It has gone well often enough, in different tasks and over a long enough time.",
        arguments={
            "category": category.name,
            "runs": [success.run_id for success in standing.successes],
            "tasks": standing.tasks,
            "days": round(standing.spread(now) / timedelta(days=1), 1),
        },
        requested_at=now,
        deadline=ANSWER_SECONDS,
    )


def proposal_text(category: Category, standing: TrustRecord, now: datetime) -> str:
    """What speaks for it, what would not be asked any more, what still would, and how to take it back."""
    days = standing.spread(now) / timedelta(days=1)
    runs = f"{len(standing.successes)} runs with {standing.tasks} different tasks over {days:.3g} days, and no failure"
    return "\n".join(
        (
            f"What speaks for it: {runs}.",
            *(f"  {line}" for line in evidence_lines(standing)),
            f"Not asked any more: {category.about}{names_words(standing)}.",
            f"Still asked: {_STILL_ASKED}.",
            f"Taken back by one failure, and by `%kagura graduation revoke {category.name}`.",
        )
    )
