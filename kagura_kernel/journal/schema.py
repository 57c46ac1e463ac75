"""The journal's tables, as SQLAlchemy Core sees them today.

`journal_events` is the truth and only grows; `journal_head` is its length and last hash. `journal_runs` and the
questions in `journal_approvals` are projections of the events, kept so that views are fast, and rebuilt from the events
by `views.rebuild`. Decisions and messages that another process leaves are the mailbox. `journal_heard` is what chats
have said, and `journal_posts` what was posted there, so that a restart forgets neither. `journal_leases` is the book of
credentials that have to be given back. `journal_checkpoints` is where runs stood: no events, since what grew from a
memory is erased with it. How a journal on disk comes to these tables stands in `migrations`.
"""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Float, Index, Integer, MetaData, Table, Text, TextClause, text

metadata = MetaData()


def _where(condition: TextClause) -> dict[str, TextClause]:
    """Of an index over some of the rows, for readers: `migrations` makes it.

    As an option of a dialect the condition would have every process import that dialect, PostgreSQL's too.
    """
    return {"where": condition}


_LEASES = text("kind = 'lease.changed'")
PLUGINS = text("kind IN ('plugin.audited', 'plugin.called', 'plugin.changed', 'plugin.seen')")
"""In exactly these words: only then the index of these rows is used."""
LEARNED = text("kind IN ('memory.changed', 'memory.seen', 'memory.written', 'trust.changed')")
"""Likewise."""

events = Table(
    "journal_events",
    metadata,
    Column("seq", BigInteger, primary_key=True, autoincrement=False),
    Column("at", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("run_id", Text, nullable=False),
    Column("session_id", Text, nullable=False),
    Column("body", Text, nullable=False),
    Column("prev_hash", Text, nullable=False),
    Column("hash", Text, nullable=False),
    Index("journal_events_run", "run_id", "seq"),
    Index("journal_events_session", "session_id", "seq"),
    # A run of a hundred thousand rows has a handful that are about its leases.
    Index("journal_events_leases", "run_id", "seq", info=_where(_LEASES)),
    # What is known about plugins is folded from a few hundred rows, however long the journal is.
    Index("journal_events_plugins", "kind", "seq", info=_where(PLUGINS)),
    # Likewise what was remembered, and which trust was earned.
    Index("journal_events_learned", "kind", "seq", info=_where(LEARNED)),
)

head = Table(
    "journal_head",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("rows", BigInteger, nullable=False),
    Column("last_hash", Text, nullable=False),
)

heartbeat = Table(
    "journal_heartbeat",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("at", Text, nullable=False),
)

version = Table(
    "journal_version",
    metadata,
    Column("version", Integer, primary_key=True, autoincrement=False),
    Column("applied_at", Text, nullable=False),
)

runs = Table(
    "journal_runs",
    metadata,
    Column("run_id", Text, primary_key=True),
    Column("first_seq", BigInteger, nullable=False),
    Column("session_id", Text, nullable=False),
    Column("flavour", Text, nullable=False),
    Column("status", Text, nullable=False),
    Column("task", Text, nullable=False),
    Column("brain", Text, nullable=False),
    Column("model", Text, nullable=False),
    Column("box", Text, nullable=False),
    Column("project", Text, nullable=False),
    Column("owner", Text, nullable=False),
    Column("user_name", Text, nullable=False),
    Column("started_at", Text, nullable=False),
    Column("duration", Float),
    Column("turns", Integer, nullable=False),
    Column("tool_calls", Integer, nullable=False),
    Column("changed_files", Integer, nullable=False),
    Column("input_tokens", BigInteger, nullable=False),
    Column("output_tokens", BigInteger, nullable=False),
    Column("cache_read_tokens", BigInteger, nullable=False),
    Column("cache_write_tokens", BigInteger, nullable=False),
    Column("reported_usd", Float),
    Column("computed_usd", Float),
    Column("cost_source", Text, nullable=False),
    Column("error_code", Text, nullable=False),
    Column("brain_session", Text, nullable=False),
    Column("notebook", Text, nullable=False),
    Column("kernel_id", Text, nullable=False),
    Column("cell_id", Text, nullable=False),
    Column("budget_usd", Float),
    Column("lineage", Text, nullable=False, server_default=""),
    Column("resumes", Text, nullable=False, server_default=""),
    Column("estimated_usd", Float),
    Column("estimated_seconds", Float),
    Column("verified", Integer),
    Column("untrusted", Integer, nullable=False, server_default="0"),
    Index("journal_runs_seq", "first_seq"),
    Index("journal_runs_session", "session_id", "first_seq"),
    Index("journal_runs_status", "status"),
    Index("journal_runs_notebook", "notebook", "first_seq"),
    Index("journal_runs_started", "started_at"),
)

approvals = Table(
    "journal_approvals",
    metadata,
    Column("id", Text, primary_key=True),
    Column("run_id", Text, nullable=False),
    Column("session_id", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("title", Text, nullable=False),
    Column("detail", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("arguments", Text, nullable=False),
    Column("options", Text, nullable=False),
    Column("call_id", Text, nullable=False),
    Column("content_hash", Text, nullable=False),
    Column("requested_at", Text, nullable=False),
    Column("deadline", Float, nullable=False),
    Column("deadline_at", Text, nullable=False),
    Column("owner", Text, nullable=False),
    Column("verdict", Text),
    Column("decided_by", Text),
    Column("via", Text),
    Column("decided_at", Text),
    Column("answer", Text),
    Column("lineage", Text, nullable=False, server_default="[]"),
    Index("journal_approvals_run", "run_id"),
    Index("journal_approvals_verdict", "verdict", "requested_at"),
    Index("journal_approvals_asked", "requested_at", "id"),
)

messages = Table(
    "journal_messages",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=True),
    Column("run_id", Text, nullable=False),
    Column("word", Text, nullable=False),
    Column("by_whom", Text, nullable=False),
    Column("at", Text, nullable=False),
    Column("taken_at", Text),
    Index("journal_messages_run", "run_id"),
)

heard = Table(
    "journal_heard",
    metadata,
    Column("transport", Text, primary_key=True),
    Column("message_id", Text, primary_key=True),
    Column("thread", Text, nullable=False),
    Column("session_id", Text, nullable=False),
    Column("operator", Text, nullable=False),
    Column("owner", Text, nullable=False),
    Column("run_id", Text, nullable=False),
    Column("taken_at", Text, nullable=False),
    Column("done_at", Text),
    Index("journal_heard_done", "transport", "done_at"),
)

posts = Table(
    "journal_posts",
    metadata,
    Column("transport", Text, primary_key=True),
    Column("subject", Text, primary_key=True),
    Column("thread", Text, nullable=False),
    Column("run_id", Text, nullable=False),
    Column("post_id", Text, nullable=False),
    Column("token", Text, nullable=False),
    Column("posted_at", Text, nullable=False),
    Column("closed_at", Text),
    Index("journal_posts_closed", "transport", "closed_at"),
)

checkpoints = Table(
    "journal_checkpoints",
    metadata,
    Column("run_id", Text, primary_key=True),
    Column("step", Integer, primary_key=True),
    Column("session_id", Text, nullable=False),
    Column("at", Text, nullable=False),
    Column("body", Text, nullable=False),
    Column("memories", Text, nullable=False),
    Index("journal_checkpoints_session", "session_id", "at"),
)

leases = Table(
    "journal_leases",
    metadata,
    Column("id", Text, primary_key=True),
    Column("lease_id", Text, nullable=False),
    Column("run_id", Text, nullable=False),
    Column("session_id", Text, nullable=False),
    Column("owner", Text, nullable=False),
    Column("provider", Text, nullable=False),
    Column("scope", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("handle", Text, nullable=False),
    Column("began_at", Text, nullable=False),
    Column("expires_at", Text, nullable=False),
    Column("dies_at", Text, nullable=False),
    Column("total_seconds", Float, nullable=False),
    Column("spent_seconds", Float, nullable=False),
    Column("renewals_left", Integer, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("retry_at", Text),
    Column("claimed_by", Text),
    Column("claimed_until", Text),
    Column("ended_at", Text),
    Column("why", Text, nullable=False),
    Index("journal_leases_run", "run_id"),
    Index("journal_leases_state", "state"),
)
