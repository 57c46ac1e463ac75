"""The list of routes; `openapi.yaml` beside this file says what they take and give."""

from __future__ import annotations

from jupyter_server.base.handlers import APIHandler

from kagura_kernel.jupyter.server.approvals import ApprovalHandler, ApprovalsHandler, DecisionHandler
from kagura_kernel.jupyter.server.costs import CostsHandler
from kagura_kernel.jupyter.server.leases import LeasesHandler, RevokeHandler
from kagura_kernel.jupyter.server.plugins import (
    PluginApproveHandler,
    PluginAuditHandler,
    PluginDisableHandler,
    PluginEnableHandler,
    PluginsHandler,
    PluginUnapproveHandler,
)
from kagura_kernel.jupyter.server.runs import KillHandler, RunEventsHandler, RunHandler, RunsHandler
from kagura_kernel.jupyter.server.status import NoSuchRoute, OpenApiHandler, StatusHandler

BASE = "/kagura/api/v1"
_ID = "([A-Za-z0-9_.~-]{1,200})"

ROUTES: list[tuple[str, type[APIHandler]]] = [
    (f"{BASE}/status", StatusHandler),
    (f"{BASE}/runs", RunsHandler),
    (f"{BASE}/runs/{_ID}", RunHandler),
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
    (f"{BASE}/openapi.yaml", OpenApiHandler),
    (f"{BASE}(?:/.*)?", NoSuchRoute),
]
