"""The list of routes; `openapi.yaml` beside this file says what they take and give."""

from __future__ import annotations

from jupyter_server.base.handlers import APIHandler

from kagura_kernel.jupyter.server.approvals import ApprovalHandler, ApprovalsHandler, DecisionHandler
from kagura_kernel.jupyter.server.costs import CostsHandler
from kagura_kernel.jupyter.server.leases import LeasesHandler, RevokeHandler
from kagura_kernel.jupyter.server.memory import (
    DemoteHandler,
    ForgetHandler,
    LessonsHandler,
    MemoriesHandler,
    MemoryCountsHandler,
    MemoryGrownHandler,
    MemoryHandler,
    PinHandler,
    PromoteHandler,
    RestoreHandler,
    UnpinHandler,
)
from kagura_kernel.jupyter.server.plugins import (
    PluginApproveHandler,
    PluginAuditHandler,
    PluginDisableHandler,
    PluginEnableHandler,
    PluginsHandler,
    PluginUnapproveHandler,
)
from kagura_kernel.jupyter.server.runs import KillHandler, RunCardHandler, RunEventsHandler, RunHandler, RunsHandler
from kagura_kernel.jupyter.server.status import NoSuchRoute, OpenApiHandler, StatusHandler

BASE = "/kagura/api/v1"
_ID = "([A-Za-z0-9_.~-]{1,200})"
_MEMORY = "([A-Za-z0-9_.:-]{1,128})"

ROUTES: list[tuple[str, type[APIHandler]]] = [
    (f"{BASE}/status", StatusHandler),
    (f"{BASE}/runs", RunsHandler),
    (f"{BASE}/runs/{_ID}", RunHandler),
    (f"{BASE}/runs/{_ID}/card", RunCardHandler),
    (f"{BASE}/runs/{_ID}/events", RunEventsHandler),
    (f"{BASE}/runs/{_ID}/kill", KillHandler),
    (f"{BASE}/approvals", ApprovalsHandler),
    (f"{BASE}/approvals/{_ID}", ApprovalHandler),
    (f"{BASE}/approvals/{_ID}/decision", DecisionHandler),
    (f"{BASE}/leases", LeasesHandler),
    (f"{BASE}/leases/{_ID}/revoke", RevokeHandler),
    (f"{BASE}/costs", CostsHandler),
    (f"{BASE}/plugins", PluginsHandler),
    (f"{BASE}/plugins/{_ID}/audit", PluginAuditHandler),
    (f"{BASE}/plugins/{_ID}/enable", PluginEnableHandler),
    (f"{BASE}/plugins/{_ID}/disable", PluginDisableHandler),
    (f"{BASE}/plugins/{_ID}/approve", PluginApproveHandler),
    (f"{BASE}/plugins/{_ID}/unapprove", PluginUnapproveHandler),
    (f"{BASE}/memories", MemoriesHandler),
    (f"{BASE}/memories/counts", MemoryCountsHandler),
    (f"{BASE}/memories/{_MEMORY}", MemoryHandler),
    (f"{BASE}/memories/{_MEMORY}/grown", MemoryGrownHandler),
    (f"{BASE}/memories/{_MEMORY}/promote", PromoteHandler),
    (f"{BASE}/memories/{_MEMORY}/demote", DemoteHandler),
    (f"{BASE}/memories/{_MEMORY}/pin", PinHandler),
    (f"{BASE}/memories/{_MEMORY}/unpin", UnpinHandler),
    (f"{BASE}/memories/{_MEMORY}/forget", ForgetHandler),
    (f"{BASE}/memories/{_MEMORY}/restore", RestoreHandler),
    (f"{BASE}/lessons", LessonsHandler),
    (f"{BASE}/openapi.yaml", OpenApiHandler),
    (f"{BASE}(?:/.*)?", NoSuchRoute),
]
