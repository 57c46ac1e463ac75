"""A service on this computer that wants a key, and settings that know it: stands in for one on the internet."""

from __future__ import annotations

import os
import tempfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

PORT = 47113
KEY = "the-secret-that-no-box-sees"

SETTINGS = f"""
preapproved_grants = ["demo:default"]   # nobody is asked, so that this notebook runs by itself

[mirrors]
demo-service = ["127.0.0.1:{PORT}"]

[env]
SERVICE = "http://127.0.0.1:{PORT}"
"""

CREDENTIALS = f"""
[providers.demo]
kind = "static"
secret_env = "DEMO_KEY"

[providers.demo.inject]
upstream = "http://127.0.0.1:{PORT}"
variables = {{ DEMO_URL = "{{url}}" }}
"""


class Service(BaseHTTPRequestHandler):
    """Greets everybody, and tells who has the key."""

    def do_GET(self) -> None:
        """Answer one request."""
        known = self.headers.get("Authorization") == f"Bearer {KEY}"
        answers = {"/hello": (200, "hello"), "/whoami": (200, "you are demo") if known else (401, "a key is missing")}
        status, text = answers.get(self.path, (404, "there is nothing here"))
        body = f"{text}\n".encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nothing: a notebook shows what a cell prints."""


def start() -> None:
    """Start the service, and let the settings of this kernel know it."""
    server = ThreadingHTTPServer(("127.0.0.1", PORT), Service)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    folder = Path(tempfile.mkdtemp(prefix="kagura-crossings-"))
    (folder / "config.toml").write_text(SETTINGS, "utf-8")
    (folder / "credentials.toml").write_text(CREDENTIALS, "utf-8")
    os.environ["KAGURA_CONFIG"] = str(folder / "config.toml")
    os.environ["DEMO_KEY"] = KEY
