"""Asks HTTPS servers that a person has listed, within a rate and a budget."""

from collections.abc import Callable, Mapping
from typing import Any

from kagura_plugin.arguments import Config
from kagura_plugin.https import HttpsClient, HttpsLimits

SCHEMA = {
    "allowed_domains": {
        "type": "array",
        "items": {"type": "string"},
        "description": "Hosts that may be asked: example.com with all below it, or *.example.com for one level",
        "promptKey": True,
        "maxLength": 255,
    },
    "methods": {
        "type": "array",
        "items": {"type": "string"},
        "description": "What may be done there: GET, HEAD, POST, PUT, PATCH, DELETE",
        "default": ["GET", "HEAD"],
        "promptKey": True,
        "maxLength": 10,
    },
    "max_response_kib": {
        "type": "number",
        "description": "What one answer may hold, in KiB",
        "default": 1024,
        "minimum": 1,
        "maximum": 1024,
    },
    "max_total_kib": {
        "type": "number",
        "description": "What all requests and answers together may hold, in KiB",
        "default": 2048,
        "minimum": 1,
        "maximum": 2048,
    },
    "requests_a_minute": {
        "type": "number",
        "description": "Requests in any minute",
        "default": 30,
        "minimum": 1,
        "maximum": 30,
    },
    "requests_an_hour": {
        "type": "number",
        "description": "Requests in any hour",
        "default": 100,
        "minimum": 1,
        "maximum": 100,
    },
    "timeout_seconds": {
        "type": "number",
        "description": "What one call may take, redirects included",
        "default": 20,
        "minimum": 1,
        "maximum": 25,
    },
}

KIB = 1024


def create_host_functions(config: Mapping[str, Any] | None = None) -> dict[str, dict[str, Callable[..., Any]]]:
    """The module `fetch` for the listed hosts."""
    given = Config(config)
    client = HttpsClient(
        given.texts("allowed_domains"),
        [method.upper() for method in given.texts("methods", ("GET", "HEAD"))],
        HttpsLimits(
            response_bytes=given.whole("max_response_kib", 1024, least=1, most=1024) * KIB,
            total_bytes=given.whole("max_total_kib", 2048, least=1, most=2048) * KIB,
            a_minute=given.whole("requests_a_minute", 30, least=1, most=30),
            an_hour=given.whole("requests_an_hour", 100, least=1, most=100),
            seconds=given.whole("timeout_seconds", 20, least=1, most=25),
        ),
    )

    def get(url: str, headers: dict[str, str] | None = None) -> dict[str, Any]:
        """What a URL answers: {url, status, reason, headers, redirects, cached, text or base64}."""
        return client.fetch(url, "GET", headers)

    def fetch(
        url: str, method: str = "GET", headers: dict[str, str] | None = None, body: str | None = None
    ) -> dict[str, Any]:
        """One request: {url, status, reason, headers, redirects, cached, text or base64}; the body is a text."""
        return client.fetch(url, method, headers, body)

    return {"fetch": {"get": get, "fetch": fetch}}
