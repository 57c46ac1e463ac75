"""What one run is given: image, credentials, mounts, egress. One frozen value, made before anything starts. Pure.

Beside it stands what the membrane that carries it out is made of, and what a person has allowed for a session.

A user's settings are judged here where they speak of the membrane: hosts, mirrors, credentials, variables, an image.
The form of single fields is checked where they are read. Values of variables are never repeated, and neither is what
should be a grant.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

from kagura_kernel.domain.errors import ConfigurationError, HostNotUnderstood, UsageError
from kagura_kernel.domain.kit import KIT_DIR
from kagura_kernel.domain.late_dataclass import dataclass, field, replace
from kagura_kernel.domain.policy import PROGRAM_DIR, SandboxPolicy
from kagura_kernel.domain.settings import PREFIX, Problem, Settings
from kagura_kernel.membrane.credentials.lease import Budget, Grant, LeaseTerms, parse_grant, span
from kagura_kernel.membrane.egress.gate import Resolver, SystemResolver
from kagura_kernel.membrane.egress.hosts import (
    ASK,
    HOST_SETS,
    HTTPS,
    NONE,
    HostSets,
    Target,
    parse_target,
    suggest,
)
from kagura_kernel.membrane.egress.policy import Answers, EgressPolicy, parse_grants
from kagura_kernel.membrane.egress.proxy import proxy_variables
from kagura_kernel.membrane.egress.stream import EgressLimits
from kagura_kernel.sandbox.backend import WORKSPACE

if TYPE_CHECKING:
    from kagura_kernel.domain.events import Event
    from kagura_kernel.journal.leases import LeaseLedger
    from kagura_kernel.membrane.credentials.registry import Registry

_OURS = {KIT_DIR: "its kit", PROGRAM_DIR: "its brain’s program"}


@dataclass(frozen=True, slots=True)
class Mount:
    """A folder of the host that a box sees."""

    source: Path  # On the host; resolved and checked
    target: str = WORKSPACE  # In the box
    mode: Literal["copy", "read"] = "copy"  # `copy` is a copy-on-write view, `read` cannot be written

    @property
    def shown(self) -> str:
        """What to call it; where a kit and a program lie on the host says nothing to anybody."""
        return _OURS.get(self.target) or str(self.source)


@dataclass(frozen=True, slots=True)
class RunGrant:
    """Everything that crosses the wall for one run; what is not in it does not cross."""

    image: str = ""  # Image asked for by name; empty is the back-end's own choice
    credentials: tuple[Grant, ...] = ()  # What may be leased, sorted
    mounts: tuple[Mount, ...] = ()  # What of the host is seen: the project, and the kit of an agent that has one
    net: tuple[str, ...] = ()  # The words that open hosts, in the order in which they were given
    egress: EgressPolicy = field(default_factory=EgressPolicy)  # What these words mean
    usual: tuple[str, ...] = ()  # Those of the words that the person's settings give to every run
    sets: HostSets = field(default_factory=lambda: HOST_SETS, repr=False)  # The sets of hosts that words may name
    writable_root: bool = False  # Whether commands may change the whole system that they see
    # Who asks for more than the person has given, and its verb: `the definition of the agent 'one' asks`
    asker: str = ""
    asker_id: str = ""  # SHA-256 of that definition: what a person allows is allowed to these very words
    # What it asks for: words among `net`, credentials, `WRITE_THROUGH`, `PROMPT_FILE` with a place, `THINKS_AT` with a
    # service. A person's word is needed for each.
    asked: tuple[str, ...] = ()
    closed: bool = False  # Whether the person's own words closed what others open: `--net none`

    def widened(self, net: Iterable[str], mounts: Iterable[Mount] = (), *, asked: bool) -> RunGrant:
        """The same with more hosts and mounts, found out before anything starts; a closed one with no more hosts.

        `asked` says whether a person's word is needed for the hosts that are new.

        Raises:
            UsageError: words that are not understood.
        """
        new = () if self.closed else tuple(word for word in dict.fromkeys(net) if word not in self.net)
        words = (*self.net, *new)
        return replace(
            self,
            mounts=(*self.mounts, *mounts),
            net=words,
            egress=_egress(words, self.sets) if new else self.egress,
            asked=(*self.asked, *new) if asked else self.asked,
        )

    def asking(self, asked: Iterable[str]) -> RunGrant:
        """The same, where a person's word is needed for more that is in it already."""
        return replace(self, asked=tuple(dict.fromkeys((*self.asked, *asked))))

    def beyond(self, terms: LeaseTerms) -> tuple[str, ...]:
        """What of it exceeds the baseline, a clause each: for whoever looks before it starts."""
        return (
            *(f"may reach {_hosts(word, self.sets)}" for word in self.net if word != ASK and word not in self.usual),
            *(f"may hold {grant} {allowance(terms)}" for grant in self.credentials),
            *([WRITABLE_ROOT] if self.writable_root else []),
            *([WRITES_THROUGH] if WRITE_THROUGH in self.asked else []),
            *(f"reads {word.removeprefix(PROMPT_FILE)} to its brain" for word in self.asked if PROMPT_FILE in word),
            *(f"{THINKS} {word.removeprefix(THINKS_AT)}" for word in self.asked if word.startswith(THINKS_AT)),
        )

    def to_event(self) -> dict[str, Any]:
        """The fields of `RunGranted` that say what is given."""
        return {
            "image": self.image,
            "mounts": [{"source": m.shown, "target": m.target, "mode": m.mode} for m in self.mounts],
            "credentials": tuple(map(str, self.credentials)),
            "egress": tuple(word for word in self.net if word != ASK),
            "ask": self.egress.ask,
            "writable_root": self.writable_root,
        }


_NAMED = 4
"""Hosts of a set that stand in one line."""

WRITABLE_ROOT = "may change the whole system in its box, as a root that is nobody outside; all of it is gone at the end"


WRITE_THROUGH = "write: through"
"""What an agent's definition asks for when changes are to reach the project as they are made."""

WRITES_THROUGH = "writes its changes into the project as it goes, without asking for each"


PROMPT_FILE = "prompt file "
"""What an agent's definition asks for when it wants a file of the person's that nobody wrote for agents."""


THINKS_AT = "thinks at "
"""What an agent's definition asks for when another service than the person's own is to think, with its name."""

THINKS = "tells all that it reads to another service than your settings name, which may cost more:"


def compute_grant(
    *,
    project: Path,
    policy: SandboxPolicy,
    image: str = "",
    usual_net: Sequence[str] = (),
    net: Sequence[str] = (),
    credentials: Iterable[str] = (),
    writable_root: bool = False,
    sets: HostSets = HOST_SETS,
) -> RunGrant:
    """The grant that these words mean.

    `usual_net` is what the settings open for every run, each a host, a set of hosts, or `ask`; `net` what this run's
    own words open beside, where `none` takes back all that stands before it. Credentials are written `PROVIDER:SCOPE`.

    Raises:
        UsageError: words that are not understood, all of them.
    """
    words: list[str] = []
    for word in (*usual_net, *net):
        if word == NONE:
            words.clear()
        elif word not in words:
            words.append(word)
    return RunGrant(
        image=image,
        credentials=tuple(sorted({parse_grant(text) for text in credentials})),
        mounts=(Mount(project, mode="copy" if policy.writable else "read"),),
        net=tuple(words),
        egress=_egress(words, sets),
        usual=tuple(usual_net),
        sets=sets,
        writable_root=writable_root,
        closed=NONE in net,
    )


def allowance(terms: LeaseTerms) -> str:
    """How long and how often, in words: the budget that a person approves."""
    budget = terms.budget
    times = {0: "never renewed", 1: "renewed at most once"}.get(
        budget.renewals_left, f"renewed at most {budget.renewals_left} times"
    )
    return f"for at most {span(budget.total_seconds)} in all, {times}"


def host_sets(mirrors: Mapping[str, Sequence[str]]) -> HostSets:
    """The sets of hosts, those replaced as a whole that a person has mirrors for; each is `HOST` or `HOST:PORT`.

    Raises:
        HostNotUnderstood: a mirror is no host.
    """
    found = {name: tuple(parse_target(text, HTTPS) for text in hosts) for name, hosts in mirrors.items()}
    return {**HOST_SETS, **found}


def _egress(words: Sequence[str], sets: HostSets) -> EgressPolicy:
    try:
        return parse_grants(words, sets)
    except ConfigurationError as error:
        known = f"A word after --net is a host, ask, none, or one of {', '.join(sorted(sets))}."
        raise UsageError("\n".join((*error.problems, known))) from error


def _hosts(word: str, sets: HostSets) -> str:
    targets = sets.get(word)
    if targets:
        return f"{word} ({', '.join(map(str, targets[:_NAMED]))}{', …' if len(targets) > _NAMED else ''})"
    return word if word.isascii() else f"{word} ({_spelled(word)})"


def _spelled(word: str) -> str:
    """What a word with foreign letters opens, in the spelling that counts: a letter may look like another."""
    try:
        target = parse_target(word, HTTPS)
    except HostNotUnderstood:
        return word.encode("ascii", "backslashreplace").decode()
    return str(target) if word.endswith(f":{target.port}") else target.host


class RecordFact(Protocol):
    """Makes, stores and shows an event of the run; raises `JournalError` when it cannot be stored."""

    def __call__(self, kind: type[Event], /, **fields: Any) -> object:
        """Record one fact."""


@dataclass(slots=True)
class SessionPowers:
    """What a person has allowed for a whole session; shared by its runs, and gone with this process."""

    answers: Answers = field(default_factory=Answers)  # Hosts
    budgets: dict[Grant, Budget] = field(default_factory=dict)  # What is left of the budgets of credentials
    writable_root: bool = False  # Whether its boxes may be changed as a whole
    # What agents' definitions have asked for, each as the SHA-256 of the definition and the word
    asked: set[tuple[str, str]] = field(default_factory=set)
    # Whether a credential needs a person's word in every single run, whatever was allowed before
    asks_anew: Callable[[Grant], bool] = lambda _grant: False


@dataclass(frozen=True, slots=True)
class MembraneParts:
    """What the membranes of all runs are made of."""

    ledger: LeaseLedger  # Where every credential is written down
    registry: Callable[[], Registry]  # Reads the person's credential providers, when they are first needed
    terms: LeaseTerms = field(default_factory=LeaseTerms)  # How leases are handled
    preapproved: frozenset[Grant] = frozenset()  # Credentials whose usual budget needs no asking
    limits: EgressLimits = field(default_factory=EgressLimits)  # On connections
    # Makes what turns names into addresses; one for each run, on its loop
    resolver: Callable[[], Resolver] = SystemResolver


_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}", re.ASCII)
_SET_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}", re.ASCII)
_IMAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@-]{0,254}", re.ASCII)

# Not repeated: what stands before the sign may be a password.
_HIDES = "entry {} holds an @; a host is written HOST or HOST:PORT, without a user name"

_NOT_YOURS = {
    "PATH": "it says where programs are found, and every box has its own",
    "HOME": "it is the box's own private folder",
    "LD_PRELOAD": "it would load code into every program of the box, its first one too",
    "LD_AUDIT": "it would load code into every program of the box, its first one too",
} | dict.fromkeys(proxy_variables(), "it leads to the box's one way out, and the membrane sets it")


def check_settings(settings: Settings) -> list[Problem]:
    """Everything that is wrong with them, each as the field and what it is; none when nothing is."""
    sets = dict(HOST_SETS)
    return [
        *_mirrors(settings.mirrors, sets),
        *_net(settings.net, sets),
        *_env(settings.env),
        *_grants(settings.preapproved_grants),
        *_image(settings.image),
    ]


def _mirrors(mirrors: Mapping[str, Sequence[str]], sets: dict[str, Sequence[Target]]) -> Iterator[Problem]:
    """What is wrong with the mirrors; `sets` gets the names of all, so that words which name them are understood."""
    for name, hosts in mirrors.items():
        field = f"mirrors.{_shown(name)}"
        if not _SET_NAME.fullmatch(name):
            yield field, "the name of a set is made of letters, digits, dashes and underscores"
        elif name in (ASK, NONE):
            yield field, f"`{name}` is a word of its own after --net; call the set otherwise"
        elif name not in HOST_SETS and suggest(name):
            yield field, suggest(name).partition(" A host of")[0]
        targets: list[Target] = []
        for number, host in enumerate(hosts, 1):
            try:
                targets.append(parse_target(host, HTTPS))
            except HostNotUnderstood as error:
                yield field, _HIDES.format(number) if "@" in host else error.message
        sets[name] = tuple(targets)


def _net(words: Sequence[str], sets: HostSets) -> Iterator[Problem]:
    for number, word in enumerate(words, 1):
        try:
            parse_grants([] if word == NONE else [word], sets)
        except ConfigurationError as error:
            yield "net", _HIDES.format(number) if "@" in word else error.problems[0]


def _env(env: Mapping[str, str]) -> Iterator[Problem]:
    for name, value in env.items():
        field = f"env.{_shown(name)}"
        if not _VARIABLE.fullmatch(name):
            yield field, "a variable's name is made of letters, digits and underscores, and begins with no digit"
        elif why := _NOT_YOURS.get(name):
            yield field, f"it cannot be set: {why}"
        elif name.startswith(PREFIX):
            yield field, f"it cannot be set: names that begin with {PREFIX} are for what the membrane leases"
        if "\0" in value:
            yield field, "its value holds a zero byte, which no variable can hold"


def _grants(grants: Sequence[str]) -> Iterator[Problem]:
    for number, text in enumerate(grants, 1):
        try:
            parse_grant(text)
        except UsageError:
            # Not repeated: somebody may have pasted a secret here.
            yield "preapproved_grants", f"entry {number} is not written PROVIDER:SCOPE, as in `github:read`"


def _image(name: str) -> Iterator[Problem]:
    if name and not _IMAGE.fullmatch(name):
        yield "image", "it is no name of an image, as `python` or `registry.example.org/team/tools:1.2` is one"


def _shown(name: str) -> str:
    return ascii(name[:60])[1:-1]
