"""What is read of the journal after the play, by each door. A name in braces is the run of the scene of that name."""

from __future__ import annotations

from typing import Any

from tests.goldens.scenes import Scene, on_the_host

WAITING = Scene(
    "served",
    "%%kagura --new --grant fake:read\nWait for the server.",
    (on_the_host("echo one"), "Over."),
    answers=("approve {}",),
)
"""A run that holds a credential and waits, while a server is asked."""

SHARED = (
    "status",
    "runs --limit 8",
    "runs {changes} {delegated}",
    "sessions",
    "approvals --limit 8",
    "cost --limit 8",
    "cost {done}",
    "leases",
    "egress log",
    "egress log --refused --limit 1",
    "egress check --no-resolve --net pypi.org pypi.org example.org",
    "brain",
    "changes {changes}",
    "changes {changes-partly}",
    "recall board figures",
    "lessons --k 3",
    "memory list --tier trusted",
    "memory list --limit 3",
    "memory show mem-nothing",
    "memory counts",
    "graduation",
    "graduation chart",
    "kit agents",
    "kit plan",
    "kit plan ../kit/analyst.yaml",
    "kit show",
    "plugin list",
    "plugin config fs-read",
    "plugin logs fs-read",
    "plugin scan ../plugin/plugins/greeter",
    "plugin trust",
)
"""In both."""

IN_NOTEBOOK = (*SHARED, "watch", "chart cost", "chart timeline {tools}", "chart egress")
IN_TERMINAL = (
    *SHARED,
    "runs",
    "approvals --pending",
    "route ls",
    "route rm",
    "leases log",
    "journal verify",
    "journal path",
    "images list",
)

CHANGED = (
    "memory export",
    "approve app-nothing",
    "deny app-nothing",
    "kill {done}",
    "revoke lea-nothing",
    "apply {changes}",
    "discard {done}",
    "recall",
    "nothing",
    "runs --nothing",
    "memory forget mem-nothing",
    "plugin enable nothing",
    "graduation grant packages",
    "graduation vouch {done}",
    "serve",
)
"""In a terminal, once each: what changes something, and what is refused."""

SERVED: tuple[tuple[str, str, Any], ...] = (
    ("GET", "status", None),
    ("GET", "runs?limit=6", None),
    ("GET", "runs?state=live", None),
    ("GET", "runs?q=rows&limit=1", None),
    ("GET", "runs/{run_id}", None),
    ("GET", "runs/{delegated}", None),
    ("GET", "runs/run-nothing", None),
    ("GET", "runs/{done}/events", None),
    ("GET", "runs/{done}/events?limit=2&after=0", None),
    ("GET", "approvals?limit=6", None),
    ("GET", "approvals?state=pending", None),
    ("GET", "approvals/{approval_id}", None),
    ("GET", "approvals/app-nothing", None),
    ("GET", "leases", None),
    ("GET", "costs", None),
    ("GET", "costs?days=7", None),
    ("GET", "plugins", None),
    ("GET", "plugins?session=plug", None),
    ("GET", "plugins/greeter/audit", None),
    ("GET", "memories?limit=4", None),
    ("GET", "memories?q=board&tier=trusted", None),
    ("GET", "memories/counts", None),
    ("GET", "memories/{memory_id}", None),
    ("GET", "memories/{memory_id}/grown", None),
    ("GET", "memories/mem-nothing", None),
    ("GET", "lessons --k 3", None),
    ("GET", "nothing", None),
    ("POST", "memories/{memory_id}/pin", None),
    ("POST", "memories/{memory_id}/unpin", None),
    ("POST", "memories/{memory_id}/demote", None),
    ("POST", "memories/{memory_id}/promote", None),
    ("POST", "memories/{memory_id}/forget", None),
    ("POST", "memories/{memory_id}/restore", None),
    ("POST", "memories/mem-nothing/pin", None),
    ("DELETE", "memories/mem-nothing", None),
    ("POST", "plugins/greeter/enable", {"session": "plug"}),
    ("POST", "plugins/greeter/disable", {"session": "plug"}),
    ("POST", "plugins/greeter/approve", {"session": "plug"}),
    ("POST", "plugins/greeter/unapprove", {"session": "plug"}),
    ("POST", "plugins/greeter/audit", {"session": "plug"}),
    ("POST", "leases/lea-nothing/revoke", None),
    ("POST", "leases/{lease_id}/revoke", None),
    ("POST", "approvals/{approval_id}/decision", {"verdict": "maybe"}),
    ("POST", "approvals/{approval_id}/decision", {"verdict": "deny", "answer": "not today"}),
    ("POST", "approvals/{approval_id}/decision", {"verdict": "allow"}),
    ("POST", "runs/{done}/kill", None),
    ("POST", "runs/run-nothing/kill", None),
)
