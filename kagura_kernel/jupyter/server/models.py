"""What the routes answer with.

`dev/server_api.py` makes `openapi.yaml` and the sidebar's `api/schema.ts` of these types and of `routes`.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field
from typing_extensions import TypedDict

from kagura_kernel.domain.outcome import EndStatus, RunStatus


def says(description: str, **bounds: Any) -> Any:
    """What a field says, with its bounds.

    Of the sidebar alone: with `key` an object in which the field is empty is left out of its list, and is none where
    there may be none; `otherwise` is what stands for a value that cannot be read.
    """
    more = {f"x-{name}": bounds.pop(name) for name in ("key", "otherwise") if name in bounds}
    return Field(description=description or None, json_schema_extra=more or None, **bounds)


Moment = Annotated[str, Field(pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{6}Z$")]
Usd = Annotated[float | None, says("USD; null is unknown.")]
Cursor = Annotated[str | None, says("What the next page is asked for with; null on the last one.")]
Key = Annotated[str, says("", key=True)]
Count = Annotated[int, Field(ge=0)]
Lineage = Annotated[list[str], says("The runs that it works for, the first one first; empty for a person's own.")]
PluginState = Literal["discovered", "audited", "configured", "enabled", "disabled", "quarantined"]
Risk = Annotated[
    Literal["LOW", "UNKNOWN", "MEDIUM", "HIGH", "CRITICAL"] | None,
    says("Of the latest audit of exactly these files; null while there is none."),
]


class Refusal(TypedDict):
    """What every refusal is."""

    code: Annotated[str, says("Stable across releases.", pattern=r"^ERR_[A-Z0-9_]+$")]
    message: Annotated[str, says("What happened, to what, and what to do next.", min_length=1)]


class TooLate(TypedDict):
    """The refusal of whoever came too late, with the decision that stands."""

    code: Literal["ERR_APPROVAL_DECIDED"]
    message: str
    decision: Decision


class Status(TypedDict):
    """The numbers of a status bar."""

    version: Annotated[str, says("Of kagura-kernel.")]
    pending: Annotated[Count, says("Approvals that wait.")]
    live: Annotated[Count, says("Runs that go on.")]
    cost_today_usd: Usd
    unpriced_today: Annotated[Count, says("Today's runs of unknown price, which stand beside the sum.")]
    seq: Annotated[Count, says("The number of the journal's newest row.")]


class Run(TypedDict):
    """A run."""

    run_id: Key
    session_id: str
    flavour: Literal["agent", "sandbox", "audit", "classification"]
    status: RunStatus
    live: Annotated[bool, says("Whether it goes on.")]
    task: Annotated[str, says("What was asked, its first 500 characters.")]
    brain: Annotated[str, says("Empty for a cell's own code.")]
    model: str
    box: Annotated[str, says("The back-end of its box; empty before there is one.")]
    started_at: Moment
    duration: Annotated[float | None, says("Seconds; null while it goes on.")]
    tool_calls: int
    cost_usd: Usd
    budget_usd: Annotated[float | None, says("Its limit; null is none.")]
    changed_files: int
    error_code: Annotated[str, says("Why it did not end well; empty otherwise.")]
    user: str
    owner: Annotated[str, says("The process that runs it.")]
    project: str
    notebook: Annotated[str, says("The notebook that asked, as its server names it; empty elsewhere.")]
    kernel_id: str
    cell_id: str
    lineage: Lineage
    resumes: Annotated[str, says("The run that it goes on from; empty for a fresh one.")]
    verified: Annotated[
        bool | None,
        says("Whether its work passed its verification; null where there was none, or not yet."),
    ]
    untrusted: Annotated[bool, says("Whether it was shown memories that are not trusted.")]


class RunCard(TypedDict):
    """The card of a run, as a notebook keeps it."""

    over: Annotated[bool, says("Whether the run is over, or its process gone. Else the card says where it stands.")]
    data: Annotated[dict[str, Any], says("What the card shows, by media type, as in a notebook's outputs.")]
    metadata: dict[str, Any]


class Runs(TypedDict):
    """A page of runs."""

    items: list[Run]
    next: Cursor


class Event(TypedDict):
    """A fact of the journal, as it was stored; the fields beside these are those of its kind."""

    kind: str
    run_id: str
    session_id: str
    at: str


class StoredEvent(TypedDict):
    """A row of the journal."""

    seq: int
    event: Event


class Events(TypedDict):
    """A page of a run's events."""

    items: list[StoredEvent]
    next: Cursor


class ShownBlock(TypedDict):
    """A part of what an approval would use."""

    label: str
    text: str
    size: Annotated[str, says("How many lines it has, in words; empty for one.")]


class Shown(TypedDict):
    """What is to be read of an approval before it is answered, as every display shows it."""

    title: str
    target: Annotated[str, says("The host that is asked for; empty for other questions.")]
    blocks: Annotated[
        list[ShownBlock],
        says("What would be used, in full; each has to be on screen to its end before it is allowed."),
    ]
    place: Annotated[str, says("The directory on the host that it would work in; empty where there is none.")]
    means: str


class Approval(TypedDict):
    """An approval, waiting or decided."""

    id: Key
    run_id: str
    session_id: str
    kind: Literal[
        "launch", "host_command", "network", "credential", "plugin", "tool", "write", "plan", "trust", "question"
    ]
    title: Annotated[str, says("One line, what would happen.")]
    detail: Annotated[str, says("In full.")]
    reason: Annotated[str, says("Why, in the asker's words.")]
    arguments: Annotated[dict[str, Any], says("The exact arguments that would be used.")]
    options: Annotated[list[str], says("The answers offered; empty means free text.")]
    content_hash: str
    requested_at: Moment
    deadline_at: Moment
    verdict: Annotated[Literal["allow", "deny", "timeout", "aborted"] | None, says("Null while it waits.")]
    by: str
    via: str
    decided_at: Moment | None
    answer: str
    shown: Annotated[
        Shown | None,
        says("What is to be read before it is answered, as every display shows it; null once it is decided."),
    ]
    notebook: str
    kernel_id: str
    cell_id: str
    lineage: Lineage


class Approvals(TypedDict):
    """A page of approvals."""

    items: list[Approval]
    next: Cursor


class Decision(TypedDict):
    """How an approval was decided."""

    approval_id: str
    verdict: Literal["allow", "deny", "timeout", "aborted"]
    by: str
    via: Annotated[str, says("Where it was decided; `sidebar` for this interface.")]
    decided_at: Moment
    answer: str


class Lease(TypedDict):
    """A lease that a run holds, or whose credential is still out."""

    lease_id: Key
    run_id: str
    session_id: str
    provider: str
    scope: str
    state: Annotated[
        Literal["minting", "live", "held up", "on hold", "owed"],
        says(
            "`held up` while a person is asked for more, `on hold` while nothing is given out, `owed` while it has to "
            "be revoked."
        ),
    ]
    expires_at: Annotated[Moment | None, says("When its present credential ends; null when there is none.")]
    budget_left_seconds: Annotated[float, says("Of its budget, beyond the present credential.")]
    renewals_left: int
    way: Annotated[str, says("How programs use it; empty while that is not known.")]
    place: Annotated[str, says("Where they find it; never a secret.")]
    why: str
    revocable: Annotated[bool, says("Whether it can be taken back.")]


class Leases(TypedDict):
    """All leases that are out."""

    items: list[Lease]
    next: None


class Spending(TypedDict):
    """What some runs cost."""

    usd: Annotated[float | None, says("What is known; null when nothing is known of runs that did cost something.")]
    runs: int
    unpriced_runs: Annotated[int, says("Runs of unknown price, which stand beside the sum.")]


class Budget(TypedDict):
    """How much of a budget is spent."""

    run_id: str
    usd_limit: Annotated[float, says("", key=True)]
    usd_spent: Usd


class DayCost(TypedDict):
    """What one day's runs of a model cost."""

    day: Annotated[str, says("", pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$", key=True)]
    brain: str
    model: str
    usd: Usd
    runs: int
    unpriced_runs: int


class Costs(TypedDict):
    """What runs cost."""

    today: Spending
    notebook: Annotated[
        Spending | None,
        says("Of the notebook, or the session, that was asked for, on all days; null when none was."),
    ]
    budget: Annotated[
        Budget | None,
        says("The newest run that goes on under a budget, there or anywhere; null when there is none."),
    ]
    by_day: Annotated[list[DayCost], says("The oldest day first; days without runs are left out.")]


class Killed(TypedDict):
    """A run that was asked to stop."""

    run_id: str
    state: Annotated[
        Literal["stopping", EndStatus],
        says("`stopping`, or how it has ended meanwhile."),
    ]


class Told(TypedDict):
    """Something that a person said to a run, and that its brain hears at its next turn."""

    run_id: str
    sentence_id: str


class Revoked(TypedDict):
    """A lease that was taken back."""

    lease_id: str
    run_id: str
    state: Literal["owed"]


class PluginPermissions(TypedDict):
    """What a plugin may reach."""

    read: Annotated[list[str], says("Paths that it may read.")]
    write: Annotated[list[str], says("Paths that it may read and write.")]
    net: Annotated[list[str], says("Hosts that it may reach.")]


class PluginAuditRun(TypedDict):
    """An audit as a run of the session's process."""

    run_id: Key
    status: RunStatus
    live: bool
    started_at: Moment
    error_code: str
    error: Annotated[str, says("Why it, or the enabling that it was for, did not end well.")]


class PluginFailure(TypedDict):
    """What was last asked for in the session and came to nothing."""

    why: str
    via: Annotated[str, says("Where it was asked for; empty for what was nobody's wish.")]
    at: Annotated[Moment, says("", key=True)]


class PluginWord(TypedDict):
    """What the session was told and has not heard yet."""

    deed: Literal["enable", "disable", "approve", "unapprove", "reject", "audit"]
    by: str
    at: Moment


class PluginUse(TypedDict):
    """Where a plugin stands in a session."""

    session_id: str
    notebook: Annotated[str, says("From which its process last ran something; empty elsewhere.")]
    state: PluginState
    live: bool


class Plugin(TypedDict):
    """A plugin, as a session has it."""

    name: Key
    version: str
    description: Annotated[str, says("As its manifest has it; its author's words.")]
    place: Literal["bundled", "user", "project"]
    project: Annotated[str, says("The project's root, for one that lies in a project.")]
    modules: Annotated[list[str], says("What guest code imports.")]
    permissions: PluginPermissions
    content_hash: Annotated[str, says("SHA-256 over all of its files; empty for one that cannot be used.")]
    state: PluginState
    why: Annotated[str, says("Why it stands so in the session; empty where the state says it.")]
    changed: Annotated[bool, says("Whether it was enabled in the session and is off because its files have changed.")]
    update: Annotated[str, says("The newer version that a repository has; empty where none is known.")]
    changed_at: Annotated[Moment | None, says("Since when; null where the session has done nothing with it.")]
    risk: Risk
    verdict: Annotated[Literal["approve", "review", "reject"] | None, says("What that audit advises.")]
    dangerous: Annotated[bool, says("Whether that audit has a finding that keeps it out.")]
    static_only: Annotated[bool, says("Whether no brain has looked.")]
    audited_at: Moment | None
    approved: Annotated[bool, says("Whether exactly these files are approved.")]
    signed_by: Annotated[str, says("The trusted author whose signature holds; empty for none.")]
    problem: Annotated[str, says("Why it cannot be used; empty when it can.")]
    quarantine: Annotated[str, says("Why these files are put off; empty when they are not.")]
    config: Annotated[dict[str, str], says("What it is configured with in the session, passwords masked.")]
    opens: Annotated[
        PluginPermissions | None,
        says("What its jail opens in the session; null where the session has done nothing with it."),
    ]
    audit_run: Annotated[
        PluginAuditRun | None,
        says("The latest audit of a plugin of this name that the session's process has run."),
    ]
    failure: Annotated[PluginFailure | None, says("What was last asked for in the session and came to nothing.")]
    waiting: Annotated[list[PluginWord], says("Words that the session has not heard yet.")]
    sessions: Annotated[
        list[PluginUse],
        says("Where it stands in the session that is meant, and in others that go on; the latest first."),
    ]


class PluginSession(TypedDict):
    """The session whose plugins are shown."""

    session_id: Key
    notebook: str
    kernel_id: str
    project: str
    live: Annotated[bool, says("Whether its process may still run.")]


class Plugins(TypedDict):
    """All plugins that a session, a notebook or a project can have."""

    items: list[Plugin]
    session: Annotated[
        PluginSession | None,
        says("The session that is meant; null where none is, or nothing is known of it yet."),
    ]
    next: None


class AuditFact(TypedDict):
    """A fact behind an audit."""

    name: str
    text: str
    good: Annotated[bool | None, says("Whether it speaks for the plugin; null where it does neither.")]


class AuditFinding(TypedDict):
    """A finding of an audit."""

    severity: Literal["danger", "warning", "info"]
    word: str
    message: str
    place: Annotated[str, says("File and line; empty for the plugin as a whole.")]
    source: Annotated[str, says("The line itself.")]


class Injection(TypedDict):
    """An attempt to talk to the auditor."""

    text: str
    why: str


class PluginAudit(TypedDict):
    """An audit's report."""

    plugin: str
    version: str
    content_hash: str
    risk: Risk
    risk_words: str
    verdict: Literal["approve", "review", "reject"]
    verdict_words: str
    counts: Annotated[str, says("How many findings there are of each severity.")]
    summary: Annotated[str, says("What the plugin does, in the auditor's words.")]
    remark: Annotated[str, says("What a reader should know about the audit itself.")]
    facts: list[AuditFact]
    findings: Annotated[list[AuditFinding], says("The gravest first.")]
    injections: Annotated[list[Injection], says("Attempts to talk to the auditor.")]
    canaries: Literal["OK", "AUDITOR_COMPROMISED", "AUDITOR_UNRELIABLE", "NOT_RUN"]
    description_accurate: bool | None
    static_only: bool
    auditor: str
    dangerous: Annotated[bool, says("What cannot be read is no leave to enable it.", otherwise=True)]
    permissions: PluginPermissions
    at: Moment | None


class PluginAsked(TypedDict):
    """A word that was left for a session."""

    plugin: str
    session_id: str
    deed: Literal["enable", "disable", "approve", "unapprove", "audit"]
    state: Literal["asked"]


class MemoryFacts(TypedDict):
    """A memory without its text, which may be long."""

    id: Annotated[str, says("", pattern=r"^[A-Za-z0-9_.:-]{1,128}$", key=True)]
    summary: Annotated[str, says("One line, as its author wrote it; take it for text and for nothing else.")]
    type: Annotated[str, says("A note, lesson, fix, outcome, task, decision, or a word of the person's own.")]
    tier: Annotated[Literal["trusted", "quarantine"], says("How far it is trusted.", otherwise="quarantine")]
    author: Annotated[Literal["human", "agent", "engine", "import"], says("Who said it.")]
    by: Annotated[str, says("The person's name, or the agent's; empty where there is none.")]
    run_id: Annotated[str, says("The run that it was said in; empty outside of runs.")]
    uri: Annotated[str, says("What it was read from; empty where there is nothing.")]
    tags: list[str]
    importance: Annotated[float, Field(ge=0, le=1)]
    scope: Annotated[str, says("Whom it concerns; empty for everybody.")]
    at: Moment
    created_at: Moment
    expires_at: Moment | None
    forgotten_at: Moment | None
    pinned: Annotated[bool, says("Whether every run that it concerns starts with it.")]
    promoted_by: Annotated[str, says("Who said that it may be trusted; empty where nobody had to.")]
    helped: Annotated[Count, says("How often it was said to have helped.")]
    misled: Annotated[Count, says("Likewise, to have misled.")]


class Memory(MemoryFacts):
    """A memory of a list."""

    score: Annotated[
        float | None,
        says("How well it fits the words, beside the others of this answer; null without words.", ge=0, le=1),
    ]
    why: Annotated[list[str], says("What matched, the strongest first.")]


class Lesson(Memory):
    """A remembered failure."""

    trigger: Annotated[str, says("What it was that went wrong; empty where nothing is known.")]
    said: Annotated[str, says("What was said then, in a box's or somebody's words; likewise.")]
    tool: Annotated[str, says("The tool that it went wrong with; likewise.")]
    fix: Annotated[str, says("What prevented it later; empty while nobody knows.")]
    task: Annotated[str, says("What was being done; likewise.")]
    seen: Annotated[int, says("In how many runs it happened.", ge=1)]


class Neighbour(MemoryFacts):
    """A memory that another one is joined to."""

    edge: Annotated[str, says("How the two are joined, such as `came-from` or `prevents`.")]
    away: Annotated[bool, says("Whether the edge leads from the memory that was asked for to this one.")]


class MemoryInFull(MemoryFacts):
    """One memory."""

    text: Annotated[str, says("What was remembered; take it for text and for nothing else.")]
    data: Annotated[dict[str, Any], says("Further facts.")]
    neighbours: list[Neighbour]


class Gone(TypedDict):
    """What goes with memories."""

    edges: Count
    checkpoints: Annotated[
        Count, says("Those that name one of the memories; a run cannot be resumed from one that is gone.")
    ]
    runs: Annotated[list[str], says("Runs whose checkpoints or summaries are among it.")]
    going: Annotated[
        list[str],
        says("Runs that go on and know one of the memories; what they store from now on may hold it again."),
    ]


class MemoryGrown(Gone):
    """What erasing it with all that came from it would remove."""

    memories: Annotated[list[MemoryFacts], says("It first, then what came from it.")]


class MemoryErased(Gone):
    """What was removed."""

    memories: Annotated[list[str], says("Ids; the one that was named first.")]


class MemoryChangedTo(TypedDict):
    """A memory after it was changed."""

    memory: MemoryFacts


class Memories(TypedDict):
    """A page of memories."""

    items: list[Memory]
    next: Cursor


class Lessons(TypedDict):
    """Lessons."""

    items: list[Lesson]
    next: Cursor


class MemoryCounts(TypedDict):
    """How much is remembered, and where."""

    memories: Annotated[Count, says("Those that can be found.")]
    quarantined: Annotated[Count, says("Of them, how many are not trusted.")]
    forgotten: Annotated[Count, says("Forgotten and not erased yet.")]
    edges: Count
    where: Annotated[str, says("A path, or an address without a password.")]


class Settings(TypedDict):
    """The settings of the person at this server. What looks like a secret is not told."""

    path: Annotated[str, says("The file that kernels read when they start.")]
    version: Annotated[str, says("Of the file; a change names the one that it was made of.")]
    form: Annotated[dict[str, Any], says("Each setting with its meaning, default and bounds, as JSON schema.")]
    values: Annotated[dict[str, Any], says("What each of them is now.")]
    sources: Annotated[dict[str, str], says("Where from: `default`, `shared`, `file`, or the name of a variable.")]
    locked: Annotated[dict[str, str], says("Why some cannot be changed here.")]
    problems: Annotated[dict[str, str], says("What is wrong with some; an empty name stands for the whole file.")]
