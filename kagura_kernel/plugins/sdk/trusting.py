"""Whose certificates are believed: those of the system, found without asking the environment."""

from __future__ import annotations

import ssl
from pathlib import Path

# Where distributions keep the bundle; what Python was built with comes first.
_FILES = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
)


def client_context(authority: str = "") -> ssl.SSLContext:
    """A client's context: TLS 1.2 or newer, certificates and names are checked, HTTP/1.1 alone is offered.

    Neither `SSL_CERT_FILE` nor `SSLKEYLOGFILE` is heard: what is believed is no matter of the environment.

    Args:
        authority: Certificates (PEM) of the only authority to believe; empty for those of the system.
    """
    # Checks certificates and host names from the start.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    if authority:
        context.load_verify_locations(cadata=authority)
        return context
    paths = ssl.get_default_verify_paths()
    file = next((one for one in (paths.openssl_cafile, *_FILES) if Path(one).is_file()), None)
    folder = paths.openssl_capath if Path(paths.openssl_capath).is_dir() else None
    if file or folder:
        context.load_verify_locations(file, folder)
    return context
