"""Whether a text is plainly without secrets, so that it need not wait for the scanner's start."""

from __future__ import annotations

import re

from kagura_kernel.kit.redaction.patterns import Lazy
from kagura_kernel.kit.redaction.regions import says_something

_SUSPICIOUS = Lazy(
    r"pass|pwd|pw\b|p/w|secret|token|key|auth|cred|log-?in|sign.?in|pin\b|code|kennw|zugang|contrase|clave|senha|wachtwoord|mdp|seed|phrase|"
    r"mnemonic|wallet|recovery|psk|identified|require|machine|cookie|sess|bearer|basic|private|begin|community|crypt|vault|connect|/user:|"
    r"://[^\s/]*[:@]|@|[?&;][\w\-]+=|[^\s\x00-\x7f]|[\x00-\x08\x0b\x0e-\x1f\x7f]|(?:[a-z]{3,8}[^a-z\n]{1,4}){11}|\S*[A-Za-z]\S*\d\S*[!@#$%^&*]\S*|"
    r"\"[^\"]*\"\s*(?:\+|\.|&)?\s*\"|\s-{1,2}[pPuUwWaAkKhXSyN](?:[^\s\w]|\s*\S)|<<<|\$\w+\$|:[^\s:]+:[^\s:]+:|[A-Za-z]\w{0,30}\d\w{3,}|"
    r"\d\w{0,3}[A-Za-z]\w{4,}|(?:echo|printf)\b[^\n]*\||\s>[^\s>&/=]|</"
)
_RUN = Lazy(r"[A-Za-z0-9+/=_\-.~%]{16,}")
_CHANCE = re.compile(rb"\d|[a-z][A-Z]|[A-Z]{2}[a-z]|[A-Za-z]{20,}|[=~%+]")
"""What the runs of letters in words, names and paths do not have."""
_MOST = 4096


def harmless(data: bytes) -> bool:
    """Whether there is no word that announces a secret, no run that could be one, and nothing outside printed ASCII."""
    if len(data) > _MOST or _SUSPICIOUS.search(data) is not None or says_something(data):
        return False
    return not any(_CHANCE.search(run.group() or b"") for run in _RUN.finditer(data))
