"""Whether a text is plainly without secrets, so that it need not wait for the scanner's start."""

from __future__ import annotations

from kagura_kernel.kit.redaction.patterns import Lazy

_SUSPICIOUS = Lazy(
    r"pass|pwd|pw\b|secret|token|key|auth|cred|log-?in|sign.?in|pin\b|code|kennw|zugang|contrase|clave|senha|wachtwoord|seed|phrase|mnemonic|"
    r"wallet|recovery|psk|identified|require|machine|cookie|session|bearer|basic|private|begin|://|@|"
    r"[A-Za-z0-9+/=_\-.~%]{16,}|[^\s\x00-\x7f]|(?:[a-z]{3,8}[^a-z\n]{1,4}){11}|\S*[A-Za-z]\S*\d\S*[!@#$%^&*]\S*|\"[^\"]*\"\s*(?:\+|\.|&)?\s*\"|"
    r"\s-{1,2}[a-z]|<<<|\$\w+\$|:[^\s:]+:[^\s:]+:|[A-Za-z]\w{0,30}\d\w{3,}|\d\w{0,3}[A-Za-z]\w{4,}|echo|>"
)
_MOST = 4096


def harmless(data: bytes) -> bool:
    """Whether there is no word that announces a secret, no run long enough to be one, and nothing outside ASCII."""
    return len(data) <= _MOST and _SUSPICIOUS.search(data) is None
