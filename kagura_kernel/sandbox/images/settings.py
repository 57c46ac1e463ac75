"""What fetching packages needs on this machine: a certificate, an index, a registry, a proxy.

Read from the variables that pip, npm and the proxies' clients read themselves. It goes into stages of a build that are
thrown away; proxies go in as Docker's predefined build arguments, which leave no trace. None of it is in an image.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from kagura_kernel.domain.errors import ConfigurationError

CERTIFICATE_VARIABLES = ("PIP_CERT", "NODE_EXTRA_CA_CERTS", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE")
PROXY_VARIABLES = ("HTTP_PROXY", "HTTPS_PROXY", "FTP_PROXY", "NO_PROXY", "ALL_PROXY")
_PIP = {"PIP_INDEX_URL": "index-url", "PIP_EXTRA_INDEX_URL": "extra-index-url"}
_NPM = ("NPM_CONFIG_REGISTRY", "npm_config_registry")


@dataclass(frozen=True, slots=True)
class PackageSettings:
    """How packages are reached.

    Attributes:
        files: `ca.pem`, `pip.conf` and `npmrc`, as far as there is something to say.
        arguments: Build arguments that Docker keeps out of the image.
    """

    files: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    arguments: Mapping[str, str] = field(default_factory=dict, repr=False)


def settings_from(environment: Mapping[str, str]) -> PackageSettings:
    """The settings of an environment.

    Raises:
        ConfigurationError: a certificate that a variable names cannot be read.
    """
    files: dict[str, bytes] = {}
    if name := next((name for name in CERTIFICATE_VARIABLES if environment.get(name)), ""):
        try:
            files["ca.pem"] = Path(environment[name]).read_bytes()
        except OSError as error:
            raise ConfigurationError(name, [f"the certificate cannot be read: {error.strerror}"]) from error
    lines = [f"{option} = {environment[name]}" for name, option in _PIP.items() if environment.get(name)]
    if lines:
        files["pip.conf"] = ("[global]\n" + "\n".join(lines) + "\n").encode()
    if registry := next((environment[name] for name in _NPM if environment.get(name)), ""):
        files["npmrc"] = f"registry={registry}\n".encode()
    arguments = {}
    for name in PROXY_VARIABLES:
        for spelled in (name, name.lower()):
            if value := environment.get(spelled):
                arguments[spelled] = value
    return PackageSettings(files, arguments)
