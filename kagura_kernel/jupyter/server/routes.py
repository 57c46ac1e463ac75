"""The addresses of the server, and which function answers each."""

from __future__ import annotations

import re
from itertools import groupby
from pathlib import Path

from jupyter_server.base.handlers import APIHandler

from kagura_kernel.jupyter.server.handler import JournalHandler, Refused, Route, guarded, handler

BASE = "/kagura/api/v1"
NAMES = {"memory_id": "[A-Za-z0-9_.:-]{1,128}"}
"""What names in paths look like that are not ids of this program's making: memories may be imported."""

OPENAPI = Path(__file__).with_name("openapi.yaml")

_NOT_TOLD = (
    "It has ended already (`ERR_RUN_OVER`), or its brain takes nothing while it works, or its process does not answer "
    "(`ERR_NOT_HEARD`)."
)
_ENDED = "It has ended already (`ERR_RUN_OVER`, `ERR_LEASE_ENDED`)."
_NOT_NOW = (
    "No process that still runs holds the session (`ERR_SESSION_GONE`), the files are not those that were shown "
    "(`ERR_PLUGIN_CHANGED`), they were not audited or have a danger in them (`ERR_PLUGIN_REFUSED`), or they are put "
    "off (`ERR_PLUGIN_QUARANTINED`)."
)
_STATUS, _RUNS, _APPROVALS, _LEASES, _COSTS, _PLUGINS, _MEMORIES, _SETTINGS = (
    f"kagura_{name}" for name in ("status", "runs", "approvals", "leases", "costs", "plugins", "memories", "settings")
)

ROUTES = (
    Route("GET", "/status", _STATUS, "runs:status"),
    Route("GET", "/runs", _RUNS, "runs:runs"),
    Route("GET", "/runs/{run_id}", _RUNS, "runs:run"),
    Route("GET", "/runs/{run_id}/card", _RUNS, "runs:run_card"),
    Route("GET", "/runs/{run_id}/events", _RUNS, "runs:run_events"),
    Route("POST", "/runs/{run_id}/kill", _RUNS, "runs:kill", 202, _ENDED),
    Route("POST", "/runs/{run_id}/sentences", _RUNS, "runs:say", 202, _NOT_TOLD),
    Route("GET", "/approvals", _APPROVALS, "runs:approvals"),
    Route("GET", "/approvals/{approval_id}", _APPROVALS, "runs:approval"),
    Route(
        "POST",
        "/approvals/{approval_id}/decision",
        _APPROVALS,
        "runs:decide",
        conflict="Somebody, or the deadline, was faster; with the decision that stands.",
    ),
    Route("GET", "/leases", _LEASES, "runs:leases"),
    Route("POST", "/leases/{lease_id}/revoke", _LEASES, "runs:revoke", 202, _ENDED),
    Route("GET", "/costs", _COSTS, "runs:costs"),
    Route("GET", "/plugins", _PLUGINS, "plugins:plugins"),
    Route("GET", "/plugins/{name}/audit", _PLUGINS, "plugins:plugin_audit"),
    Route("POST", "/plugins/{name}/audit", _PLUGINS, "plugins:audit_plugin", 202, _NOT_NOW),
    Route("POST", "/plugins/{name}/enable", _PLUGINS, "plugins:enable_plugin", 202, _NOT_NOW),
    Route("POST", "/plugins/{name}/disable", _PLUGINS, "plugins:disable_plugin", 202, _NOT_NOW),
    Route("POST", "/plugins/{name}/approve", _PLUGINS, "plugins:approve_plugin", 202, _NOT_NOW),
    Route("POST", "/plugins/{name}/unapprove", _PLUGINS, "plugins:unapprove_plugin", 202, _NOT_NOW),
    Route("GET", "/memories", _MEMORIES, "memory:memories"),
    Route("GET", "/memories/counts", _MEMORIES, "memory:memory_counts"),
    Route("GET", "/memories/{memory_id}", _MEMORIES, "memory:memory"),
    Route("DELETE", "/memories/{memory_id}", _MEMORIES, "memory:erase_memory"),
    Route("GET", "/memories/{memory_id}/grown", _MEMORIES, "memory:memory_grown"),
    Route("POST", "/memories/{memory_id}/promote", _MEMORIES, "memory:promote_memory"),
    Route("POST", "/memories/{memory_id}/demote", _MEMORIES, "memory:demote_memory"),
    Route("POST", "/memories/{memory_id}/pin", _MEMORIES, "memory:pin_memory"),
    Route("POST", "/memories/{memory_id}/unpin", _MEMORIES, "memory:unpin_memory"),
    Route("POST", "/memories/{memory_id}/forget", _MEMORIES, "memory:forget_memory"),
    Route("POST", "/memories/{memory_id}/restore", _MEMORIES, "memory:restore_memory"),
    Route("GET", "/lessons", _MEMORIES, "memory:lessons"),
    Route("GET", "/settings", _SETTINGS, "settings:settings"),
    Route(
        "POST",
        "/settings",
        _SETTINGS,
        "settings:change_settings",
        conflict="The file is not the one that was shown (`ERR_SETTINGS_CHANGED`).",
    ),
)


class OpenApiHandler(JournalHandler):
    """The OpenAPI file."""

    auth_resource = _STATUS

    async def _send(self) -> None:
        self.finish(OPENAPI.read_bytes(), set_content_type="application/yaml")

    get = guarded(_send)
    head = guarded(_send)


class NoSuchRoute(JournalHandler):
    """Whatever else is asked for below our base."""

    async def _refuse(self) -> None:
        raise Refused(404, "ERR_NOT_FOUND", "There is no such route; openapi.yaml lists those that there are.")

    get = guarded(_refuse)
    head = guarded(_refuse)
    post = guarded(_refuse)


def handlers() -> list[tuple[str, type[APIHandler]]]:
    """What the server is given: each address as a pattern, with its handler."""
    found: list[tuple[str, type[APIHandler]]] = [
        (BASE + _pattern(path), handler(path, list(routes))) for path, routes in groupby(ROUTES, lambda one: one.path)
    ]
    return [*found, (f"{BASE}/openapi.yaml", OpenApiHandler), (f"{BASE}(?:/.*)?", NoSuchRoute)]


def _pattern(path: str) -> str:
    return re.sub(r"{(\w+)}", lambda found: f"({NAMES.get(found[1], '[A-Za-z0-9_.~-]{1,200}')})", path)
