"""Slack's words for what is wrong, and what each of them means to us. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from kagura_kernel.cockpit.transports.connecting import LET_IN
from kagura_kernel.cockpit.transports.transport import PostRefused, TransportError, TransportRefused

FOR_GOOD = frozenset(
    {
        "account_inactive",
        "app_uninstalled",
        "invalid_auth",
        "not_authed",
        "team_access_not_granted",
        "token_expired",
        "token_revoked",
    }
)
# What it says of one call that needs another right; where we sign in, there is nothing without that call.
_NO_RIGHT = frozenset({"missing_scope", "not_allowed_token_type"})
# What passes: everything else that it says of a post will be said of it again.
PASSES = frozenset(
    {"accesslimited", "fatal_error", "internal_error", "ratelimited", "request_timeout", "service_unavailable"}
)
_NO = "it says no"


def word_of(response: Any) -> str:
    """What the service says is wrong, `not_in_channel` or the like; from a broken service anything may come."""
    data = getattr(response, "data", response)
    word = data.get("error") if isinstance(data, Mapping) else None
    return word if isinstance(word, str) and re.fullmatch(r"[a-z_]{1,60}", word) else _NO


def kind_of(what: str, word: str) -> type[TransportError]:
    """What an answer with this word means, to what it was asked to do."""
    if word in FOR_GOOD or (what == LET_IN and word in _NO_RIGHT):
        return TransportRefused
    return TransportError if what == LET_IN or word in PASSES or word == _NO else PostRefused
